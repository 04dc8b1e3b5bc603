from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from supdocnade.errors import InvalidArgument
from supdocnade.likelihood.cpu.threads import one_blas_thread
from supdocnade.visual_words.codebook import Codebook, fit_codebook
from supdocnade.visual_words.gpu import DeviceCodebook


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


def test_centres_are_checked():
    with pytest.raises(InvalidArgument, match="centres must be finite"):
        Codebook(np.full((2, 2), np.nan, np.float32))
    with pytest.raises(InvalidArgument, match=r"descriptors must have shape \(2,\), got \(3,\)"):
        Codebook(np.eye(2, dtype=np.float32)).assign(np.zeros((1, 3), np.float32))


def test_descriptors_that_are_tensors_have_the_same_words(monkeypatch):
    rng = np.random.default_rng(0)
    codebook = Codebook(rng.random((30, 8)).astype(np.float32))
    values = rng.random((101, 8)).astype(np.float32)
    expected = codebook.assign(values)
    centres = DeviceCodebook(codebook, torch.device("cpu"))
    np.testing.assert_array_equal(centres.assign(torch.from_numpy(values)), expected)
    for module in ("codebook", "gpu"):
        monkeypatch.setattr(f"supdocnade.visual_words.{module}.BLOCK", 30 * 7)
    np.testing.assert_array_equal(codebook.assign(values), expected)
    np.testing.assert_array_equal(centres.assign(torch.from_numpy(values)), expected)
    assert len(centres.assign(torch.empty(0, 8))) == 0


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


def limits():
    """Return the numbers of threads of all BLAS libraries."""
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


@pytest.fixture
def _two_blas_threads():
    """Use other numbers of threads than the one that is set here."""
    with threadpool_limits(2, user_api="blas"):
        yield


@pytest.mark.usefixtures("_two_blas_threads")
def test_the_limit_of_blas_is_lifted_again():
    assert limits() == {2}
    with one_blas_thread(), one_blas_thread():
        assert limits() == {1}
    assert limits() == {2}


@pytest.mark.usefixtures("_two_blas_threads")
def test_every_thread_can_limit_blas():
    """Not only the first one that did so."""

    def limits_inside():
        with one_blas_thread():
            return limits()

    before = limits()
    assert limits_inside() == {1}
    with ThreadPoolExecutor(1) as worker:
        assert worker.submit(limits_inside).result() == {1}
    assert limits_inside() == {1}
    assert limits() == before
