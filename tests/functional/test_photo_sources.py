"""Commands on photographs in tar files, in lists and on another file system."""

from collections import Counter

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from PIL import Image
from tests.commands import SMALL, draw, learned, supdocnade
from tests.packed_photos import copy_to_memory, tar_members, write_tar
from tests.textures import plain_packet

from supdocnade import SceneModel
from supdocnade.folders.photo_folder import read_folder
from supdocnade.scene.model import scene_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("photos") / "photos")


@pytest.fixture(scope="module")
def model(folder):
    path = folder.with_name("scenes")
    assert supdocnade("train", folder, "-o", path, *SMALL).code == 0
    return path


@pytest.fixture(scope="module")
def places(folder):
    """Return the same photographs in the same order at other places."""
    records = read_folder(folder)
    above = folder.parent
    write_tar(above / "photos-0.tar", tar_members(records[:7]))
    write_tar(above / "photos-1.tar", tar_members(records[7:]))
    names = [record.path.relative_to(folder).as_posix() for record in records]
    (folder / "all.txt").write_text("\n".join(names))
    return {
        "tar": f"{above}/photos-{{0..1}}.tar",
        "list": str(folder / "all.txt"),
        "remote": copy_to_memory(folder, "functional"),
    }


def arrays_without_names(model):
    """Return the arrays of a model but the names of photographs, which have those of the place."""
    return {name: array for name, array in learned(model)[0].items() if "/names" not in name}


def test_training_gives_the_model_of_the_folder(places, model, tmp_path):
    done = supdocnade("train", places["tar"], "-o", tmp_path / "scenes", *SMALL)
    assert done.code == 0, done.err
    assert arrays_without_names(tmp_path / "scenes") == arrays_without_names(model)


@pytest.mark.parametrize("kind", ["tar", "list", "remote"])
def test_predictions_and_metrics_are_those_of_the_folder(kind, places, folder, model):
    expected = supdocnade("predict", model, folder, "--json").objects
    done = supdocnade("predict", model, places[kind], "--json")
    assert done.code == 0, done.err
    for found, wanted in zip(done.objects, expected, strict=True):
        assert {**found, "file": None} == {**wanted, "file": None}
    evaluated = supdocnade("evaluate", model, places[kind], "--json")
    assert evaluated.code == 0, evaluated.err
    assert f"{len(expected)} of these photographs were used for training" in evaluated.err
    assert evaluated.objects == supdocnade("evaluate", model, folder, "--json").objects


def test_an_index_reads_only_changed_photographs(places, model, tmp_path, monkeypatch):
    output = tmp_path / "index"
    done = supdocnade("index", model, places["tar"], "-o", output, "--json")
    assert done.code == 0, done.err
    changes = {"added": 18, "changed": 0, "dropped": 0}
    assert done.objects == [{"index": str(output), "n_images": 18, **changes, "skipped": []}]

    def refuse(*_):
        raise AssertionError("read again")

    monkeypatch.setattr("supdocnade.gallery.build._read_photograph", refuse)
    done = supdocnade("index", model, places["tar"], "-o", output, "--json")
    assert done.code == 0, done.err


def test_sidecars_are_refused_where_no_file_can_be_beside(places, model):
    done = supdocnade("tag", model, places["tar"], "--dry-run")
    assert done.code == 1
    assert done.out == ""
    message = "error: sidecars are written beside photographs that are files on this machine, got "
    assert done.err.splitlines()[0].startswith(message)


def test_a_damaged_photograph_in_a_shard_is_named(places, model, tmp_path):
    good = next(iter(tar_members(read_folder(model.with_name("photos"))[:1]).values()))
    shard = write_tar(tmp_path / "some.tar", {"a.jpg": good, "b.jpg": good[:500], "c.jpg": b""})
    done = supdocnade("predict", model, shard, "--json")
    assert done.code == 1
    assert [each["file"] for each in done.objects] == [f"{shard}/a.jpg"]
    first, second = done.err.splitlines()
    assert first.startswith(f"error: {shard}/b.jpg is damaged: ")
    assert second == f"error: {shard}/c.jpg is empty."


