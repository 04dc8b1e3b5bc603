import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import KMeans, MiniBatchKMeans
from threadpoolctl import threadpool_limits

from supdocnade.likelihood.cpu.threads import limit_threads
from supdocnade.progress import no_progress
from supdocnade.seeding import named_generator
from supdocnade.visual_words.kmeans import (
    LEARNING,
    assign,
    choose_start,
    find_centres,
    fit_full_batch,
    fit_mini_batches,
    sum_clusters,
)

ROOT = Path(__file__).parents[3]
VALUES = np.random.default_rng(0).normal(size=(4000, 16)).astype(np.float32)


def inertia(centres):
    distances = np.square(VALUES[:, None, :].astype(np.float64) - centres[None]).sum(axis=2)
    return distances.min(axis=1).sum()


@pytest.mark.parametrize("n_clusters", [3, 20, 100])
def test_full_batches_are_as_good_as_scikit_learn_from_the_same_start(n_clusters):
    start = choose_start(VALUES, n_clusters, named_generator(5, "codebook"))
    with threadpool_limits(1):
        theirs = KMeans(n_clusters, init=start, n_init=1, max_iter=30).fit(VALUES).cluster_centers_
    ours = find_centres(VALUES, n_clusters, 5, max_rounds=30)
    assert ours.dtype == np.float32
    np.testing.assert_array_equal(ours, fit_full_batch(VALUES, start, 30))
    assert inertia(ours) == pytest.approx(inertia(theirs), rel=1e-3)


def test_mini_batches_are_as_good_as_scikit_learn():
    n_clusters = 300
    with threadpool_limits(1):
        theirs = MiniBatchKMeans(
            n_clusters, batch_size=4000, max_iter=30, n_init=1, init="random", random_state=0
        ).fit(VALUES)
    ours = fit_mini_batches(VALUES, n_clusters, named_generator(0, "codebook"), 30, no_progress)
    assert inertia(ours) < 1.01 * inertia(theirs.cluster_centers_)


def test_clusters_worked_by_hand():
    values = np.array([[0, 0], [0, 2], [10, 0], [10, 2]], np.float32)
    found = fit_full_batch(values, values[[0, 2]], 10)
    np.testing.assert_array_equal(found, [[0, 1], [10, 1]])
    cluster, score = assign(values, found)
    assert cluster.tolist() == [0, 0, 1, 1]
    np.testing.assert_array_equal(2 * score + np.square(values).sum(axis=1), [1, 1, 1, 1])
    sums, count = sum_clusters(values, cluster, 3)
    assert (sums.tolist(), count.tolist()) == ([[0, 2], [20, 2], [0, 0]], [2, 2, 0])


def test_empty_clusters_take_the_farthest_rows():
    values = np.array([[0.0], [1.0], [2.0], [50.0], [90.0]], np.float32)
    # Two centres so far away that no row is theirs: they take 90 and 50.
    found = fit_full_batch(values, np.array([[0.0], [-900.0], [-990.0]], np.float32), 10)
    np.testing.assert_array_equal(found, [[1], [90], [50]])


def test_as_many_clusters_as_rows():
    values = VALUES[:30]
    found = fit_full_batch(values, np.zeros((30, 16), np.float32), 10)
    np.testing.assert_array_equal(np.sort(found, axis=0), np.sort(values, axis=0))


def test_other_seeds_give_other_centres():
    one, other = (find_centres(VALUES, 20, seed, max_rounds=3) for seed in (0, 1))
    assert (one != other).any()


@pytest.mark.parametrize("n_clusters", [300, 2001])
def test_the_bits_do_not_depend_on_the_threads(n_clusters):
    found = []
    for threads in (1, 2, 3, 8):
        with limit_threads(threads):
            found.append(find_centres(VALUES, n_clusters, 3, max_rounds=3))
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_the_bits_do_not_depend_on_the_environment():
    code = """
import hashlib, numpy as np
from supdocnade.visual_words.codebook import fit_codebook
values = np.random.default_rng(0).normal(size=(4000, 32)).astype(np.float32)
print(hashlib.sha256(fit_codebook(values, 300, seed=3).centres_KD.tobytes()).hexdigest())
"""
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "OMP_NUM_THREADS": threads},
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        for threads in ("1", "3")
    ]
    assert {run.returncode for run in runs} == {0}, runs[0].stderr
    assert len({run.stdout for run in runs}) == 1


@pytest.mark.parametrize("n_clusters", [20, 2500])
def test_rounds_are_reported_one_by_one(n_clusters, capsys):
    reports = []
    reported = find_centres(
        VALUES, n_clusters, 0, max_rounds=6, progress=lambda *report: reports.append(report)
    )
    assert reports == [(LEARNING, done, 6) for done in range(7)]
    assert capsys.readouterr().out == ""
    np.testing.assert_array_equal(reported, find_centres(VALUES, n_clusters, 0, max_rounds=6))


def test_the_last_report_is_of_all_rounds_also_when_fewer_were_needed():
    reports = []
    values = np.repeat(np.eye(4, dtype=np.float32), 50, axis=0)
    find_centres(values, 4, 0, max_rounds=30, progress=lambda *report: reports.append(report[1:]))
    assert len(reports) < 5
    assert reports[-1] == (30, 30)


def test_an_interrupt_ends_the_search():
    def interrupt(stage, done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        find_centres(VALUES, 20, 0, max_rounds=6, progress=interrupt)
