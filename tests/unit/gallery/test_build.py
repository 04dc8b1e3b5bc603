import os

import numpy as np
import pytest
from tests.serving import build_index, photograph

from supdocnade.errors import StorageError
from supdocnade.gallery import build
from supdocnade.gallery.build import build_gallery
from supdocnade.run_options import RunOptions


def counted(monkeypatch):
    """Count the photographs that are read."""
    read, look = [], build._ReadPhotograph.__call__

    def call(self, source, name, number):
        read.append(os.path.basename(source))
        return look(self, source, name, number)

    monkeypatch.setattr(build._ReadPhotograph, "__call__", call)
    return read


def test_only_what_is_new_or_changed_is_read_again(tmp_path, fitted, monkeypatch):
    _, photos = build_index(tmp_path)
    read = counted(monkeypatch)
    changed, gone = sorted(photos.glob("*/*.jpg"))[:2]
    new = photos / "new.jpg"
    changed.write_bytes(photograph(20) + b"\0")
    new.write_bytes(photograph(21))
    gone.unlink()
    second, _ = build_gallery(fitted, photos, tmp_path / "index")
    assert sorted(read) == sorted([changed.name, "new.jpg"])
    fresh, _ = build_gallery(fitted, photos, tmp_path / "fresh")
    assert second.rows.names == fresh.rows.names
    for name, array in second.rows.arrays().items():
        assert np.array_equal(array, fresh.rows.arrays()[name]), name
    assert [second.picture(row) for row in range(24)] == [fresh.picture(row) for row in range(24)]


def test_a_run_that_was_stopped_goes_on(tmp_path, fitted, monkeypatch):
    monkeypatch.setattr(build, "BLOCK_SIZE", 5)
    whole, photos = build_index(tmp_path)

    def stop(stage, done, total):
        if done == 13:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_gallery(fitted, photos, tmp_path / "again", RunOptions(progress=stop))
    assert not (tmp_path / "again").exists()
    read, seen = counted(monkeypatch), []
    gallery, _ = build_gallery(
        fitted, photos, tmp_path / "again", RunOptions(progress=lambda *each: seen.append(each))
    )
    assert len(read) == 14
    assert seen[-1][1:] == (24, 24)
    assert not (tmp_path / "again.partial").exists()
    assert gallery.rows.names == whole.rows.names
    assert np.array_equal(gallery.rows.topics_NH, whole.rows.topics_NH)
    assert [gallery.picture(row) for row in range(24)] == [whole.picture(row) for row in range(24)]


def test_what_cannot_be_read_is_skipped_and_named(tmp_path, fitted):
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "a.jpg").write_bytes(photograph(0))
    (photos / "b.jpg").write_bytes(b"nonsense")
    gallery, skipped = build_gallery(fitted, photos, tmp_path / "index")
    assert gallery.rows.names == ("a.jpg",)
    assert [each.name for each in skipped] == [str(photos / "b.jpg")]
    (photos / "a.jpg").unlink()
    with pytest.raises(StorageError, match="no photograph that can be read"):
        build_gallery(fitted, photos, tmp_path / "other")
    (photos / "b.jpg").unlink()
    with pytest.raises(StorageError, match="must hold photographs"):
        build_gallery(fitted, photos, tmp_path / "other")


@pytest.mark.parametrize("target", ["photos", "something"])
def test_nothing_else_is_ever_replaced(folder, fitted, tmp_path, target):
    other = folder / target
    other.mkdir(exist_ok=True)
    (other / "dear.txt").write_text("dear")
    with pytest.raises(StorageError, match=target):
        build_gallery(fitted, folder / "photos", other)
    assert (other / "dear.txt").read_text() == "dear"
    (other / "dear.txt").unlink()


def test_a_full_disk_leaves_the_old_index(tmp_path, fitted, monkeypatch):
    _, photos = build_index(tmp_path)
    before = {path.name: path.read_bytes() for path in (tmp_path / "index").iterdir()}
    (photos / "new.jpg").write_bytes(photograph(3))

    def full(path, pictures):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(build, "write_pictures", full)
    with pytest.raises(StorageError, match="No space left"):
        build_gallery(fitted, photos, tmp_path / "index")
    assert {path.name: path.read_bytes() for path in (tmp_path / "index").iterdir()} == before
    assert {path.name for path in tmp_path.iterdir()} == {"photos", "index", "index.partial"}
