"""Unusual photographs and output folders: one-line errors, exit codes, nothing destroyed."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.commands import SMALL, draw, learned, stopped_while, supdocnade
from tests.serving import huge_png

from supdocnade import SceneModel
from supdocnade.images.decode import write_image
from supdocnade.scene import fitting
from supdocnade.visual_words.encoder import ImageEncoder


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("data") / "photos", 5, classes=("coast", "forest"))


@pytest.fixture
def photos(scenes, tmp_path):
    """A copy that a test may change."""
    return shutil.copytree(scenes, tmp_path / "photos")


def refused(done):
    """Check that a command failed and return its one line of error."""
    assert done.code == 1
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("error: ")
    return line


def rewrite(photos, change):
    """Change every line of the metadata; None removes it."""
    path = photos / "metadata.jsonl"
    rows = [change(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows if row is not None))


def train(photos, *options):
    return supdocnade("train", photos, "-o", photos.parent / "m", *SMALL, *options)


def test_no_images(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "notes.txt").write_text("no photograph")
    assert "contains no photographs" in refused(train(tmp_path / "photos"))
    assert "cannot be read" in refused(train(tmp_path / "nowhere"))
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


def test_one_class(photos):
    shutil.rmtree(photos / "forest")
    rewrite(photos, lambda row: row if row["label"] == "coast" else None)
    done = train(photos)
    assert done.code == 0
    assert "one class" in done.err
    assert SceneModel.load(photos.parent / "m").classes_.tolist() == ["coast"]


def test_a_class_with_one_image(photos):
    (photos / "alone").mkdir()
    shutil.copy(photos / "coast" / "coast_0001.jpg", photos / "alone" / "a.jpg")
    done = train(photos)
    assert done.code == 0
    assert "fewer than 5 photographs, too few to hold any out: alone (1)." in done.err
    assert "note: a photograph is in two classes: " in done.err
    assert "alone" in SceneModel.load(photos.parent / "m").classes_


def test_unreadable_files(photos):
    bad = photos / "coast" / "bad.jpg"
    bad.write_bytes(b"no image")
    line = refused(train(photos))
    assert f"{bad} is not an image that can be read" in line
    assert "--skip-unreadable" in line
    assert line.endswith(
        f"kept, resume with: supdocnade train {photos} -o {photos.parent / 'm'} --resume"
    )
    done = train(photos, "--resume", "--skip-unreadable", "--json")
    assert done.code == 0
    assert "skipped" in done.err
    (result,) = done.objects
    assert [each["file"] for each in result["skipped"]] == [str(bad)]
    again = supdocnade(
        "train", photos, "-o", photos.parent / "again", *SMALL, "--skip-unreadable", "--jobs", 1
    )
    assert again.code == 0
    assert learned(photos.parent / "m") == learned(photos.parent / "again")


def test_metadata_of_a_photograph_that_was_deleted_can_be_skipped(photos):
    gone = photos / "coast" / "coast_0001.jpg"
    gone.unlink()
    assert "coast/coast_0001.jpg, which does not exist" in refused(train(photos))
    done = train(photos, "--skip-unreadable")
    assert done.code == 0
    assert "note: 1 line of the metadata skipped; the first: " in done.err


def test_all_unreadable_files_are_listed_at_once(photos):
    bad = [photos / "coast" / "bad.jpg", photos / "forest" / "worse.jpg"]
    for path in bad:
        path.write_bytes(b"no image")
    done = train(photos)
    *reasons, last = done.err.splitlines()
    assert done.code == 1
    assert reasons == [f"error: {path} is not an image that can be read." for path in bad]
    assert last.startswith("error: 2 photographs cannot be read; repair them, or add --skip-unread")
    assert last.endswith("--resume")


@pytest.fixture
def last(photos):
    """A photograph of the held-out set, which is read after the words are learned."""
    assert supdocnade("train", photos, "-o", photos.parent / "whole", *SMALL).code == 0
    held_out = SceneModel.load(photos.parent / "whole").fitted_.held_out.images
    return Path(max(image.name for image in held_out))


@pytest.fixture
def read(monkeypatch):
    """The names of the photographs that are encoded, in order."""
    names = []
    encode = ImageEncoder.encode

    def remember(self, source, name="", device="cpu"):
        found = encode(self, source, name)
        names.append(name)
        return found

    monkeypatch.setattr(ImageEncoder, "encode", remember)
    return names


@pytest.mark.parametrize("way", ["repair", "skip"])
def test_words_survive_a_file_that_becomes_unreadable(photos, last, read, way, monkeypatch):
    names = {str(path) for path in photos.glob("*/*.jpg")}
    whole = last.read_bytes()
    inspect = fitting.inspect_photographs

    def damage_afterwards(*arguments):
        found = inspect(*arguments)
        last.write_bytes(whole[:500])
        return found

    with monkeypatch.context() as patched:
        patched.setattr(fitting, "inspect_photographs", damage_afterwards)
        assert str(last) in refused(train(photos, "--jobs", 1))
    before = set(read)
    assert before
    read.clear()
    if way == "repair":
        last.write_bytes(whole)
        assert supdocnade("train", photos, "-o", photos.parent / "m", "--resume").code == 0
        assert learned(photos.parent / "m") == learned(photos.parent / "whole")
    else:
        assert train(photos, "--resume", "--skip-unreadable").code == 0
        names -= {str(last)}
    assert sorted([*before, *read]) == sorted(names)


def test_skipping_is_remembered(photos, last):
    last.write_bytes(b"")
    refused(train(photos))
    with stopped_while("learning from all"):
        assert train(photos, "--resume", "--skip-unreadable").code == 130
    done = supdocnade("train", photos, "-o", photos.parent / "m", "--resume")
    assert (done.code, "skipped" in done.err) == (0, True)


def test_a_panorama(photos):
    panorama = photos / "coast" / "panorama.png"
    write_image(panorama, np.zeros((40, 1000), np.uint8))
    line = refused(train(photos))
    assert f"{panorama} is too small or too narrow: patches of 16 need at least 13 × 13" in line
    assert "got 300 × 12 after resizing; repair it" in line
    done = train(photos, "--resume", "--skip-unreadable")
    assert done.code == 0
    assert f"skipped: {panorama}" in done.err
    asked = supdocnade("predict", photos.parent / "m", panorama, photos / "forest")
    assert (asked.code, len(asked.out.splitlines())) == (1, 5)
    assert f"{panorama} is too small or too narrow" in asked.err


def test_a_strip_is_named_and_the_others_are_read(photos):
    """Sixty million pixels along one side, too many to resize."""
    strip = photos / "coast" / "strip.png"
    strip.write_bytes(huge_png(60_000_000, 1))
    said = f"{strip} is too long and narrow: it has 60000000 × 1 pixels"
    assert said in refused(train(photos))
    done = train(photos, "--resume", "--skip-unreadable")
    assert done.code == 0
    assert f"skipped: {said}" in done.err
    model = photos.parent / "m"
    asked = supdocnade("predict", model, photos)
    assert (asked.code, len(asked.out.splitlines())) == (1, 10)
    assert said in asked.err
    checked = supdocnade("check", photos)
    assert checked.code == 1
    assert said in checked.out
    indexed = supdocnade("index", model, photos)
    assert (indexed.code, "10 photographs indexed" in indexed.out) == (1, True)
    assert said in indexed.err


def test_pipes_devices_and_sparse_files_are_named(photos):
    """None of them has an end, and a pipe not even a beginning."""
    first, last = sorted(photos.rglob("*.jpg"))[:2]
    (photos / "metadata.jsonl").unlink()
    os.mkfifo(f"{first}.xmp")
    os.truncate(last, 2**40)
    checked = supdocnade("check", photos)
    assert checked.code == 1
    assert f"{first}.xmp must be a file" in checked.out
    assert f"{last} is too large: {2**40} bytes" in checked.out
    for name in ("metadata.csv", "some.txt"):
        (photos / name).symlink_to("/dev/zero")
        place = photos / name if name == "some.txt" else photos
        assert f"{photos / name} must be a file" in supdocnade("check", place).err


def test_whatever_fails_for_one_photograph_is_its_error(photos, last, monkeypatch):
    encode = ImageEncoder.encode
    content = last.read_bytes()

    def fail(self, source, name="", *arguments):
        if name == str(last):
            raise MemoryError
        return encode(self, source, name, *arguments)

    assert train(photos).code == 0
    monkeypatch.setattr(ImageEncoder, "encode", fail)
    asked = supdocnade("predict", photos.parent / "m", photos)
    assert (asked.code, len(asked.out.splitlines())) == (1, 9)
    assert f"error: {last} " in asked.err
    explained = supdocnade("explain", photos.parent / "m", last)
    assert (explained.code, explained.err.partition(f"error: {last} ")[0]) == (1, "")
    shutil.rmtree(photos.parent / "m")
    assert str(last) in refused(train(photos))
    done = train(photos, "--resume", "--skip-unreadable")
    assert done.code == 0
    assert f"skipped: {last} " in done.err
    assert last.read_bytes() == content


def test_no_tags_at_all(photos):
    (photos / "metadata.jsonl").unlink()
    assert train(photos).code == 0
    done = supdocnade("predict", photos.parent / "m", photos / "coast", "--json")
    assert all(each["tags"] == [] for each in done.objects)
    assert "; " not in supdocnade("predict", photos.parent / "m", photos / "coast").out


def test_an_archive_by_date_learns_tags_alone(photos, tmp_path):
    (photos / "coast").rename(photos / "2019")
    (photos / "forest").rename(photos / "2020")
    years = {"coast": "2019", "forest": "2020"}
    rewrite(
        photos,
        lambda row: {
            "file_name": f"{years[row['label']]}/{Path(row['file_name']).name}",
            "tags": row["tags"],
        },
    )
    done = train(photos, "--json")
    assert done.objects[0]["classes"] == []
    assert "dates: 2019, 2020" in done.err
    found = supdocnade("evaluate", tmp_path / "m", photos, "--json").objects[0]
    assert (found["accuracy"], found["n_images"]) == (None, 10)
    assert supdocnade("check", photos, "--classes", "top", "--json").objects[0]["classes"] == {
        "2019": 5,
        "2020": 5,
    }
    (photos / "metadata.jsonl").unlink()
    nothing = train(photos, "--force", "--classes", "none")
    assert nothing.code == 1
    assert "must have classes (one folder each) or tags" in nothing.err
    assert train(photos, "--force", "--classes", "leaf", "--json").objects[0]["classes"] == [
        "2019",
        "2020",
    ]


def test_names_that_are_long_or_not_ascii(photos):
    label = "Küste 海岸"
    os.rename(photos / "coast", photos / label)
    (photos / "metadata.jsonl").unlink()
    long = photos / label / ("é" * 100 + "x" * 40 + ".jpg")
    os.rename(photos / label / "coast_0001.jpg", long)
    odd = os.fsdecode(os.fsencode(photos / label) + b"/\xff.jpg")
    os.rename(photos / label / "coast_0002.jpg", odd)
    done = train(photos)
    assert done.code == 0, done.err
    model = photos.parent / "m"
    files = [each["file"] for each in supdocnade("predict", model, photos, "--json").objects]
    assert {str(long), odd} <= set(files)
    assert label in supdocnade("evaluate", model, photos).out
    pictures = photos.parent / "pictures"
    pictures.mkdir()
    assert supdocnade("explain", model, long, "-o", pictures / "a.png").code == 0


def test_an_output_that_exists(photos, tmp_path):
    assert train(photos).code == 0
    for place in (tmp_path / "m", tmp_path / "missing/../m"):
        done = supdocnade("train", photos, "-o", place, *SMALL)
        assert refused(done) == f"error: {place} holds a model; --force replaces it."
    assert train(photos, "--force", "--seed", 1).code == 0
    (tmp_path / "m" / "thesis.txt").write_text("years of work")
    assert "contains other files, such as 'thesis.txt'; choose a new folder" in refused(
        train(photos, "--force")
    )
    shutil.rmtree(tmp_path / "m")
    (tmp_path / "m").write_text("a file")
    assert "is a file; choose a folder" in refused(train(photos, "--force"))
    assert (tmp_path / "m").read_text() == "a file"


def test_an_impossible_output(photos, tmp_path):
    (tmp_path / "file").write_text("a file")
    for place in (tmp_path / "file" / "m", tmp_path / ("x" * 300)):
        line = refused(supdocnade("train", photos, "-o", place, *SMALL))
        assert str(place) in line
        assert "a bug in supdocnade" not in line


def test_a_folder_without_a_model(photos, tmp_path):
    for command in (("predict", tmp_path, photos), ("evaluate", tmp_path, photos)):
        assert "is not a model" in refused(supdocnade(*command))
    assert "is not a model" in refused(supdocnade("report", tmp_path))
