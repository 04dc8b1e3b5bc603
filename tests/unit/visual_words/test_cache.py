import numpy as np
import pytest

from supdocnade.errors import StorageError
from supdocnade.visual_words.cache import WordCache, content_key

WORDS = np.array([5, 0, 959, 5], np.int32)


@pytest.mark.parametrize("n_features", [960, 100_000])
def test_words_come_back(tmp_path, n_features):
    cache = WordCache(tmp_path, "a", n_features)
    key = content_key(b"image")
    assert cache.get(key) is None
    cache.put(key, WORDS)
    found = cache.get(key)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, WORDS)
    cache.put(key, np.empty(0, np.int32))
    assert cache.get(key).size == 0


def test_another_encoder_has_words_of_its_own(tmp_path):
    WordCache(tmp_path, "a", 960).put(content_key(b"image"), WORDS)
    assert WordCache(tmp_path, "b", 960).get(content_key(b"image")) is None


def test_every_damage_counts_as_missing(tmp_path):
    cache = WordCache(tmp_path, "a", 960)
    key = content_key(b"image")
    cache.put(key, WORDS)
    (path,) = (p for p in tmp_path.rglob("*") if p.is_file())
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert cache.get(key) is None
    for place in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        assert cache.get(key) is None
    cache.put(key, WORDS)
    np.testing.assert_array_equal(cache.get(key), WORDS)


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
        cache.put(content_key(b"image"), WORDS)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
