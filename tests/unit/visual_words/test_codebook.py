import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from supdocnade.errors import InvalidArgument
from supdocnade.seeding import named_generator
from supdocnade.threads import limit_threads
from supdocnade.visual_words.codebook import Codebook, PatchExamples, find_centres, fit_codebook


def blobs(n_blobs, count, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, 10, (n_blobs, 6)).astype(np.float32)
    labels = rng.integers(n_blobs, size=count)
    return centres, centres[labels] + rng.normal(0, 0.1, (count, 6)).astype(np.float32), labels


def test_planted_words_are_found():
    centres, values, labels = blobs(12, 3000)
    codebook = fit_codebook(values, 12, seed=0)
    words = codebook.assign(values)
    # One word a blob, and one blob a word.
    pairs = set(zip(words.tolist(), labels.tolist(), strict=True))
    assert len(pairs) == 12
    order = codebook.assign(centres)
    np.testing.assert_allclose(codebook.centres_KD[order], centres, atol=0.05)


def test_assignment_is_the_nearest_centre():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(300, 128)).astype(np.float32)
    values = rng.normal(size=(1000, 128)).astype(np.float32)
    distances = ((values[:, None].astype(float) - centres[None]) ** 2).sum(axis=2)
    words = Codebook(centres).assign(values)
    np.testing.assert_array_equal(words, distances.argmin(axis=1))
    assert words.dtype == np.int32


def test_zeros_are_assigned_and_blocks_do_not_matter(monkeypatch):
    centres = np.array([[1, 0], [0, 2]], np.float32)
    centres.setflags(write=False)
    book = Codebook(centres[::-1])
    values = np.array([[2, 0], [0, 0], [0, 3]], np.float64)
    assert book.assign(values).tolist() == [1, 1, 0]
    monkeypatch.setattr("supdocnade.visual_words.codebook.BLOCK", 2)  # One descriptor at a time.
    assert book.assign(values).tolist() == [1, 1, 0]
    with pytest.raises(InvalidArgument, match="descriptors must be finite"):
        book.assign(np.full((1, 2), np.nan))
    assert book.assign(np.empty((0, 2), np.float32)).tolist() == []


def test_descriptors_of_zero_make_no_word():
    _, values, _ = blobs(3, 300)
    with_zeros = np.concatenate([values, np.zeros((300, 6), np.float32)])
    book = fit_codebook(with_zeros, 3, seed=0)
    assert (abs(book.centres_KD).sum(axis=1) > 1).all()


def test_many_words_are_made_in_small_batches():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(6000, 4)).astype(np.float32)
    book = fit_codebook(values, 2500, seed=0)
    assert book.n_words == 2500
    spread = ((values - book.centres_KD[book.assign(values)]) ** 2).sum(axis=1).mean()
    assert spread < 0.25 * values.var(axis=0).sum()


@pytest.mark.parametrize(
    ("count", "n_words", "message"),
    [
        (50, 1, "n_words must be a whole number of at least 2, got 1"),
        (50, 100_001, "n_words must be at most 100000"),
        (50, 51, "n_words must be at most the number of different patches, 50, got 51"),
    ],
)
def test_odd_numbers_of_words_are_refused(count, n_words, message):
    with pytest.raises(InvalidArgument, match=message):
        fit_codebook(blobs(3, count)[1], n_words, seed=0)


@pytest.mark.parametrize(("min_words", "expected"), [(4, 12), (20, 20)])
def test_few_descriptors_have_fewer_words_if_they_may(min_words, expected):
    values = blobs(3, 50)[1]
    assert fit_codebook(values, 51, seed=0, min_words=min_words).n_words == expected
    assert fit_codebook(values, 50, seed=0, min_words=min_words).n_words == 50
    with pytest.raises(InvalidArgument, match="at least 51 different patches, got 50"):
        fit_codebook(values, 60, seed=0, min_words=51)


def test_equal_descriptors_are_one():
    values = np.repeat(np.eye(4, dtype=np.float32), 50, axis=0)
    assert fit_codebook(values, 4, seed=0).n_words == 4
    with pytest.raises(InvalidArgument, match="different patches, 4, got 5"):
        fit_codebook(values, 5, seed=0)


