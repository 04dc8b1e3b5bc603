import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tests.networks import install_network
from tests.textures import stripes, write_images

from supdocnade import BagOfVisualWords, SkippedImagesWarning
from supdocnade.checks import copy_settings
from supdocnade.errors import (
    InvalidArgument,
    UnreadableImage,
)
from supdocnade.estimators.bag_of_visual_words import words_of
from supdocnade.scene.model import scene_model
from supdocnade.visual_words.settings import VisualWordSettings

IMAGES = [stripes(number) for number in range(10)]
SETTINGS = {"n_words": 9, "random_state": 0}


def fitted(**settings):
    return BagOfVisualWords(**{**SETTINGS, **settings}).fit(IMAGES)


BAG = fitted()


def test_counts_are_those_of_the_words():
    counts = BAG.transform(IMAGES)
    assert sparse.issparse(counts)
    assert counts.shape == (10, 36)
    for row, image in enumerate(IMAGES):
        expected = np.bincount(BAG.encoder_.encode(image).ids, minlength=36)
        np.testing.assert_array_equal(counts[[row]].toarray()[0], expected)


def test_a_row_does_not_depend_on_its_batch():
    whole = BAG.transform(IMAGES).toarray()
    np.testing.assert_array_equal(BAG.transform(IMAGES[4:5]).toarray(), whole[4:5])
    np.testing.assert_array_equal(BAG.transform(IMAGES[::-1]).toarray(), whole[::-1])
    assert BAG.transform([]).shape == (0, 36)


def test_the_same_seed_gives_the_same_counts_for_any_number_of_workers():
    first = BAG.transform(IMAGES).toarray()
    for n_jobs in (2, 3):
        np.testing.assert_array_equal(fitted(n_jobs=n_jobs).transform(IMAGES).toarray(), first)


def test_names_of_columns():
    names = BAG.get_feature_names_out()
    assert names[0] == "word0_region0"
    assert names[9 + 4] == "word4_region1"


def test_it_is_cloned_and_pickled():
    assert clone(BAG).get_params() == BAG.get_params()
    again = pickle.loads(pickle.dumps(BAG))
    np.testing.assert_array_equal(
        again.transform(IMAGES).toarray(), BAG.transform(IMAGES).toarray()
    )


def test_images_that_cannot_be_read(tmp_path):
    paths = [*write_images(tmp_path, 3), tmp_path / "missing.png"]
    with pytest.raises(UnreadableImage, match=r"missing\.png cannot be read"):
        BAG.transform(paths)
    bag = BagOfVisualWords(**SETTINGS, on_error="skip")
    with pytest.warns(
        SkippedImagesWarning, match=r"1 images were skipped: .*missing\.png cannot be read"
    ):
        bag.fit(paths)
    with pytest.warns(SkippedImagesWarning, match="1 images were skipped"):
        counts = bag.transform(paths)
    assert counts[[3]].sum() == 0
    encoded = bag.encode(paths)
    assert encoded.read.tolist() == [True, True, True, False]
    assert [each.name for each in encoded.skipped] == [str(paths[3])]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_words": 1}, "n_words must be a whole number of at least 2, got 1"),
        ({"grid": (0, 2)}, "grid must be a whole number of at least 1, got 0"),
        ({"grid": 2}, "grid must be"),
        ({"patch_size": 10}, "patch_size must be a multiple of 4, got 10"),
        ({"step": 0}, "step must be"),
        ({"max_side": 0}, "max_side must be"),
        ({"contrast_percentile": 101}, "contrast_percentile must be"),
        ({"on_error": "ignore"}, "on_error must be one of"),
        ({"sample_size": 3}, "sample_size must be a whole number of at least 9, got 3"),
        ({"random_state": -1}, "random_state must be"),
        ({"device": "gpu"}, "device must be one of 'auto', 'cpu', 'cuda', got 'gpu'"),
    ],
)
def test_odd_settings_are_refused(settings, message):
    with pytest.raises(InvalidArgument, match=message):
        fitted(**settings)


def test_odd_calls_are_refused():
    with pytest.raises(NotFittedError):
        BagOfVisualWords().transform(IMAGES)
    with pytest.raises(InvalidArgument, match="put it into a list"):
        BAG.transform("photo.jpg")


COLORED = [
    np.stack([stripes(number + i, (40, 30)) for i in range(3)], axis=-1) for number in range(12)
]


@pytest.fixture
def network(tmp_path, monkeypatch):
    return install_network(tmp_path / "networks", monkeypatch, side=32, patch=(8, 8))


