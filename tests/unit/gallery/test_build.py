import os
import shutil
from functools import partial
from itertools import count

import pytest
from tests.serving import build_index, photograph

from supdocnade.errors import StorageError
from supdocnade.gallery import build, neighbours
from supdocnade.gallery.build import build_gallery
from supdocnade.gallery.manifest import read_manifest
from supdocnade.gallery.photo_index import Gallery
from supdocnade.run_options import RunOptions


def counted(monkeypatch):
    """Count the photographs that are read."""
    read, look = [], build._ReadPhotograph.__call__

    def call(self, source, name, number):
        read.append(os.path.basename(source))
        return look(self, source, name, number)

    monkeypatch.setattr(build._ReadPhotograph, "__call__", call)
    return read


def contents(gallery):
    """Everything that a gallery says of its photographs."""
    return [
        (
            gallery.path(number),
            gallery.topics(number).tolist(),
            gallery.label(number),
            gallery.tags(number),
            gallery.picture(number),
        )
        for number in range(len(gallery))
    ]


def sizes(index):
    return [each.rows for each in read_manifest(index).segments]


def test_only_what_is_new_or_changed_is_read_again(tmp_path, fitted, monkeypatch):
    _, photos = build_index(tmp_path)
    read = counted(monkeypatch)
    changed, gone = sorted(photos.glob("*/*.jpg"))[:2]
    new = photos / "new.jpg"
    changed.write_bytes(photograph(20) + b"\0")
    new.write_bytes(photograph(21))
    gone.unlink()
    second, _, _ = build_gallery(fitted, photos, tmp_path / "index")
    assert sorted(read) == sorted([changed.name, "new.jpg"])
    assert sizes(tmp_path / "index") == [24, 2]
    fresh, _, _ = build_gallery(fitted, photos, tmp_path / "fresh")
    assert contents(second) == contents(fresh)
    before = (tmp_path / "index" / "index.json").read_bytes()
    build_gallery(fitted, photos, tmp_path / "index")
    assert (tmp_path / "index" / "index.json").read_bytes() == before


def test_an_index_grows_and_shrinks_by_segments(tmp_path, fitted, monkeypatch):
    monkeypatch.setattr(build, "BLOCK_SIZE", 1)
    monkeypatch.setattr(build, "MERGED_AT_ONCE", 3)
    whole, photos = build_index(tmp_path)
    assert sum(sizes(tmp_path / "index")) == 24
    assert len(sizes(tmp_path / "index")) <= 2
    paths = sorted(photos.glob("*/*.jpg"))
    kept = contents(whole)
    for path in paths[::2]:
        path.unlink()
        smaller, _, _ = build_gallery(fitted, photos, tmp_path / "index")
        kept = [each for each in kept if each[0] != str(path)]
        assert contents(smaller) == kept
        near = [number for number, _ in smaller.nearest(smaller.topics(3), 99)]
        assert near[0] == 3
        assert sorted(near) == list(range(len(smaller)))
    assert sum(sizes(tmp_path / "index")) <= 12 / (1 - build.MAX_DELETED)
    names = {path.name.partition("-")[0] for path in (tmp_path / "index").iterdir()}
    assert names <= {"index.json", ".lock", "segment", "deleted", "order"}


def test_segments_are_merged_into_few():
    rows: list[int] = []
    for added in [1] * 200:
        rows.append(added)
        chosen = build.choose_segments(rows)
        merged = sum(rows[number] for number in chosen)
        rows = [each for number, each in enumerate(rows) if number not in chosen]
        rows += [merged] if merged else []
        assert sum(rows) > 0
        assert len(rows) <= 8
        ordered = sorted(rows)
        assert all(each > sum(ordered[:place]) for place, each in enumerate(ordered))


def test_a_run_that_was_stopped_goes_on(tmp_path, fitted, monkeypatch):
    monkeypatch.setattr(build, "BLOCK_SIZE", 5)
    whole, photos = build_index(tmp_path)

    def stop(stage, done, total):
        if done == 13:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_gallery(fitted, photos, tmp_path / "again", RunOptions(progress=stop))
    unfinished = Gallery.load(tmp_path / "again", fitted)
    assert (len(unfinished), unfinished.is_complete) == (13, False)
    assert contents(unfinished) == contents(whole)[:13]
    read, seen = counted(monkeypatch), []
    gallery, _, _ = build_gallery(
        fitted, photos, tmp_path / "again", RunOptions(progress=lambda *each: seen.append(each))
    )
    assert len(read) == 11
    assert seen[-1][1:] == (24, 24)
    assert gallery.is_complete
    assert contents(gallery) == contents(whole)