def test_descriptors_of_another_size_are_refused():
    with pytest.raises(InvalidArgument, match=r"descriptors must have shape \(2,\), got \(3,\)"):
        Codebook(np.eye(2, dtype=np.float32)).assign(np.zeros((1, 3), np.float32))


def test_words_do_not_depend_on_the_number_of_blas_threads():
    rng = np.random.default_rng(1)
    codebook = Codebook(rng.random((240, 128)).astype(np.float32))
    values = rng.random((2000, 128)).astype(np.float32)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"), ThreadPoolExecutor(4) as workers:
            found += workers.map(codebook.assign, [values] * 8)
    for words in found:
        np.testing.assert_array_equal(words, found[0])


def test_a_library_that_is_loaded_later_is_limited_too():
    """numpy and scipy bring a BLAS each."""
    code = """
from supdocnade.threads import one_blas_thread
with one_blas_thread():
    pass
import scipy.linalg
from threadpoolctl import threadpool_info
with one_blas_thread():
    print({each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"})
"""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert (run.returncode, run.stdout.strip()) == (0, b"{1}"), run.stderr


ROOT = Path(__file__).parents[3]
VALUES = np.random.default_rng(0).normal(size=(4000, 16)).astype(np.float32)


def test_clusters_worked_by_hand():
    values = np.repeat(np.array([[0, 0], [0, 2], [10, 0], [10, 2]], np.float32), 50, axis=0)
    found = find_centres(values, 2, named_generator(0, "codebook"))
    np.testing.assert_allclose(found[np.argsort(found[:, 0])], [[0, 1], [10, 1]], atol=0.3)


@pytest.mark.parametrize("n_clusters", [20, 300])
def test_the_bits_do_not_depend_on_the_threads(n_clusters):
    found = []
    for threads in (1, 2, 3, 8):
        with limit_threads(threads):
            found.append(find_centres(VALUES, n_clusters, named_generator(3, "codebook")))
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_the_bits_do_not_depend_on_the_environment():
    code = """
import sys, numpy as np
from supdocnade.visual_words.codebook import fit_codebook
values = np.random.default_rng(0).normal(size=(4000, 16)).astype(np.float32)
sys.stdout.buffer.write(fit_codebook(values, 300, seed=3).centres_KD.tobytes())
"""
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "OMP_NUM_THREADS": "3"},
        cwd=ROOT,
        capture_output=True,
    )
    assert run.returncode == 0, run.stderr
    with limit_threads(1):
        assert fit_codebook(VALUES, 300, seed=3).centres_KD.tobytes() == run.stdout


def smooth_patches(n_examples, side=48):
    """Patches whose colours change slowly."""
    rng = np.random.default_rng(n_examples)
    corners = rng.integers(0, 256, (n_examples, 2, 1, 3))
    part = np.linspace(0, 1, side)[:, None, None, None]
    rows = corners[:, 0] * (1 - part) + corners[:, 1] * part
    return np.repeat(rows.transpose(1, 0, 2, 3), side, axis=2).round().astype(np.uint8)


GIVEN = [smooth_patches(n) for n in (16, 0, 1, 5)]
EXAMPLES = PatchExamples.of(GIVEN, 48)


def test_patches_are_nearly_those_that_were_given():
    for word, given in enumerate(GIVEN):
        found = EXAMPLES.patches(word)
        assert found.shape == given.shape
        assert len(given) == 0 or np.abs(found.astype(int) - given).mean() < 4


def test_pictures_are_far_smaller_than_their_pixels():
    assert sum(map(len, EXAMPLES.pictures)) * 10 < sum(each.nbytes for each in GIVEN)


def test_a_word_with_examples_must_have_a_picture():
    with pytest.raises(InvalidArgument, match="a picture of each word with examples"):
        PatchExamples(EXAMPLES.pictures, np.array([16, 1, 1, 5], np.int32), 48)


def test_a_picture_of_another_size_is_refused():
    swapped = PatchExamples(EXAMPLES.pictures, EXAMPLES.n_examples_K[[3, 1, 2, 0]], 48)
    with pytest.raises(InvalidArgument, match="picture must have shape"):
        swapped.patches(0)
