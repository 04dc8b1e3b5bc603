import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from supdocnade import storage
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.storage import (
    damage_errors,
    load_arrays,
    pack_labels,
    pack_string_lists,
    pack_strings,
    save_arrays,
    temporary_target,
    unpack_labels,
    unpack_string_lists,
    unpack_strings,
    write_atomically,
)


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


SECOND_WRITER = """
import os, signal, sys
from pathlib import Path
from supdocnade.storage import write_atomically

os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
write_atomically(Path(sys.argv[1]), b"second")
"""


def test_a_killed_writer_does_not_disturb_another_one(tmp_path, monkeypatch):
    path, replace = tmp_path / "file", os.replace

    def replace_after_a_kill(source, target):
        killed = subprocess.run([sys.executable, "-c", SECOND_WRITER, str(path)])
        assert killed.returncode == -signal.SIGKILL
        storage.remove_leftovers(tmp_path)  # Removes the file of the other one, and not this one.
        assert os.listdir(tmp_path) == [Path(source).name]
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace_after_a_kill)
        write_atomically(path, b"first")
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["file"]


def test_the_first_write_to_a_folder_removes_what_a_kill_left(tmp_path):
    names = [".file.0a1b2c3d.partial", ".other.00000000.partial", ".stranger.partial", "file"]
    for name in names:
        (tmp_path / name).write_bytes(b"cut off")
    assert [temporary_target(name) for name in names] == ["file", "other", names[2], "file"]
    write_atomically(tmp_path / "file", b"new")
    assert sorted(os.listdir(tmp_path)) == [".stranger.partial", "file"]


def test_a_file_that_is_taken_for_a_leftover_is_written_again(tmp_path, monkeypatch):
    taken = []

    def lock(file):
        if not taken:
            taken.append(file.name)
            os.unlink(file.name)

    monkeypatch.setattr(storage, "lock_file", lock)
    write_atomically(tmp_path / "file", b"new")
    assert taken
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("error", [OSError("no locks here"), None])
def test_writers_at_the_same_time_leave_one_whole_content(tmp_path, monkeypatch, error):
    """With and without a file system that has locks."""
    if error is not None:
        monkeypatch.setattr(storage, "lock_file", Mock(side_effect=error))
    contents = [bytes([number]) * 50_000 for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(partial(write_atomically, tmp_path / "file", sync=False), contents * 10))
    assert (tmp_path / "file").read_bytes() in contents
    assert os.listdir(tmp_path) == ["file"]


def test_the_longest_name_is_written(tmp_path):
    write_atomically(tmp_path / ("é" * 127), b"content")
    assert os.listdir(tmp_path) == ["é" * 127]


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


def test_a_long_description_is_stored_beside_the_header(tmp_path, monkeypatch):
    path = tmp_path / "file"
    monkeypatch.setattr(storage, "MAX_HEADER_TEXT", 50)
    description = {"names": [f"é{number}" for number in range(20)]}
    save_arrays(path, {"a": np.arange(3)}, description)
    header = path.read_bytes()[8 : 8 + int.from_bytes(path.read_bytes()[:8], "little")]
    assert b"names" not in header
    arrays, loaded = load_arrays(path)
    assert loaded == description
    assert arrays.keys() == {"a"}
    damaged = path.read_bytes().replace(b"u00e919", b"u00e918")
    path.write_bytes(damaged)
    with pytest.raises(StorageError, match="not those that were written"):
        load_arrays(path)


STRINGS = ["", "Straße", "a\0b", "\udc80 no Unicode", "\U0001f600", ""]


@pytest.mark.parametrize("strings", [[], [""], STRINGS])
def test_strings_are_read_back(strings, tmp_path):
    save_arrays(tmp_path / "file", pack_strings("names", strings), {})
    arrays, _ = load_arrays(tmp_path / "file")
    assert unpack_strings("names", arrays) == strings


@pytest.mark.parametrize("labels", [[], [None], ["coast", None, "street", "coast", ""]])
def test_labels_are_read_back(labels):
    arrays = pack_labels("labels", labels)
    assert unpack_labels("labels", arrays) == labels
    for numbers in ([-2], [3]):
        arrays["labels_numbers"] = np.array(numbers, np.int32)
        with pytest.raises(InvalidArgument, match="labels_numbers must lie in -1"):
            unpack_labels("labels", arrays)


@pytest.mark.parametrize("lists", [[], [None], [["sea"], None, [], ["sky", "sea"], ["é"]]])
def test_lists_of_strings_are_read_back(lists):
    arrays = pack_string_lists("tags", lists)
    assert unpack_string_lists("tags", arrays) == lists
    assert len(unpack_strings("tags_values", arrays)) == len(
        {tag for some in lists for tag in some or ()}
    )


@pytest.mark.parametrize(
    ("array", "value", "message"),
    [
        ("tags_values_bytes", np.array([0xFF, 97, 97, 97], np.uint8), "must be UTF-8"),
        ("tags_values_bytes", np.zeros(4, np.int8), "must be a row of uint8, got int8"),
        ("tags_values_offsets", np.array([0, 2, 9]), "must rise from 0 to 4"),
        ("tags_values_offsets", np.array([1, 2, 4]), "must rise from 0 to 4"),
        ("tags_values_offsets", np.array([0, 5, 4]), "must rise from 0 to 4"),
        ("tags_values_offsets", np.array([], np.int64), "must rise from 0 to 4"),
        ("tags_values_offsets", np.array([[0, 4]]), r"got int64 of shape \(1, 2\)"),
        ("tags_lengths", np.array([1, -2, 2], np.int32), "must add up to 3"),
        ("tags_lengths", np.array([2**31 - 1] * 3, np.int32), "must add up to 3"),
        ("tags_lengths", np.array([], np.int32), "must add up to 3"),
        ("tags_numbers", np.array([0, 2, 1], np.int32), "must lie in 0 .. 1"),
        ("tags_numbers", np.array([0, -1, 1], np.int32), "must lie in 0 .. 1"),
        ("tags_numbers", None, "it lacks 'tags_numbers'"),
    ],
)
def test_damaged_strings_are_refused_by_name(array, value, message):
    arrays = {**pack_string_lists("tags", [["aa"], None, ["bb", "aa"]]), array: value}
    if value is None:
        del arrays[array]
    with pytest.raises(StorageError, match=f"^file is damaged: .*{message}"), damage_errors("file"):
        unpack_string_lists("tags", arrays)
    if value is not None:
        with pytest.raises(InvalidArgument, match=array):
            unpack_string_lists("tags", arrays)


def test_a_replaced_file_is_never_readable_by_others(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"one")
    path.chmod(0o600)
    modes, fsync = [], os.fsync

    def note(descriptor):
        status = os.fstat(descriptor)
        modes.append("folder" if stat.S_ISDIR(status.st_mode) else status.st_mode & 0o777)
        fsync(descriptor)

    monkeypatch.setattr(
        os,
        "chmod",
        lambda path, mode, chmod=os.chmod: (modes.append(os.path.getsize(path)), chmod(path, mode)),
    )
    monkeypatch.setattr(os, "fsync", note)
    write_atomically(path, b"two")
    assert modes == [0, 0o600, "folder"]  # Before the content; the name is durable, too.
