import numpy as np
import pytest
from tests.textures import stripes

from supdocnade.errors import InvalidArgument, UnreadableImage
from supdocnade.images.decode import DecodeConfig
from supdocnade.images.dense_sift import DenseSIFTConfig, dense_sift
from supdocnade.runs import RunOptions
from supdocnade.visual_words.describer import SIFTDescriber
from supdocnade.visual_words.encoder import Regions
from supdocnade.visual_words.learn import cut_patches, fit_words, sample_patches

PLAIN = SIFTDescriber(decoding=DecodeConfig(), sift=DenseSIFTConfig())
IMAGES = [stripes(number) for number in range(12)]
WHOLE = Regions.of((1, 1))
SKIP = RunOptions(on_error="skip")


def test_the_same_words_for_any_number_of_workers():
    one, two = (
        fit_words(
            IMAGES,
            PLAIN,
            WHOLE,
            RunOptions(n_jobs=n_jobs),
            n_words=8,
            seed=3,
            contrast_percentile=20,
        )
        for n_jobs in (1, 2)
    )
    assert one.encoder.fingerprint() == two.encoder.fingerprint()
    assert one.examples.pictures == two.examples.pictures


@pytest.mark.parametrize(("size", "n_images"), [(200, 3), (64, 1), (10_000, 12), (30, 1)])
def test_a_sample_is_bounded_and_of_real_patches(size, n_images):
    sample, skipped = sample_patches(IMAGES, PLAIN, size, seed=0)
    assert not skipped
    assert len(sample.values_ND) <= size
    assert len(set(sample.image_N)) == n_images
    for n in range(0, len(sample.values_ND), 17):
        found = dense_sift(IMAGES[sample.image_N[n]])
        assert (found.values_SD == sample.values_ND[n]).all(axis=1).any()


def test_the_floor_of_contrast_is_a_percentile():
    fitted = fit_words(IMAGES, PLAIN, WHOLE, n_words=8, seed=0, contrast_percentile=25)
    floor = fitted.encoder.describer.sift.contrast_floor
    contrast = np.concatenate([dense_sift(image).contrast_S for image in IMAGES])
    assert (contrast < floor).mean() == pytest.approx(0.25, abs=0.01)
    plain = fit_words(IMAGES, PLAIN, WHOLE, n_words=8, seed=0)
    assert plain.encoder.describer.sift.contrast_floor == 0


def test_examples_belong_to_their_words():
    """Every example, looked for in its image, is a patch that the encoder gives that word."""
    fitted = fit_words(IMAGES, PLAIN, WHOLE, n_words=8, seed=0, n_examples=16)
    found = []
    for image in IMAGES:
        encoded = fitted.encoder.encode(image)
        color = np.stack([image] * 3, axis=-1)
        patches = cut_patches(color, encoded.centres_S2, encoded.patch_size_S, 16)
        for word, patch in zip(encoded.words_SM[:, 0], patches, strict=True):
            found.append((patch, int(word)))
    assert fitted.examples.n_examples_K.sum() > 8 * 8
    for word in range(8):
        candidates = np.stack([each for each, other in found if other == word])
        for patch in fitted.examples.patches(word):
            error = np.abs(candidates.astype(int) - patch).mean(axis=(1, 2, 3)).min()
            assert error < 6  # The pictures are compressed.


def test_examples_are_of_many_images_before_they_are_of_one():
    same = [IMAGES[0]] * 6
    fitted = fit_words(same, PLAIN, WHOLE, n_words=2, seed=0, n_examples=6)
    # Six equal images: the best patch of each is the same one, six times.
    patches = fitted.examples.patches(0).astype(int)
    assert np.abs(patches - patches[:1]).mean() < 4  # The pictures are compressed.


def test_a_patch_is_cut_around_its_centre():
    image = np.arange(40 * 40 * 3, dtype=np.uint32).reshape(40, 40, 3).astype(np.uint8)
    # Four bins of four pixels, with centres at 8, 12, 16 and 20.
    centres = np.array([[14.0, 14.0], [6.0, 6.0]])
    inner, corner = cut_patches(image, centres, np.array([16, 16]), 16)
    np.testing.assert_array_equal(inner, image[6:22, 6:22])
    np.testing.assert_array_equal(corner[2:, 2:], image[:14, :14])
    np.testing.assert_array_equal(corner[0], corner[2])


def test_images_that_cannot_be_read():
    with pytest.raises(UnreadableImage, match="image 1 is empty"):
        fit_words([IMAGES[0], b""], PLAIN, WHOLE, n_words=4, seed=0)
    fitted = fit_words([IMAGES[0], b""], PLAIN, WHOLE, SKIP, n_words=4, seed=0)
    assert [each.number for each in fitted.skipped] == [1]
    with pytest.raises(InvalidArgument, match="X must have an image that can be read, got 2"):
        fit_words([b"", b""], PLAIN, WHOLE, SKIP, n_words=4, seed=0)
    with pytest.raises(InvalidArgument, match="X must have an image, got none"):
        fit_words([], PLAIN, WHOLE, n_words=4, seed=0)


def test_more_words_than_patches_are_refused():
    with pytest.raises(InvalidArgument, match="n_words must be at most the number of different"):
        fit_words(IMAGES[:1], PLAIN, WHOLE, n_words=5000, seed=0)


def test_no_examples_are_kept_where_none_are_wanted():
    fitted = fit_words(IMAGES, PLAIN, WHOLE, n_words=4, seed=0, n_examples=0)
    assert fitted.examples.patches(3).shape == (0, 16, 16, 3)
