import os

import numpy as np
import pytest

from supdocnade.errors import StorageError
from supdocnade.storage import load_arrays, save_arrays, write_atomically


def test_arrays_and_description_are_read_back(tmp_path):
    path = tmp_path / "deep" / "file.safetensors"
    arrays = {"a": np.arange(6.0).reshape(2, 3).T, "empty": np.zeros((0, 4), np.int32)}
    arrays["scalar"] = np.array(3.0)
    save_arrays(path, arrays, {"words": ["Straße", "\u2028"], "n": 3})
    loaded, description = load_arrays(path)
    assert description == {"words": ["Straße", "\u2028"], "n": 3}
    assert loaded.keys() == arrays.keys()
    for name in arrays:
        np.testing.assert_array_equal(loaded[name], arrays[name])
        assert loaded[name].dtype == arrays[name].dtype
        assert loaded[name].shape == arrays[name].shape


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(StorageError, match="file cannot be written: disk full"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_every_truncation_and_every_flipped_bit_is_refused(tmp_path):
    path = tmp_path / "file"
    # 1e-05 has other spellings: even those are damage.
    save_arrays(path, {"a": np.arange(3.0)}, {"n": 1, "x": 1e-05, "é": "\u00e9"})
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(StorageError, match=r"damaged, or not a file"):
            load_arrays(path)
    for place in range(len(content)):
        for bit in range(8):
            mutated = bytearray(content)
            mutated[place] ^= 1 << bit
            path.write_bytes(mutated)
            with pytest.raises(StorageError):
                load_arrays(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"none cannot be read: No such file"):
        load_arrays(tmp_path / "none")


def test_a_description_must_be_an_object(tmp_path):
    save_arrays(tmp_path / "file", {}, [1])  # type: ignore[arg-type]
    with pytest.raises(StorageError, match="not a JSON object"):
        load_arrays(tmp_path / "file")


def test_a_folder_in_the_way_is_named(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match=r"folder cannot be written: Is a directory"):
        write_atomically(tmp_path / "folder", b"")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match=r"inside cannot be written: "):
        write_atomically(tmp_path / "file" / "inside", b"")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_permissions_are_kept(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"one")
    path.chmod(0o600)
    write_atomically(path, b"two")
    assert path.stat().st_mode & 0o777 == 0o600
