from dataclasses import replace

import numpy as np
import pytest
from tests.networks import LAYERS, install_network
from tests.textures import stripes

from supdocnade.errors import InvalidArgument, UnreadableImage
from supdocnade.images.decode import DecodeConfig
from supdocnade.images.dense_sift import DenseSIFTConfig, dense_sift
from supdocnade.images.regions import Regions
from supdocnade.schema import load, save
from supdocnade.visual_words.codebook import Codebook, fit_codebook
from supdocnade.visual_words.describer import NetworkDescriber, SIFTDescriber
from supdocnade.visual_words.encoder import ImageEncoder, PatchExamples

CODEBOOK = Codebook(np.random.default_rng(0).random((12, 128)).astype(np.float32))
PLAIN = SIFTDescriber(decoding=DecodeConfig(), sift=DenseSIFTConfig())


def encoder(describer=PLAIN, grid=(2, 2), codebook=CODEBOOK):
    return ImageEncoder(describer=describer, codebook=codebook, regions=Regions.of(grid))


def test_an_image_step_by_step():
    image = stripes(0)
    encoded = encoder().encode(image)
    found = dense_sift(image)
    away = np.square(found.values_SD[:, None] - CODEBOOK.centres_KD).sum(axis=2)
    np.testing.assert_array_equal(encoded.words_SM[:, 0], away.argmin(axis=1))
    lower, right = (found.centres_S2 >= (32, 36)).T
    np.testing.assert_array_equal(encoded.ids, 12 * (2 * lower + right) + away.argmin(axis=1))
    assert encoded.size == (64, 72)
    assert encoder().n_features == 48


def test_the_number_of_patches_is_limited():
    many = SIFTDescriber(decoding=DecodeConfig(max_side=1200), sift=DenseSIFTConfig(step=1))
    with pytest.raises(UnreadableImage, match="a has 1411344 patches; the limit is 1048576"):
        encoder(many).encode(np.zeros((64, 64), np.uint8), "a")


def test_256_pixels_have_961_words_even_where_there_is_nothing_to_see():
    assert len(encoder().encode(np.full((256, 256), 200, np.uint8)).ids) == 961


def test_too_small_an_image_is_named():
    small = "has 40 × 9 pixels, and patches of 16 need at least 13 × 13"
    with pytest.raises(UnreadableImage, match=f"holiday is too small: it {small}"):
        encoder().encode(np.zeros((9, 40), np.uint8), "holiday")
    with pytest.raises(UnreadableImage, match="the image is too small"):
        encoder().encode(np.zeros((9, 40), np.uint8))


def test_fingerprints_differ_where_words_could():
    other_words = Codebook(CODEBOOK.centres_KD + np.float32(1e-6))
    some = [
        encoder(),
        encoder(grid=(1, 1)),
        encoder(codebook=other_words),
        encoder(replace(PLAIN, decoding=DecodeConfig(max_side=100))),
        encoder(replace(PLAIN, sift=DenseSIFTConfig(contrast_floor=0.5))),
        encoder(replace(PLAIN, sift=DenseSIFTConfig(patch_size=(16, 24)))),
    ]
    assert len({each.fingerprint() for each in some}) == len(some)
    assert encoder().fingerprint() == encoder().fingerprint()


def stored_again(encoder, tmp_path):
    save(tmp_path / "file", "ImageEncoder", encoder)
    return load(tmp_path / "file", "ImageEncoder", ImageEncoder)


def test_a_stored_encoder_is_the_same(tmp_path):
    sift = DenseSIFTConfig(patch_size=(16, 24), contrast_floor=1 / 3)
    before = replace(encoder(replace(PLAIN, sift=sift), grid=[(1, 1), (2, 3)]), mirror=True)
    after = stored_again(before, tmp_path)
    assert after.fingerprint() == before.fingerprint()
    np.testing.assert_array_equal(after.encode(stripes(3)).ids, before.encode(stripes(3)).ids)


