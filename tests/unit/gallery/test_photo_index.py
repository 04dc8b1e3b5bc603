import json
import os

import numpy as np
import pytest
from tests.drawn import small_model
from tests.serving import build_index, photograph

from supdocnade.errors import StorageError
from supdocnade.gallery import Gallery, build, build_gallery, model_fingerprint
from supdocnade.run_options import RunOptions


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gallery")
    build_index(folder)
    return folder


@pytest.fixture
def fitted():
    return small_model().fitted_


@pytest.fixture
def gallery(folder, fitted):
    return Gallery.load(folder / "index", fitted)


def test_an_index_holds_what_the_model_says(gallery):
    assert len(gallery) == 24
    files = [photograph(int(name[-6:-4])) for name in gallery.rows.names]
    assert np.array_equal(gallery.rows.topics_NH, small_model().transform(files))
    for row, said in enumerate(small_model().iter_predictions(files)):
        label, probability = gallery.label(row)
        assert label == said.label
        assert probability == pytest.approx(said.probability, rel=1e-6)
        assert dict(gallery.tags(row)) == pytest.approx(dict(said.tags), rel=1e-6)


def test_the_nearest_are_the_nearest(gallery):
    topics_NH = gallery.rows.topics_NH.astype(np.float64)
    found = gallery.nearest(gallery.rows.topics_NH[7], 24)
    away_N = np.linalg.norm(topics_NH - topics_NH[7], axis=1)
    assert [row for row, _ in found] == np.argsort(away_N, kind="stable").tolist()
    assert found[0] == (7, 0.0)
    others = gallery.nearest(gallery.rows.topics_NH[7], 100, but=7)
    assert [row for row, _ in others] == [row for row, _ in found[1:]]


def test_photographs_are_found_by_class_and_tag(gallery):
    for label in gallery.classes:
        rows = gallery.found(label=label)
        assert {gallery.label(row)[0] for row in rows} <= {label}
        sure = gallery.rows.proba_NC[rows, gallery.classes.index(label)]
        assert (np.diff(sure) <= 0).all()
    assert sum(len(gallery.found(label=label)) for label in gallery.classes) == 24
    tag = gallery.tags(0)[0][0]
    assert sorted(gallery.found(tag=tag)) == [
        row for row in range(24) if tag in dict(gallery.tags(row))
    ]
    assert len(gallery.found()) == 24


def test_small_copies_are_those_of_the_photographs(gallery):
    for row in (0, 11, 23):
        assert gallery.picture(row).startswith(b"\xff\xd8\xff")
        assert gallery.picture(row).endswith(b"\xff\xd9")


def test_an_index_that_is_replaced_does_not_disturb_those_who_use_it(gallery, folder, fitted):
    before = [gallery.picture(row) for row in range(24)]
    os.replace(folder / "index", folder / "elsewhere")
    assert [gallery.picture(row) for row in range(24)] == before
    os.replace(folder / "elsewhere", folder / "index")


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


def test_an_index_of_another_model_is_refused_and_made_anew(folder, tmp_path):
    other = small_model("softmax").fitted_
    assert model_fingerprint(other) != model_fingerprint(small_model().fitted_)
    with pytest.raises(StorageError, match="another model"):
        Gallery.load(folder / "index", other)


@pytest.mark.parametrize("target", ["photos", "something"])
def test_nothing_else_is_ever_replaced(folder, fitted, tmp_path, target):
    other = folder / target
    other.mkdir(exist_ok=True)
    (other / "dear.txt").write_text("dear")
    with pytest.raises(StorageError, match=target):
        build_gallery(fitted, folder / "photos", other)
    assert (other / "dear.txt").read_text() == "dear"
    (other / "dear.txt").unlink()


@pytest.mark.parametrize("file", ["index.json", "photographs.safetensors", "pictures.bin"])
@pytest.mark.parametrize("damage", ["cut", "missing", "changed", "empty"])
def test_a_damaged_index_is_refused_with_a_sentence(folder, fitted, file, damage):
    path = folder / "index" / file
    content = path.read_bytes()
    try:
        if damage == "missing":
            path.unlink()
        elif damage == "cut":
            path.write_bytes(content[: len(content) // 2])
        elif damage == "empty":
            path.write_bytes(b"")
        else:
            middle = len(content) // 2
            path.write_bytes(content[:middle] + b"\x01\x02" + content[middle + 2 :])
        with pytest.raises(StorageError, match="index"):
            Gallery.load(folder / "index", fitted)
    finally:
        path.write_bytes(content)


@pytest.mark.parametrize(
    "changed", [{"format": 2}, {"kind": "SceneModel"}, {"model": 5}, {"pictures": None}]
)
def test_odd_descriptions_are_refused(folder, fitted, changed):
    path = folder / "index" / "index.json"
    content = path.read_bytes()
    try:
        path.write_text(json.dumps({**json.loads(content), **changed}))
        with pytest.raises(StorageError, match="index"):
            Gallery.load(folder / "index", fitted)
    finally:
        path.write_bytes(content)


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
