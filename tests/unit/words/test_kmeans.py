import sys
import threading

import numpy as np
import pytest
from sklearn.cluster import KMeans, kmeans_plusplus
from threadpoolctl import threadpool_limits

from supdocnade.seeding import named_generator
from supdocnade.words import kmeans
from supdocnade.words.kmeans import START_SAMPLE, find_centres

VALUES = np.random.default_rng(0).normal(size=(4000, 16)).astype(np.float32)


def test_centres_are_those_of_scikit_learn_to_the_last_bit():
    """Whatever is done to report progress: models and figures rest on these bits."""
    generator = named_generator(5, "codebook")
    state = int(generator.integers(2**31))
    few = VALUES[np.sort(generator.permutation(len(VALUES))[: START_SAMPLE * 20])]
    with threadpool_limits(1):
        start, _ = kmeans_plusplus(few, 20, random_state=state)
        plain = KMeans(20, init=start, n_init=1, max_iter=30, random_state=state).fit(VALUES)
    for on_round in (None, lambda done, total: None):
        found = find_centres(VALUES, 20, 5, max_rounds=30, on_round=on_round)
        np.testing.assert_array_equal(found, plain.cluster_centers_)


@pytest.mark.parametrize(("n_words", "in_batches"), [(20, False), (2500, True)])
def test_rounds_are_counted_to_the_end(n_words, in_batches, capsys):
    seen = []
    told = find_centres(VALUES, n_words, 0, max_rounds=6, on_round=lambda *now: seen.append(now))
    total = 6 * len(VALUES) // len(VALUES) if in_batches else 6
    assert seen[0] == (0, total)
    assert seen[-1] == (total, total)
    # One report a round, in between and not all at the end.
    assert [done for done, _ in seen[:-1]] == list(range(len(seen) - 1))
    assert len(seen) > 4
    assert capsys.readouterr().out == ""
    np.testing.assert_array_equal(told, find_centres(VALUES, n_words, 0, max_rounds=6))


def test_what_others_print_is_printed(capsys):
    before = sys.stdout

    def on_round(done, total):
        print("round", done)
        other = threading.Thread(target=print, args=("other", done))
        other.start()
        other.join()

    find_centres(VALUES, 4, 0, max_rounds=2, on_round=on_round)
    assert sys.stdout is before
    lines = [f"{who} {done}" for done in (0, 1, 2, 2) for who in ("round", "other")]
    assert capsys.readouterr().out.splitlines() == lines


def test_an_interrupt_leaves_stdout_as_it_was():
    before = sys.stdout

    def on_round(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        find_centres(VALUES, 20, 0, max_rounds=6, on_round=on_round)
    assert sys.stdout is before
    assert not kmeans._listening.locked()


def test_a_second_k_means_at_the_same_time_works_in_silence():
    inner = []

    def on_round(done, total):
        if done == 1:
            found = find_centres(
                VALUES, 4, 0, max_rounds=2, on_round=lambda *now: inner.append(now)
            )
            np.testing.assert_array_equal(found, find_centres(VALUES, 4, 0, max_rounds=2))

    find_centres(VALUES, 20, 0, max_rounds=3, on_round=on_round)
    assert inner == []
