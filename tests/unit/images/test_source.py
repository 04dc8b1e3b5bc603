import io
import os
import pickle
import sys
from types import SimpleNamespace

import pytest
from tests.packed_photos import copy_to_memory

from supdocnade.errors import StorageError
from supdocnade.images import source
from supdocnade.images.source import (
    PackedImage,
    absolute_address,
    is_local_file,
    normalize_address,
    open_address,
    read_address,
    read_source,
    source_name,
    stamp_sources,
)


def test_an_empty_name_is_not_the_working_directory():
    with pytest.raises(StorageError, match="must have a name"):
        normalize_address("")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"0123456789")
    return tmp_path


@pytest.fixture
def remote(folder):
    return copy_to_memory(folder, "test_source")


@pytest.fixture
def local(folder):
    return f"file://{folder}"


@pytest.mark.parametrize("place", ["folder", "remote", "local"])
def test_whole_files_and_ranges_are_read(place, request):
    address = f"{request.getfixturevalue(place)}/a.jpg"
    assert read_source(address) == b"0123456789"
    assert read_address(address, 2, 3) == b"234"
    assert read_address(address, 8, 5) == b"89"
    with open_address(address) as file:
        file.seek(7)
        assert file.read() == b"789"


@pytest.mark.parametrize("place", ["folder", "remote", "local"])
def test_a_largest_size_holds_on_every_file_system(place, request):
    address = f"{request.getfixturevalue(place)}/a.jpg"
    assert read_address(address, most=10) == b"0123456789"
    assert read_address(address, 2, most=8) == b"23456789"
    for start, size in ((0, -1), (0, 10)):
        with pytest.raises(StorageError, match=r"a\.jpg is too large.*; the limit is 9 bytes"):
            read_address(address, start, size, most=9)


def test_a_file_without_an_end_or_a_size_is_refused(monkeypatch):
    class Endless(io.RawIOBase):
        def read(self, size=-1):
            return bytes(min(size, 7))

    system = SimpleNamespace(protocol="endless", open=lambda *_, **__: Endless())
    monkeypatch.setattr(source, "open_file_system", lambda address: (system, address))
    with pytest.raises(StorageError, match=r"^endless://a is too large; the limit is 20 bytes"):
        read_address("endless://a", most=20)


def test_an_address_of_a_pipe_or_a_device_is_refused(folder):
    os.mkfifo(folder / "pipe")
    for path in (folder / "pipe", "/dev/zero"):
        for address in (path, f"file://{path}", f"local://{path}"):
            with pytest.raises(StorageError, match="must be a file"):
                read_source(address)


def test_a_source_has_a_name_and_can_be_sent_to_another_process(folder):
    packed = PackedImage(str(folder / "a.jpg"), "first", 0, 3)
    for each in (str(folder / "a.jpg"), folder / "a.jpg", packed):
        again = pickle.loads(pickle.dumps(each))
        assert source_name(again) == source_name(each)
        assert read_source(again) == read_source(each)
    assert source_name(packed) == f"{folder}/a.jpg/first"
    assert read_source(packed) == b"012"
    assert [is_local_file(each) for each in ("a.jpg", packed, "s3://a.jpg")] == [1, 0, 0]


def test_unknown_file_systems_are_reported():
    with pytest.raises(StorageError, match=r"^nowhere://a\.jpg cannot be read: Protocol not known"):
        read_source("nowhere://a.jpg")


def test_without_fsspec_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(
        StorageError, match=r"s3://a/b\.jpg needs an extra: pip install '.*\[remote\]'"
    ):
        read_source("s3://a/b.jpg")


@pytest.mark.parametrize("place", ["folder", "remote"])
def test_stamps_change_with_the_file(place, request, folder):
    address = f"{request.getfixturevalue(place)}/a.jpg"
    packed = [PackedImage(address, "one", 0, 1), PackedImage(address, "two", 1, 1)]
    before = stamp_sources([address, *packed, f"{address}.gone"])
    assert before == stamp_sources([address, *packed, f"{address}.gone"])
    assert before[0] == before[1] == before[2]
    assert before[0][0] == 10
    assert before[3] == (0, 0)
    (folder / "a.jpg").write_bytes(b"9876543210")
    os.utime(folder / "a.jpg", ns=(1, 1))
    copy_to_memory(folder, "test_source")
    (after,) = stamp_sources([address])
    assert after != before[0]


def test_an_address_of_another_file_system_is_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert absolute_address("photos") == str(tmp_path / "photos")
    assert absolute_address("s3://bucket/photos") == "s3://bucket/photos"