SYMMETRIC = [(16, (64, 61)), (16, (40, 93)), (32, (64, 65))]
"""Widths at which the last patch is as far from the edge as the first one. At others a mirror image
has the patches that a grid from the right edge would give."""


@pytest.mark.parametrize(("patch_size", "shape"), SYMMETRIC)
def test_mirrored_words_are_those_of_mirrored_pixels(patch_size, shape):
    image = stripes(5, shape)
    sift = DenseSIFTConfig(patch_size=patch_size)
    codebook = fit_codebook(dense_sift(image, sift).values_SD, 12, seed=0)
    described = replace(PLAIN, sift=sift)
    one = encoder(described, [(1, 1), (2, 2), (2, 3)], codebook)
    both = replace(one, mirror=True)
    here, there = one.encode(image).ids, one.encode(np.fliplr(image)).ids
    assert both.n_features == one.n_features
    found, words = both.encode(image), one.encode(image)
    np.testing.assert_array_equal(found.ids[: len(here)], here)
    np.testing.assert_array_equal(np.sort(found.ids[len(here) :]), np.sort(there))
    np.testing.assert_array_equal(found.words_SM[: len(words.words_SM)], words.words_SM)
    # A mirrored patch is at the place of the patch.
    np.testing.assert_array_equal(found.centres_S2, np.tile(words.centres_S2, (2, 1)))
    np.testing.assert_array_equal(found.patch_size_S, np.tile(words.patch_size_S, 2))
    assert (np.sort(here) != np.sort(there)).any()


def test_an_encoder_of_both_sides_is_another():
    one = encoder()
    assert replace(one, mirror=True).fingerprint() != one.fingerprint()
    assert replace(one, mirror=False).fingerprint() == one.fingerprint()


def colored(number, shape=(64, 61)):
    return np.stack([stripes(number + i, shape) for i in range(3)], axis=-1)


def network_encoder(tmp_path, monkeypatch, **settings):
    """An encoder of 2 × 2 patches with a network of three maps."""
    describer = NetworkDescriber.find(install_network(tmp_path, monkeypatch, **LAYERS))
    found = [describer.describe(colored(number, (8, 8))) for number in range(6)]
    patches = np.concatenate([each.values_SD for each in found])
    describer = describer.fit(patches, np.array([each.image_F for each in found]))
    codebook = fit_codebook(describer.project(patches), 5, seed=0)
    return ImageEncoder(
        describer=describer, codebook=codebook, regions=Regions.of((1, 2)), **settings
    )


def test_a_patch_has_its_nearest_words(tmp_path, monkeypatch):
    image = colored(1, (8, 8))
    one, three = (network_encoder(tmp_path, monkeypatch, n_nearest=n) for n in (1, 3))
    found = three.encode(image)
    values_SD = three.describer.describe(image).values_SD
    away = np.square(values_SD[:, None] - three.codebook.centres_KD).sum(axis=2)
    np.testing.assert_array_equal(found.words_SM, away.argsort(axis=1)[:, :3])
    np.testing.assert_array_equal(found.words_SM[:, :1], one.encode(image).words_SM)
    regions = np.array([0, 1, 0, 1])
    np.testing.assert_array_equal(found.ids.reshape(4, 3), 5 * regions[:, None] + found.words_SM)
    assert found.features_F.shape == (three.n_image_features,) == (12,)
    assert one.fingerprint() != three.fingerprint()


def test_a_stored_encoder_with_a_network_is_the_same(tmp_path, monkeypatch):
    before = network_encoder(tmp_path, monkeypatch)
    assert before.fingerprint() != replace(before, n_nearest=2).fingerprint()
    after = stored_again(before, tmp_path)
    assert after.fingerprint() == before.fingerprint()
    assert after.map_width == before.map_width == (3, 3, 6)
    image = colored(3, (40, 50))
    np.testing.assert_array_equal(after.encode(image).ids, before.encode(image).ids)
    np.testing.assert_array_equal(after.encode(image).features_F, before.encode(image).features_F)


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
