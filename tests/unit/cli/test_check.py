import json
import re

import numpy as np
import pytest
from tests.commands import draw, supdocnade
from tests.networks import empty_library
from tests.scene_model import SETTINGS, scenes, small_model
from tests.textures import as_png, stripes, write_images

from supdocnade.cli.check import check_folder, format_check
from supdocnade.images.decode import write_image
from supdocnade.runs import RunOptions
from supdocnade.scene import suggestion
from supdocnade.scene.model import scene_model


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder with one of every problem, on a machine without networks."""
    empty_library(tmp_path / "networks", monkeypatch)
    paths = write_images(tmp_path / "building", 6)
    (tmp_path / "buiding").mkdir()
    (tmp_path / "buiding" / "same.png").write_bytes(paths[0].read_bytes())
    (tmp_path / "building" / "lighter.png").write_bytes(as_png(stripes(1) // 2 + 90))
    (tmp_path / "building" / "bad.jpg").write_bytes(b"no image")
    (tmp_path / "building" / "narrow.png").write_bytes(as_png(np.eye(20, 900, dtype=np.uint8)))
    (tmp_path / "building" / "film.mov").touch()
    (tmp_path / "top.png").write_bytes(as_png(stripes(9)))
    rows = [{"file_name": f"building/00{i}.png", "tags": ["wall", "window"]} for i in range(3)]
    rows.append({"file_name": "building/003.png", "tags": ["windo", "Wall"], "author": "me"})
    (tmp_path / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_every_problem_is_found(photos):
    found = check_folder(photos, options=RunOptions(n_jobs=1, on_error="skip"))
    name = f"{photos}/building/{{}}".format
    assert found["n_images"] == 11
    assert found["n_unlabelled"] == 1
    assert found["classes"] == {"buiding": 1, "building": 9}
    assert found["tags"] == {"wall": 4, "window": 3, "windo": 1}
    assert found["n_tagged"] == 4
    assert found["rare_tags"] == ["windo"]
    assert found["small_classes"] == ["buiding"]
    assert set(found["similar_classes"][0]) == {"building", "buiding"}
    assert set(found["similar_tags"][0]) == {"window", "windo"}
    assert [each["file"] for each in found["unreadable"]] == [name("bad.jpg"), name("narrow.png")]
    assert found["in_two_classes"] == [(f"{photos}/buiding/same.png", name("000.png"))]
    assert found["near_duplicates"] == [
        [f"{photos}/buiding/same.png", name("000.png")],
        [name("001.png"), name("lighter.png")],
    ]
    lines = "\n".join(format_check(found))
    for expected in (
        "11 photographs in 2 classes; 3 tags on 4 of them",
        "ignored: 1 .mov.",
        "metadata.jsonl: not read: author",
        "classes that look alike: building (9) and buiding (1).",
        "tags that look alike: window (3) and windo (1).",
        "a tag on fewer than 3 photographs",
        "too few to hold any out: buiding (1).",
        "is not an image that can be read",
        "is too small or too narrow",
        "a photograph is in two classes",
        "near-duplicates: buiding/same.png, building/000.png.",
        "near-duplicates: building/001.png, building/lighter.png.",
    ):
        assert expected in lines


def test_the_exit_code_tells_whether_all_can_be_read(photos):
    done = supdocnade("check", photos, "--json", "--jobs", 1)
    assert done.code == 1
    assert [len(done.objects), len(done.objects[0]["unreadable"])] == [1, 2]
    for path in (photos / "building").glob("[bln]*.*"):
        path.unlink()
    (photos / "buiding" / "same.png").unlink()
    (photos / "building" / "film.mov").unlink()
    (photos / "metadata.jsonl").unlink()
    done = supdocnade("check", photos, "--jobs", 1)
    assert done.code == 0
    assert done.out.splitlines()[-1].startswith("all labelled photographs are of one class: ")
    (photos / "building").rename(photos / "_unlabelled")
    done = supdocnade("check", photos, "--jobs", 1)
    assert done.out.splitlines()[-1] == "no problems found"


def test_all_wrong_lines_of_the_metadata_are_listed(photos):
    """The other lines are read."""
    lines = ['{"file_name": "building/000.png", "tags": ["wall"]}', "no JSON"]
    lines += ['{"file_name": "building/000.png"}', '{"file_name": "../x.png"}']
    lines += [f'{{"file_name": "building/gone{i}.png"}}' for i in range(20)]
    (photos / "metadata.jsonl").write_text("\n".join(lines))
    found = check_folder(photos, options=RunOptions(n_jobs=1, on_error="skip"))
    assert found["tags"] == {"wall": 1}
    wrong = found["invalid_lines"]
    assert len(wrong) == 23
    for line, text in (
        (2, "expected a JSON object, got 'no JSON'"),
        (3, "expected each file once, got 'building/000.png, which line 1 names'"),
        (4, "expected a path below"),
        (24, " names building/gone19.png, which does not exist."),
    ):
        assert f"metadata.jsonl, line {line}" in wrong[line - 2]
        assert text in wrong[line - 2]
    printed = "\n".join(format_check(found))
    assert wrong[19] in printed
    assert wrong[20] not in printed
    assert "3 other lines of the metadata cannot be read." in printed
    for path in (photos / "building").glob("[bn]*.*"):
        path.unlink()
    assert supdocnade("check", photos, "--jobs", 1).code == 1


def test_photographs_that_a_model_doubts_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(suggestion, "CONFIDENT", 0.5)
    small_model().save(tmp_path / "scenes")
    photos = draw(tmp_path / "photos", 3, seed=2, classes=("coast", "forest"))
    (photos / "coast").rename(photos / "wrong")
    (photos / "forest").rename(photos / "coast")
    (photos / "metadata.jsonl").unlink()
    done = supdocnade("check", photos, "--model", tmp_path / "scenes")
    assert done.code == 0
    assert re.search(r"/coast/\S+: in coast, but looks like forest \(\d+ %\)\.", done.out)
    assert "looks like" not in supdocnade("check", photos).out
    learned = write_images(tmp_path / "learned" / "coast", 6)
    for path, scene in zip(learned, scenes(), strict=False):
        write_image(path, scene.image)
    scene_model(**SETTINGS).fit(str(tmp_path / "learned")).save(tmp_path / "own")
    done = supdocnade("check", tmp_path / "learned", "--model", tmp_path / "own")
    assert "photographs not compared with the model, which has learned from them" in done.out
