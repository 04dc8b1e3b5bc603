import os
import shutil
import sqlite3
from unittest.mock import Mock

import pytest
from tests.disks import permissions_count
from tests.serving import build_index, photograph

from supdocnade.errors import StorageError
from supdocnade.gallery import build, photo_index
from supdocnade.gallery.build import build_gallery
from supdocnade.gallery.photo_index import NAME, Gallery
from supdocnade.runs import RunOptions


def counted(monkeypatch):
    """Count the photographs that are read."""
    read, look = [], build._read_photograph

    def call(encoder, source, name, number):
        read.append(os.path.basename(source))
        return look(encoder, source, name, number)

    monkeypatch.setattr(build, "_read_photograph", call)
    return read


def contents(gallery):
    """Everything that a gallery says of its photographs."""
    return [
        (
            gallery.paths[number],
            gallery.topics_NH[number].tolist(),
            gallery.label(number),
            gallery.tags(number),
            gallery.picture(number),
        )
        for number in range(len(gallery))
    ]


def test_an_index_grows_and_shrinks(tmp_path, fitted, monkeypatch):
    monkeypatch.setattr(build, "BLOCK_SIZE", 1)
    whole, photos = build_index(tmp_path)
    kept = contents(whole)
    del whole
    size = (tmp_path / "index" / NAME).stat().st_size
    for path in sorted(photos.glob("*/*.jpg"))[::2]:
        path.unlink()
        smaller, _, _ = build_gallery(fitted, photos, tmp_path / "index")
        kept = [each for each in kept if each[0] != str(path)]
        assert contents(smaller) == kept
        near = [number for number, _ in smaller.nearest(smaller.topics_NH[3], 99)]
        assert near[0] == 3
        assert sorted(near) == list(range(len(smaller)))
    del smaller
    assert {path.name for path in (tmp_path / "index").iterdir()} == {NAME, ".lock"}
    assert (tmp_path / "index" / NAME).stat().st_size < size


def test_details_are_kept_and_a_changed_sidecar_is_read(tmp_path, fitted, monkeypatch):
    _, photos = build_index(tmp_path)
    first, *_ = sorted(photos.glob("*/*.jpg"))
    packet = '<rdf:Description xmp:Rating="{}" exif:DateTimeOriginal="2024-07-21T14:03:00"/>'
    sidecar = first.with_name(f"{first.name}.xmp")
    sidecar.write_text(packet.format(4))
    read = counted(monkeypatch)
    gallery, _, changes = build_gallery(fitted, photos, tmp_path / "index")
    assert (read, changes["changed"]) == ([first.name], 1)
    assert (gallery.taken_N[0], gallery.cameras[0], gallery.rating_N[0]) == (
        b"2024-07-21T14:03:00",
        "",
        4,
    )
    assert gallery.unfamiliar_N.tolist() == fitted.is_unfamiliar(gallery.topics_NH).tolist()
    sidecar.unlink()
    gallery, _, _ = build_gallery(fitted, photos, tmp_path / "index")
    assert (len(read), gallery.rating_N[0]) == (2, 0)


def test_a_run_that_was_stopped_goes_on(tmp_path, fitted, monkeypatch):
    monkeypatch.setattr(build, "BLOCK_SIZE", 5)
    whole, photos = build_index(tmp_path)

    def stop(stage, done, total):
        if done == 13:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_gallery(fitted, photos, tmp_path / "again", RunOptions(progress=stop))
    unfinished = Gallery.load(tmp_path / "again", fitted)
    assert len(unfinished) == 13
    assert contents(unfinished) == contents(whole)[:13]
    read, seen = counted(monkeypatch), []
    gallery, _, _ = build_gallery(
        fitted, photos, tmp_path / "again", RunOptions(progress=lambda *each: seen.append(each))
    )
    assert len(read) == 11
    assert seen[-1][1:] == (24, 24)
    assert contents(gallery) == contents(whole)


@pytest.mark.parametrize("start_over", [False, True])
def test_a_kill_at_any_step_leaves_an_index(tmp_path, fitted, monkeypatch, start_over):
    """What a kill leaves is a copy of the files at that moment: before and after every change."""
    monkeypatch.setattr(build, "BLOCK_SIZE", 1)
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(4):
        (photos / f"{number}.jpg").write_bytes(photograph(number))
    build_gallery(fitted, photos, tmp_path / "index")
    (photos / "0.jpg").unlink()
    (photos / "new.jpg").write_bytes(photograph(4))
    copies = []

    def copy(*_):
        copies.append(tmp_path / f"copy{len(copies)}")
        shutil.copytree(tmp_path / "index", copies[-1])

    connect, replace = photo_index._connect, os.replace

    def watch(path, mode):
        copy()
        connection = connect(path, mode)
        connection.set_trace_callback(copy)
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(photo_index, "_connect", watch)
        patched.setattr(os, "replace", lambda *paths: (copy(), replace(*paths)))
        build_gallery(fitted, photos, tmp_path / "index", start_over=start_over)
    assert len(copies) > 10
    kept = set() if start_over else {str(photos / f"{number}.jpg") for number in (1, 2, 3)}
    every = {str(photos / f"{name}.jpg") for name in (0, 1, 2, 3, "new")}
    for index in copies[::3]:
        left = {each[0] for each in contents(Gallery.load(index, fitted))}
        assert kept <= left <= every
        gallery, _, _ = build_gallery(fitted, photos, index)
        assert {each[0] for each in contents(gallery)} == every - {str(photos / "0.jpg")}