def test_a_kill_at_any_step_leaves_an_index(tmp_path, fitted, monkeypatch):
    """The process ends before a file is flushed, or before one is put into its place."""
    monkeypatch.setattr(build, "BLOCK_SIZE", 1)
    monkeypatch.setattr(build, "MERGED_AT_ONCE", 2)
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(4):
        (photos / f"{number}.jpg").write_bytes(photograph(number))
    build_gallery(fitted, photos, tmp_path / "index")
    (photos / "0.jpg").unlink()
    (photos / "new.jpg").write_bytes(photograph(4))
    kept = {str(photos / f"{number}.jpg") for number in (1, 2, 3)}
    n_killed = 0
    for step in range(100):
        index = tmp_path / f"index{step}"
        shutil.copytree(tmp_path / "index", index)
        calls = count()

        def call(function, *arguments, step=step, calls=calls):
            if next(calls) == step:
                raise KeyboardInterrupt
            return function(*arguments)

        with monkeypatch.context() as patched:
            for name in ("fsync", "replace"):
                patched.setattr(os, name, partial(call, getattr(os, name)))
            try:
                build_gallery(fitted, photos, index)
                break
            except KeyboardInterrupt:
                n_killed += 1
        left = {each[0] for each in contents(Gallery.load(index, fitted))}
        assert kept <= left <= {*kept, str(photos / "0.jpg"), str(photos / "new.jpg")}
        gallery, _, _ = build_gallery(fitted, photos, index)
        assert {each[0] for each in contents(gallery)} == {*kept, str(photos / "new.jpg")}
    assert n_killed > 5


def test_what_cannot_be_read_is_skipped_and_named(tmp_path, fitted):
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "a.jpg").write_bytes(photograph(0))
    (photos / "b.jpg").write_bytes(b"nonsense")
    gallery, skipped, _ = build_gallery(fitted, photos, tmp_path / "index")
    assert [gallery.name(number) for number in range(len(gallery))] == ["a.jpg"]
    assert [each.name for each in skipped] == [str(photos / "b.jpg")]
    (photos / "a.jpg").unlink()
    with pytest.raises(StorageError, match=r"photograph that can be read, got none: .*b\.jpg"):
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


def test_a_full_disk_leaves_an_index(tmp_path, fitted, monkeypatch):
    gallery, photos = build_index(tmp_path)
    before = contents(gallery)
    (photos / "new.jpg").write_bytes(photograph(3))

    def full(file):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="No space left"):
            build_gallery(fitted, photos, tmp_path / "index")
    assert contents(Gallery.load(tmp_path / "index", fitted)) == before
    assert {path.name for path in tmp_path.iterdir()} == {"photos", "index"}


@pytest.mark.parametrize(("file", "n_read"), [("segment-*", 24), ("order-*", 0)])
def test_a_damaged_file_is_made_again(tmp_path, fitted, monkeypatch, file, n_read):
    gallery, photos = build_index(tmp_path)
    before = contents(gallery)
    (path,) = (tmp_path / "index").glob(f"{file}.safetensors")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    read = counted(monkeypatch)
    gallery, _, _ = build_gallery(fitted, photos, tmp_path / "index")
    assert len(read) == n_read
    assert contents(gallery) == before


def test_an_index_of_another_format_is_made_again(tmp_path, fitted):
    gallery, photos = build_index(tmp_path)
    before = contents(gallery)
    shutil.rmtree(tmp_path / "index")
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "index.json").write_text(
        '{"format": 1, "kind": "Gallery", "model": "", "folder": "", "pictures": ""}'
    )
    with pytest.raises(StorageError, match="index --replace makes it again"):
        Gallery.load(tmp_path / "index", fitted)
    with pytest.raises(StorageError, match="index --replace makes it again"):
        build_gallery(fitted, photos, tmp_path / "index")
    gallery, _, _ = build_gallery(fitted, photos, tmp_path / "index", start_over=True)
    assert contents(gallery) == before


def test_several_folders_are_one_gallery(tmp_path, fitted, monkeypatch):
    one, two = tmp_path / "one", tmp_path / "two"
    (one / "inner").mkdir(parents=True)
    two.mkdir()
    for path in (one / "10.jpg", one / "2.jpg", one / "inner" / "1.jpg", two / "1.jpg"):
        path.write_bytes(photograph(len(path.parts)))
    folders = [one, two, one / "inner"]
    gallery, _, _ = build_gallery(fitted, folders, tmp_path / "index")
    names = ["one/2.jpg", "one/10.jpg", "one/inner/1.jpg", "two/1.jpg"]
    assert [gallery.name(number) for number in range(len(gallery))] == names
    assert [gallery.path(number) for number in range(4)] == [str(tmp_path / n) for n in names]
    read = counted(monkeypatch)
    gallery, _, _ = build_gallery(fitted, two, tmp_path / "index")
    assert [gallery.name(number) for number in range(len(gallery))] == ["1.jpg"]
    assert read == []


def test_a_large_index_is_searched_with_inverted_files(tmp_path, fitted, monkeypatch):
    pytest.importorskip("faiss")
    exact, photos = build_index(tmp_path)
    monkeypatch.setattr(build, "MIN_APPROXIMATE", 24)
    monkeypatch.setattr(neighbours, "MIN_INVERTED", 24)
    monkeypatch.setattr(neighbours, "CELLS_PER_ROOT", 0.5)
    gallery, _, _ = build_gallery(fitted, photos, tmp_path / "large")
    assert [path.name for path in (tmp_path / "large").glob("*.faiss")] == ["segment-000000.faiss"]
    assert contents(gallery) == contents(exact)
    assert gallery.nearest(gallery.topics(7), 24) == exact.nearest(exact.topics(7), 24)
    monkeypatch.setattr(neighbours, "find_spec", lambda name: None)
    without = Gallery.load(tmp_path / "large", fitted)
    assert without.nearest(without.topics(7), 24) == exact.nearest(exact.topics(7), 24)