def test_the_python_interface_takes_places_and_addresses(places, folder, model):
    scene = SceneModel.load(model)
    expected = scene.predict_proba(folder)
    for place in places.values():
        assert (scene.predict_proba(place) == expected).all()
    one = "memory://functional/coast/coast_0001.jpg"
    assert (scene.predict_proba([one, places["tar"]])[[0, 1]] == expected[[0, 0]]).all()
    fitted = scene_model(
        n_topics=8, features="sift", n_words=20, max_epochs=2, min_tag_count=2, random_state=0
    ).fit(places["tar"])
    assert list(fitted.classes_) == list(scene.classes_)


@pytest.fixture(scope="module")
def with_keywords(folder):
    """Return photographs on another file system that have keywords inside and no metadata."""
    tagged = folder.with_name("tagged")
    for record in read_folder(folder):
        path = tagged / record.path.relative_to(folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        packet = plain_packet(*record.tags) if record.tags else b""
        with Image.open(record.path) as image:
            image.save(path, xmp=packet, quality="keep")
    return copy_to_memory(tagged, "tagged")


@pytest.fixture
def reads(monkeypatch):
    """Return a count of the times that each photograph is opened or fetched."""
    counts = Counter()
    for name in ("cat_file", "_open"):
        read = getattr(MemoryFileSystem, name)

        def count(self, path, *arguments, read=read, **options):
            counts[path] += path.endswith(".jpg")
            return read(self, path, *arguments, **options)

        monkeypatch.setattr(MemoryFileSystem, name, count)
    return counts


@pytest.mark.parametrize(
    ("command", "n_reads"), [("encode", 2), ("evaluate", 2), ("index", 1), ("predict", 1)]
)
def test_photographs_are_opened_once_and_for_keywords(
    command, n_reads, with_keywords, model, reads, tmp_path
):
    output = () if command == "evaluate" else ("-o", tmp_path / "output")
    done = supdocnade(command, model, with_keywords, *output)
    assert done.code == 0, done.err
    assert len(reads) == 18
    assert set(reads.values()) == {n_reads}


def test_training_reads_photographs_in_few_passes(places, reads, tmp_path, monkeypatch):
    # As in a large folder, a few photographs are sampled, timed and shown.
    monkeypatch.setattr("supdocnade.visual_words.learn.SAMPLE_SIZE", 500)
    monkeypatch.setattr("supdocnade.visual_words.learn.MIN_PER_IMAGE", 250)
    monkeypatch.setattr("supdocnade.scene.thumbnails.MAX_PHOTOGRAPHS", 2)
    done = supdocnade("train", places["remote"], "-o", tmp_path / "scenes", *SMALL)
    assert done.code == 0, done.err
    counts = Counter((+reads).values())
    assert counts[2] >= 18 - 4  # They are inspected and encoded.
    assert min(counts) == 2


def test_local_copies_spare_training_the_remote_file_system(places, model, tmp_path, monkeypatch):
    monkeypatch.setitem(
        fsspec.config.conf, "filecache", {"cache_storage": str(tmp_path / "copies")}
    )
    fetched = Counter()
    get_file = MemoryFileSystem.get_file

    def count(self, path, *arguments, **options):
        fetched[path] += path.endswith(".jpg")
        return get_file(self, path, *arguments, **options)

    monkeypatch.setattr(MemoryFileSystem, "get_file", count)
    place = f"filecache::{places['remote']}"
    # One worker: fsspec's cache may lose the entry of a file while another thread adds one.
    done = supdocnade("train", place, "-o", tmp_path / "scenes", *SMALL, "--jobs", "1")
    assert done.code == 0, done.err
    assert +fetched == dict.fromkeys((f"/functional/{name}" for name in names_in(model)), 1)
    assert arrays_without_names(tmp_path / "scenes") == arrays_without_names(model)


def names_in(model):
    folder = model.with_name("photos")
    return [record.path.relative_to(folder).as_posix() for record in read_folder(folder)]
