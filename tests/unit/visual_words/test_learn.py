import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.textures import stripes

from supdocnade.errors import InvalidArgument, UnreadableImage
from supdocnade.images.decode import DecodeConfig
from supdocnade.images.dense_sift import DenseSIFTConfig, dense_sift
from supdocnade.runs import RunOptions
from supdocnade.threads import limit_threads
from supdocnade.visual_words.describer import SIFTDescriber
from supdocnade.visual_words.learn import (
    fit_codebook,
    learn_words,
    sample_patches,
)
from supdocnade.visual_words.settings import VisualWordSettings

PLAIN = SIFTDescriber(decoding=DecodeConfig(), sift=DenseSIFTConfig())
IMAGES = [stripes(number) for number in range(12)]
SKIP = RunOptions(on_error="skip")
ROOT = Path(__file__).parents[3]
VALUES = np.random.default_rng(0).normal(size=(4000, 16)).astype(np.float32)


def learn(images, n_words, options=RunOptions(), seed=0, **settings):
    settings = VisualWordSettings(n_words=n_words, grid=(1, 1), **settings)
    return learn_words(images, settings, seed, options)


def test_the_same_words_for_any_number_of_workers():
    one, two = (
        learn(IMAGES, 8, RunOptions(n_jobs=n_jobs), seed=3, contrast_percentile=20)
        for n_jobs in (1, 2)
    )
    assert one[0].fingerprint() == two[0].fingerprint()


@pytest.mark.parametrize(("size", "n_images"), [(200, 3), (64, 1), (10_000, 12), (30, 1)])
def test_a_sample_is_bounded_and_of_real_patches(size, n_images):
    sample, skipped = sample_patches(IMAGES, PLAIN, size, seed=0)
    assert not skipped
    assert len(sample.values_ND) <= size
    assert len(sample.features_BF) == n_images
    patches = np.concatenate([dense_sift(image).values_SD for image in IMAGES])
    for value_D in sample.values_ND[::17]:
        assert (patches == value_D).all(axis=1).any()


def test_the_floor_of_contrast_is_a_percentile():
    encoder, _ = learn(IMAGES, 8, contrast_percentile=25)
    floor = encoder.describer.sift.contrast_floor
    contrast = np.concatenate([dense_sift(image).contrast_S for image in IMAGES])
    assert (contrast < floor).mean() == pytest.approx(0.25, abs=0.01)
    plain, _ = learn(IMAGES, 8)
    assert plain.describer.sift.contrast_floor == 0


def test_images_that_cannot_be_read():
    with pytest.raises(UnreadableImage, match="image 1 is empty"):
        learn([IMAGES[0], b""], 4)
    _, skipped = learn([IMAGES[0], b""], 4, SKIP)
    assert [each.number for each in skipped] == [1]
    with pytest.raises(InvalidArgument, match="X must have an image that can be read, got 2"):
        learn([b"", b""], 4, SKIP)
    with pytest.raises(InvalidArgument, match="X must have an image, got none"):
        learn([], 4)


def blobs(n_blobs, count, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, 10, (n_blobs, 6)).astype(np.float32)
    labels = rng.integers(n_blobs, size=count)
    return centres, centres[labels] + rng.normal(0, 0.1, (count, 6)).astype(np.float32), labels


def test_planted_words_are_found():
    centres, values, labels = blobs(12, 3000)
    codebook = fit_codebook(values, 12, seed=0)
    words = codebook.assign(values)[:, 0]
    # One word a blob, and one blob a word.
    pairs = set(zip(words.tolist(), labels.tolist(), strict=True))
    assert len(pairs) == 12
    order = codebook.assign(centres)[:, 0]
    np.testing.assert_allclose(codebook.centres_KD[order], centres, atol=0.05)


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
    spread = ((values - book.centres_KD[book.assign(values)[:, 0]]) ** 2).sum(axis=1).mean()
    assert spread < 0.25 * values.var(axis=0).sum()


@pytest.mark.parametrize(
    ("count", "n_words", "message"),
    [
        (50, 100_001, "n_words must be at most 100000"),
        (50, 51, "images must have at least 51 different patches, got 50"),
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
    with pytest.raises(InvalidArgument, match="at least 5 different patches, got 4"):
        fit_codebook(values, 5, seed=0)


def test_clusters_worked_by_hand():
    values = np.repeat(np.array([[1, 0], [1, 2], [10, 0], [10, 2]], np.float32), 50, axis=0)
    found = fit_codebook(values, 2, seed=0).centres_KD
    np.testing.assert_allclose(found[np.argsort(found[:, 0])], [[1, 1], [10, 1]], atol=0.3)


@pytest.mark.parametrize("n_clusters", [20, 300])
def test_the_bits_do_not_depend_on_the_threads(n_clusters):
    found = []
    for threads in (1, 2, 3, 8):
        with limit_threads(threads):
            found.append(fit_codebook(VALUES, n_clusters, seed=3).centres_KD)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_the_bits_do_not_depend_on_the_environment():
    code = """
import sys, numpy as np
from supdocnade.visual_words.learn import fit_codebook
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