def test_a_new_index_that_was_killed_at_the_beginning_is_made_again(tmp_path, fitted):
    gallery, photos = build_index(tmp_path)
    (tmp_path / "again").mkdir()
    for name in (".lock", photo_index.NEW_NAME, f"{photo_index.NEW_NAME}-journal"):
        (tmp_path / "again" / name).write_bytes(b"some")
    again, _, _ = build_gallery(fitted, photos, tmp_path / "again")
    assert contents(again) == contents(gallery)


def test_what_cannot_be_read_is_skipped_and_named(tmp_path, fitted):
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "a.jpg").write_bytes(photograph(0))
    (photos / "b.jpg").write_bytes(b"nonsense")
    gallery, skipped, _ = build_gallery(fitted, photos, tmp_path / "index")
    assert gallery.names == ["a.jpg"]
    assert [each.name for each in skipped] == [str(photos / "b.jpg")]
    (photos / "a.jpg").unlink()
    with pytest.raises(StorageError, match=r"photograph that can be read, got none: .*b\.jpg"):
        build_gallery(fitted, photos, tmp_path / "other")
    assert not (tmp_path / "other").exists()
    options = RunOptions(progress=lambda *_: (tmp_path / "other/mine").touch())
    with pytest.raises(StorageError, match="photograph that can be read, got none"):
        build_gallery(fitted, photos, tmp_path / "other", options)
    assert (tmp_path / "other/mine").exists()
    (photos / "b.jpg").unlink()
    with pytest.raises(StorageError, match="contains no photographs"):
        build_gallery(fitted, photos, tmp_path / "other")


def test_a_folder_that_cannot_be_read_now_loses_no_photographs(tmp_path, fitted):
    gallery, photos = build_index(tmp_path)
    secret = next(path for path in sorted(photos.iterdir()) if path.is_dir())
    secret.chmod(0)
    with permissions_count():
        again, skipped, changes = build_gallery(
            fitted, photos, tmp_path / "index", RunOptions(n_jobs=1)
        )
    assert contents(again) == contents(gallery)
    assert set(changes.values()) == {0}
    assert [each.reason for each in skipped] == [f"{secret} cannot be read: Permission denied."]


@pytest.mark.parametrize("target", ["photos", "something"])
def test_nothing_else_is_ever_replaced(folder, fitted, tmp_path, target):
    other = folder / target
    other.mkdir(exist_ok=True)
    (other / "dear.txt").write_text("dear")
    with pytest.raises(StorageError, match=target):
        build_gallery(fitted, folder / "photos", other)
    assert (other / "dear.txt").read_text() == "dear"
    (other / "dear.txt").unlink()


@pytest.mark.parametrize("start_over", [False, True])
def test_a_full_disk_leaves_an_index(tmp_path, fitted, monkeypatch, start_over):
    gallery, photos = build_index(tmp_path)
    before = contents(gallery)
    for number in range(24):
        (photos / f"{number}.jpg").write_bytes(photograph(number))
    connect = photo_index._connect

    def full(path, mode):
        connection = connect(path, mode)
        ((n_pages,),) = connection.execute("PRAGMA page_count")
        connection.execute(f"PRAGMA max_page_count={max(n_pages, 7)}")
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(photo_index, "_connect", full)
        with pytest.raises(StorageError, match="cannot be read or written: database or disk is fu"):
            build_gallery(fitted, photos, tmp_path / "index", start_over=start_over)
    shutil.copy(tmp_path / "index" / NAME, tmp_path)  # Without its log, which cannot be made there.
    failing = Mock(**{"execute.side_effect": sqlite3.OperationalError("disk I/O error")})
    with monkeypatch.context() as patched:
        patched.setattr(
            photo_index, "_connect", lambda *a: failing if a[1] == "ro" else connect(*a)
        )
        assert contents(Gallery.load(tmp_path, fitted)) == before
    assert len(build_gallery(fitted, photos, tmp_path / "index", start_over=start_over)[0]) == 48


def test_an_index_has_one_writer_at_a_time(tmp_path, fitted):
    _, photos = build_index(tmp_path)

    def build_meanwhile(*_):
        with pytest.raises(StorageError, match="another process is writing"):
            build_gallery(fitted, photos, tmp_path / "index")

    (photos / "new.jpg").write_bytes(photograph(3))
    options = RunOptions(progress=build_meanwhile)
    assert len(build_gallery(fitted, photos, tmp_path / "index", options)[0]) == 25


def test_several_folders_are_one_gallery(tmp_path, fitted, monkeypatch):
    one, two = tmp_path / "one", tmp_path / "two"
    (one / "inner").mkdir(parents=True)
    two.mkdir()
    for path in (one / "10.jpg", one / "2.jpg", one / "inner" / "1.jpg", two / "1.jpg"):
        path.write_bytes(photograph(len(path.parts)))
    folders = [one, two, one / "inner"]
    gallery, _, _ = build_gallery(fitted, folders, tmp_path / "index")
    names = ["one/2.jpg", "one/10.jpg", "one/inner/1.jpg", "two/1.jpg"]
    assert gallery.names == names
    assert gallery.paths == [str(tmp_path / n) for n in names]
    read = counted(monkeypatch)
    (one / "inner" / "1.jpg").unlink()
    gallery, _, changes = build_gallery(fitted, two, tmp_path / "index")
    assert gallery.names == names
    assert changes == {"added": 0, "changed": 0, "dropped": 0}
    gallery, _, changes = build_gallery(fitted, one, tmp_path / "index")
    assert gallery.names == [*names[:2], names[3]]
    assert changes == {"added": 0, "changed": 0, "dropped": 1}
    assert read == []
    gallery, _, _ = build_gallery(fitted, two, tmp_path / "index", start_over=True)
    assert gallery.names == ["1.jpg"]
