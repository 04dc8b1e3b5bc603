"""`supdocnade reproduce --quick` on drawn scenes arranged like the paper's data sets."""

import json
import shutil

import pytest
from tests.commands import supdocnade
from tests.photosets import OTHER_NUMBERS, draw_labelme, draw_uiuc_sports

from supdocnade.paper import stages as running
from supdocnade.paper.results import RESULTS

pytestmark = pytest.mark.filterwarnings(OTHER_NUMBERS)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    draw_labelme(folder / "labelme", 6)
    draw_uiuc_sports(folder / "uiuc_sports", 6)
    return folder


def reproduce(dataset, out, *more):
    return supdocnade("reproduce", dataset, "--out", out, "--quick", "--jobs", 1, *more)


def figures(folder):
    return [
        {key: value for key, value in row.items() if key != "params"}
        for row in json.loads((folder / RESULTS).read_text())
    ]


@pytest.fixture(scope="module")
def labelme(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("labelme")
    with pytest.warns(UserWarning, match="other numbers of photographs"):
        done = reproduce("labelme", folder, "--data", data, "--json")
    assert done.code == 0, done.err
    return folder, done


def test_all_experiments_from_photographs_to_a_page(labelme):
    folder, done = labelme
    (told,) = done.objects
    assert told["page"] == str(folder / "reproduction.md")
    assert told["seconds"] > 0
    page = (folder / "reproduction.md").read_text()
    assert "SupDocNADE, class from words and tags" in page
    methods = {row["method"] for row in figures(folder)}
    assert {"SupDocNADE", "DocNADE", "spatial pyramid matching", "k nearest neighbours"} <= methods


def test_the_same_command_again_has_nothing_left_to_do(labelme, data, monkeypatch):
    folder, _ = labelme
    before = figures(folder)
    machines = json.loads((folder / "made.json").read_text())["machines"]
    assert {stage: len(used) for stage, used in machines.items()} == {"models": 1, "others": 1}
    machines["models"][0]["device"] = "a machine far away"
    seconds = json.loads((folder / "seconds.json").read_text())
    (folder / "seconds.json").write_text(json.dumps({**seconds, "machines": machines}))
    shutil.rmtree(folder / "models")  # They may have stayed on another machine.

    def refuse(*_, **__):
        raise AssertionError("nothing is made twice")

    monkeypatch.setattr(running, "encode_words", refuse)
    monkeypatch.setattr("supdocnade.paper.topic_models._fit_together", refuse)
    done = reproduce("labelme", folder, "--data", data)
    assert done.code == 0, done.err
    assert "seconds)" in done.out
    assert "looking for copies: 48" in done.err
    assert figures(folder) == before
    # It is not said to have been made here.
    assert "models on a machine far away (" in (folder / "reproduction.md").read_text()


def test_models_are_trained_where_only_words_are(labelme, tmp_path):
    folder, _ = labelme
    for name in ("photographs.json", "protocol.json"):
        shutil.copy(folder / name, tmp_path / name)
    shutil.copytree(folder / "words", tmp_path / "words")
    # All answers but those of one split's models.
    shutil.copytree(
        folder / "answers",
        tmp_path / "answers",
        ignore=lambda _, names: [name for name in names if name.startswith("1-train-sup")],
    )
    done = reproduce("labelme", tmp_path, "--stage", "models")
    assert done.code == 0, done.err
    for path in (folder / "answers").iterdir():
        one, other = (
            json.loads(each.read_text()) for each in (path, tmp_path / "answers" / path.name)
        )
        assert one.get("predicted") == other.get("predicted"), path.name
        assert one.get("top_tags") == other.get("top_tags"), path.name


def test_where_time_is_short_the_page_says_what_was_cut(labelme, tmp_path):
    shutil.copytree(labelme[0], tmp_path / "study")
    done = reproduce("labelme", tmp_path / "study", "--splits", 1, "--stage", "page")
    assert done.code == 0, done.err
    assert {row["split"] for row in figures(tmp_path / "study")} == {0}
    page = (tmp_path / "study" / "reproduction.md").read_text()
    assert "- splits: the first 1 of 2\n" in page


def test_uiuc_sports_runs_as_soon_as_its_photographs_are_there(data, tmp_path):
    done = reproduce("uiuc", tmp_path, "--data", data)
    assert done.code == 0, done.err
    page = (tmp_path / "reproduction.md").read_text()
    assert "## UIUC-Sports" in page
    assert "46.95" in page


def test_what_is_wrong_is_said_in_a_sentence(data, labelme, tmp_path):
    nothing = reproduce("labelme", tmp_path / "none", "--stage", "models")
    assert nothing.code == 1
    assert "must hold a study, got none; --data names photographs." in nothing.err
    folder, _ = labelme
    shutil.copy(folder / "photographs.json", tmp_path / "photographs.json")
    shutil.copy(folder / "protocol.json", tmp_path / "protocol.json")
    no_data = reproduce("labelme", tmp_path, "--stage", "words")
    assert no_data.code == 1
    assert "--data must name the photographs" in no_data.err
    too_soon = reproduce("labelme", tmp_path, "--stage", "page")
    assert too_soon.code == 1
    assert "lacks answers of models: run --stage models." in too_soon.err
    shutil.copytree(
        folder / "answers", tmp_path / "answers", ignore=shutil.ignore_patterns("yardstick-*")
    )
    no_others = reproduce("labelme", tmp_path, "--stage", "page")
    assert no_others.code == 1
    assert "lacks answers of RBF SVM on √counts: run --stage others." in no_others.err
    draw_labelme(tmp_path / "others", 6, seed=9)
    others = reproduce("labelme", folder, "--data", tmp_path / "others")
    assert others.code == 1
    assert "must be new or hold a study of these photographs, it holds others." in others.err
