import numpy as np
import pytest

from supdocnade.errors import StorageError
from supdocnade.visual_words.cache import ImageWords, WordCache, content_key

KEY = content_key(b"image")
WORDS = ImageWords(np.array([5, 0, 959, 5], np.int32), key=KEY)


@pytest.mark.parametrize("n_features", [960, 100_000])
def test_words_come_back(tmp_path, n_features):
    cache = WordCache(tmp_path, "a", n_features)
    assert cache.get(KEY) is None
    cache.put(WORDS)
    found = cache.get(KEY)
    assert (found.ids.dtype, found.features_F, found.key) == (np.int32, None, KEY)
    np.testing.assert_array_equal(found.ids, WORDS.ids)
    cache.put(ImageWords(np.empty(0, np.int32), key=KEY))
    assert cache.get(KEY).ids.size == 0


def test_features_come_back(tmp_path):
    cache = WordCache(tmp_path, "a", 960, 3)
    features = np.random.default_rng(0).random(3).astype(np.float32)
    cache.put(WORDS._replace(features_F=features))
    found = cache.get(KEY)
    np.testing.assert_array_equal(found.ids, WORDS.ids)
    np.testing.assert_array_equal(found.features_F, features)
    assert WordCache(tmp_path, "a", 960, 9999).get(KEY) is None


def test_another_encoder_has_words_of_its_own(tmp_path):
    WordCache(tmp_path, "a", 960).put(WORDS)
    assert WordCache(tmp_path, "b", 960).get(KEY) is None


def test_every_damage_counts_as_missing(tmp_path):
    cache = WordCache(tmp_path, "a", 960)
    cache.put(WORDS)
    (path,) = (p for p in tmp_path.rglob("*") if p.is_file())
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert cache.get(KEY) is None
    for place in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        assert cache.get(KEY) is None
    cache.put(WORDS)
    np.testing.assert_array_equal(cache.get(KEY).ids, WORDS.ids)


def test_keys_are_of_contents():
    grey = np.zeros((2, 3), np.uint8)
    keys = [content_key(each) for each in (b"", b"1", grey, grey.T, grey.astype(np.uint16))]
    assert len(set(keys)) == len(keys)
    assert content_key(np.asfortranarray(grey)) == content_key(grey)
    assert content_key("a path") is None


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file cannot be a cache"):
        WordCache(tmp_path / "file", "a", 960)


def test_a_disk_without_room_is_named(tmp_path, monkeypatch):
    cache = WordCache(tmp_path, "a", 960)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("supdocnade.visual_words.cache.os.replace", full)
    with pytest.raises(StorageError, match="cannot be written: No space left on device"):
        cache.put(WORDS)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
