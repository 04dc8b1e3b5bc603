import stat
import zipfile

import pytest

from supdocnade.datasets import archives
from supdocnade.datasets.archives import extract_zip
from supdocnade.errors import StorageError


def pack(path, *members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


@pytest.fixture
def target(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data" / "scenes"


def refused(archive, target, match):
    with pytest.raises(StorageError, match=match):
        extract_zip(archive, target)
    assert list(target.parent.iterdir()) == []
    assert {path.name for path in archive.parent.iterdir()} == {"data", archive.name}


def test_files_come_out_as_they_went_in(tmp_path, target):
    archive = pack(tmp_path / "a.zip", ("sea/", b""), ("sea/a.jpg", b"x" * 1000), ("b.jpg", b""))
    extract_zip(archive, target)
    found = {path.relative_to(target).as_posix() for path in target.rglob("*")}
    assert found == {"sea", "sea/a.jpg", "b.jpg"}
    assert (target / "sea" / "a.jpg").read_bytes() == b"x" * 1000
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize(
    "name", ["../x.jpg", "sea/../../x.jpg", "/x.jpg", "..\\x.jpg", "C:\\x.jpg"]
)
def test_paths_that_leave_the_folder_are_refused(tmp_path, target, name):
    archive = pack(tmp_path / "a.zip", ("good.jpg", b""), (name, b""))
    refused(archive, target, "a path outside the archive")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_devices_are_refused(tmp_path, target, kind):
    link = zipfile.ZipInfo("sea")
    link.external_attr = (kind | 0o777) << 16
    archive = pack(tmp_path / "a.zip", ("good.jpg", b""), (link, b"/etc"))
    refused(archive, target, r"a\.zip holds sea, which is neither a file nor a folder")


def test_damaged_archives_leave_nothing(tmp_path, target):
    content = pack(tmp_path / "a.zip", ("a.jpg", b"abcd" * 100), ("b.jpg", b"x")).read_bytes()
    (tmp_path / "a.zip").write_bytes(content[:-30])
    refused(tmp_path / "a.zip", target, "is no ZIP archive, or damaged")
    (tmp_path / "a.zip").write_bytes(content[:40] + b"\xff\xff" + content[42:])
    refused(tmp_path / "a.zip", target, "is no ZIP archive, or damaged")


def test_a_missing_archive_is_named(tmp_path, target):
    with pytest.raises(StorageError, match=r"none\.zip cannot be unpacked into .*No such file"):
        extract_zip(tmp_path / "none.zip", target)


def test_other_methods_are_refused(tmp_path, target):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a.jpg", b"abc")
    refused(tmp_path / "a.zip", target, r"holds a\.jpg, which is encrypted or not deflated")


def test_too_much_is_refused(tmp_path, target, monkeypatch):
    monkeypatch.setattr(archives, "MAX_BYTES", 10)
    archive = pack(tmp_path / "a.zip", ("a.jpg", b"x" * 6), ("b.jpg", b"x" * 5))
    refused(archive, target, "must unpack to at most 10 bytes, got 11")


def test_what_a_kill_left_is_replaced_but_a_folder_is_not(tmp_path, target):
    archive = pack(tmp_path / "a.zip", ("a.jpg", b""))
    (target.parent / ".scenes.unpacking").mkdir()
    (target.parent / ".scenes.unpacking" / "old.jpg").touch()
    extract_zip(archive, target)
    assert [path.name for path in target.iterdir()] == ["a.jpg"]
    with pytest.raises(StorageError, match="scenes must not exist"):
        extract_zip(archive, target)