def test_words_of_a_network(network, tmp_path):
    settings = {"features": network, "grid": (1, 1), "n_nearest": 2, "on_error": "skip", **SETTINGS}
    bag = BagOfVisualWords(**settings).fit(COLORED)
    found = bag.encode([*COLORED[:3], b"", COLORED[3]])
    assert found.counts.shape == (5, 9)
    assert found.counts.sum(axis=1).tolist() == [32, 32, 32, 0, 32]
    assert found.global_features.shape == (5, 3)
    assert not found.global_features[3].any()
    # They are centred by the images that the words were learned from.
    np.testing.assert_allclose(bag.encode(COLORED).global_features.mean(axis=0), 0, atol=2e-3)


def mean_colors_of_cells(pixels):
    rows, columns = pixels.shape[0] // 8, pixels.shape[1] // 8
    cells = pixels[: 8 * rows, : 8 * columns].reshape(rows, 8, columns, 8, 3).mean(axis=(1, 3))
    y, x = np.mgrid[:rows, :columns].reshape(2, -1)
    return cells.reshape(-1, 3), np.stack([y, x], axis=1) * 8 + 3.5, 8


def test_mirror_adds_the_words_of_the_mirror_image():
    one, both = (BagOfVisualWords(**SETTINGS, mirror=each).fit(COLORED) for each in (False, True))
    flipped = [image[:, ::-1] for image in COLORED]
    expected = one.transform(COLORED) + one.transform(flipped)
    found = both.transform(COLORED)
    # Patches lie on a grid from the other edge.
    assert abs(found - expected).sum() < 0.5 * abs(found - 2 * one.transform(COLORED)).sum()


def test_workers_and_the_cache_do_not_change_what_a_network_finds(network, tmp_path):
    settings = {"features": network, "n_nearest": 2, **SETTINGS}
    one = BagOfVisualWords(**settings, n_jobs=1).fit(COLORED)
    two = BagOfVisualWords(**settings, n_jobs=2, cache=tmp_path / "cache").fit(COLORED)
    assert one.encoder_.fingerprint() == two.encoder_.fingerprint()
    first = one.encode(COLORED)
    for _ in range(2):
        found = two.encode(COLORED)
        assert (found.counts != first.counts).nnz == 0
        np.testing.assert_array_equal(found.global_features, first.global_features)


def test_words_of_a_network_are_stored(network, tmp_path):
    bag = BagOfVisualWords(features=network, n_nearest=3, **SETTINGS).fit(COLORED)
    bag.save(tmp_path / "words")
    loaded = BagOfVisualWords.load(tmp_path / "words")
    one, other = (each.encode(COLORED) for each in (bag, loaded))
    assert (one.counts != other.counts).nnz == 0
    np.testing.assert_array_equal(one.global_features, other.global_features)
    words = words_of(bag)
    for change in ({"n_words": 2}, {"features": "sift"}, {"n_nearest": 1}):
        with pytest.raises(InvalidArgument):
            replace(words, settings=copy_settings(VisualWordSettings, words.settings, **change))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"features": 3}, "features must be 'sift', a function or the name of a network, .* got 3"),
        ({"features": "a/b.onnx"}, "supdocnade features --import FILE imports, got 'a/b.onnx'"),
        ({"features": "marvel"}, "the network 'marvel' is not installed; supdocnade features"),
        ({"features": "marvel", "mirror": True}, "mirror must be False with a network"),
        ({"features": mean_colors_of_cells, "mirror": True}, "mirror must be False with"),
        ({"n_nearest": 10}, "n_nearest must be at most n_words, 9, got 10"),
        ({"n_nearest": 0}, "n_nearest must be"),
    ],
)
def test_odd_features_are_refused(settings, message):
    with pytest.raises(InvalidArgument, match=message):
        fitted(**settings)


def test_a_function_as_feature(tmp_path):
    bag = clone(BagOfVisualWords(4, features=mean_colors_of_cells, random_state=0)).fit(IMAGES)
    encoded = bag.encode(IMAGES)
    assert encoded.global_features is None
    with_threads = bag.set_params(n_jobs=2).transform(IMAGES)
    np.testing.assert_array_equal(encoded.counts.toarray(), with_threads.toarray())
    with pytest.raises(InvalidArgument, match="cannot be saved: their features are a function"):
        bag.save(tmp_path / "words")
    with pytest.raises(InvalidArgument, match="features must be 'sift' or the name of a network"):
        scene_model(features=mean_colors_of_cells).fit(IMAGES)
