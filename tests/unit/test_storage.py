import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from supdocnade import storage
from supdocnade.errors import StorageError
from supdocnade.storage import temporary_target, write_atomically


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
    found = getattr(os, "listxattr", lambda path: [])
    with suppress(AttributeError, OSError):  # Linux has such attributes, on most disks.
        os.setxattr(path, "user.xdg.tags", b"sea")
    before = found(path)
    write_atomically(path, b"two")
    assert (path.stat().st_mode & 0o777, found(path)) == (0o600, before)


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
