import json

import numpy as np
import pytest
from tests.textures import stripes

from supdocnade import BagOfVisualWords
from supdocnade.errors import StorageError
from supdocnade.estimators.saved_words import words_from_storage, words_to_storage
from supdocnade.storage import save_arrays

IMAGES = [stripes(number) for number in range(8)]
OTHERS = {
    "grid": [(1, 1), (2, 3)],
    "patch_size": (16, 24),
    "contrast_percentile": np.float64(20),
    "root_sift": True,
    "max_side": 60,
    "color": True,
}


def fitted(**settings):
    return BagOfVisualWords(**{"n_words": 6, "random_state": 0, **settings}).fit(IMAGES)


BAG = fitted()


@pytest.mark.parametrize("settings", [{}, OTHERS])
def test_what_was_saved_gives_the_same_words(tmp_path, settings):
    bag = fitted(**settings)
    bag.save(tmp_path / "words.safetensors")
    loaded = BagOfVisualWords.load(tmp_path / "words.safetensors")
    np.testing.assert_array_equal(
        loaded.transform(IMAGES).toarray(), bag.transform(IMAGES).toarray()
    )
    np.testing.assert_array_equal(loaded.example_patches(2), bag.example_patches(2))
    assert loaded.encoder_.fingerprint() == bag.encoder_.fingerprint()
    refitted = loaded.fit(IMAGES)
    assert refitted.encoder_.fingerprint() == bag.encoder_.fingerprint()


def test_the_device_stays_where_it_is(tmp_path):
    """A file from a machine with a GPU is read on one without."""
    bag = fitted(device="cpu").set_params(device="cuda")
    bag.save(tmp_path / "words.safetensors")
    assert BagOfVisualWords.load(tmp_path / "words.safetensors").device == "auto"


def test_mutated_files_are_refused(tmp_path):
    path = tmp_path / "words.safetensors"
    BAG.save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for number in range(500):
        damaged = bytearray(whole)
        if number % 2:
            damaged = damaged[: rng.integers(len(whole))]
        else:
            damaged[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(StorageError, match=r"words\.safetensors"):
            BagOfVisualWords.load(path)


def changed(arrays=None, **description):
    stored, described = words_to_storage(BAG)
    described = json.loads(json.dumps(described))
    for key, value in description.items():
        described[key] = {**described[key], **value} if isinstance(value, dict) else value
    return {**stored, **(arrays or {})}, described


@pytest.mark.parametrize(
    "change",
    [
        {"format": 99},
        {"kind": "DocNADE"},
        {"settings": {"n_words": 7}},
        {"settings": {"n_words": "six"}},
        {"settings": {"grid": [3, 3]}},
        {"settings": {"step": 4}},
        {"settings": {"max_side": 99}},
        {"settings": {"surprise": 1}},
        {"settings": {"n_examples": 3}},
        {"encoder": {"keep_constant": False}},
        {"encoder": {"format": 7}},
        {"encoder": None},
        {"arrays": {"centres": np.zeros((6, 64), np.float32)}},
        {"arrays": {"centres": np.full((6, 128), np.nan, np.float32)}},
        {"arrays": {"centres": np.zeros((6, 128))}},
        {"arrays": {"n_examples": np.full(6, 99, np.int32)}},
        {"arrays": {"n_examples": np.full(6, -1, np.int32)}},
        {"arrays": {"more": np.zeros(1, np.float32)}},
    ],
)
def test_files_with_odd_contents_are_refused(tmp_path, change):
    arrays, description = changed(**change)
    save_arrays(tmp_path / "odd", arrays, description)
    with pytest.raises(StorageError, match="odd"):
        BagOfVisualWords.load(tmp_path / "odd")


def test_what_is_unchanged_is_read():
    """So the cases above are refused for what they change."""
    arrays, description = changed()
    bag = words_from_storage(BagOfVisualWords, arrays, description, "a file")
    assert bag.encoder_.fingerprint() == BAG.encoder_.fingerprint()
