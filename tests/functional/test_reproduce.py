"""`python -m experiments.paper --quick` on drawn scenes arranged like the paper's data sets."""

import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from experiments.paper import stages
from experiments.paper.__main__ import main
from experiments.paper.results import RESULTS
from tests.commands import Done
from tests.photosets import OTHER_NUMBERS, draw_labelme

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.filterwarnings(OTHER_NUMBERS)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    draw_labelme(folder / "labelme", 6)
    return folder


def run(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return Done(code, out.getvalue(), err.getvalue())


def reproduce(dataset, out, *more):
    return run(dataset, "--out", out, "--quick", "--jobs", 1, *more)


def figures(folder):
    return [
        {key: value for key, value in row.items() if key != "params"}
        for row in json.loads((folder / RESULTS).read_text())
    ]


@pytest.fixture(scope="module")
def labelme(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("labelme")
    with pytest.warns(UserWarning, match="other numbers of photographs"):
        done = reproduce("labelme", folder, "--data", data)
    assert done.code == 0, done.err
    return folder, done


def test_all_experiments_from_photographs_to_a_page(labelme):
    folder, done = labelme
    assert f"page: {folder / 'reproduction.md'}\n" in done.out
    page = (folder / "reproduction.md").read_text()
    assert "SupDocNADE, class from words and tags" in page
    methods = {row["method"] for row in figures(folder)}
    assert {"SupDocNADE", "DocNADE", "spatial pyramid matching", "k nearest neighbours"} <= methods
    assert {"sLDA", "MMLDA"} <= methods


def test_a_finished_study_is_not_computed_again(labelme, data, tmp_path, monkeypatch):
    folder = tmp_path / "study"
    shutil.copytree(labelme[0], folder)
    before = figures(folder)
    machines = json.loads((folder / "provenance.json").read_text())["machines"]
    assert {stage: len(used) for stage, used in machines.items()} == {
        "models": 1,
        "others": 1,
        "svms": 1,
    }
    machines["models"][0]["device"] = "a machine far away"
    seconds = json.loads((folder / "seconds.json").read_text())
    (folder / "seconds.json").write_text(json.dumps({**seconds, "machines": machines}))
    shutil.rmtree(folder / "models")  # They may have stayed on another machine.

    def refuse(*_, **__):
        raise AssertionError("made twice")

    monkeypatch.setattr(stages, "encode_words", refuse)
    monkeypatch.setattr("experiments.paper.topic_models._fit_models", refuse)
    done = reproduce("labelme", folder, "--data", data)
    assert done.code == 0, done.err
    assert "seconds)" in done.out
    assert "looking for near-duplicates (48)" in done.err
    assert figures(folder) == before
    # This machine made nothing and is not listed.
    assert "models on a machine far away (" in (folder / "reproduction.md").read_text()


def test_the_commands_and_code_of_the_page_about_tables_run(labelme, data, tmp_path, monkeypatch):
    page = (ROOT / "docs/paper-table.md").read_text()
    ((command,), (code,)) = (
        re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL) for language in ("sh", "python")
    )
    monkeypatch.chdir(tmp_path)
    shutil.copytree(data / "labelme", "data")
    # The study was made by the same command, so that only its page is written again.
    shutil.copytree(labelme[0], "reproduction/labelme-quick")
    done = run(*shlex.split(command)[3:])
    assert done.code == 0, done.err
    assert "page: reproduction/labelme-quick/reproduction.md" in done.out
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert re.fullmatch(
        r"(?:(?:Sup)?DocNADE with \d+ topics: \d+\.\d% in 2 splits\n)+", printed.stdout
    ), printed.stderr
    files = re.findall(r"`(\w+(?:/|\.\w+))`", page.partition("| file |")[2].partition("##")[0])
    missing = [name for name in files if not Path("reproduction/labelme-quick", name).exists()]
    assert missing == []


def test_models_need_only_words(labelme, tmp_path):
    folder, _ = labelme
    for name in ("photographs.json", "protocol.json"):
        shutil.copy(folder / name, tmp_path / name)
    shutil.copytree(folder / "words", tmp_path / "words")
    # All predictions but those of one split's models.
    shutil.copytree(
        folder / "predictions",
        tmp_path / "predictions",
        ignore=lambda _, names: [name for name in names if name.startswith("1-train-sup")],
    )
    done = reproduce("labelme", tmp_path, "--stage", "models")
    assert done.code == 0, done.err
    for path in (folder / "predictions").iterdir():
        one, other = (
            json.loads(each.read_text()) for each in (path, tmp_path / "predictions" / path.name)
        )
        assert one.get("predicted") == other.get("predicted"), path.name
        assert one.get("top_tags") == other.get("top_tags"), path.name


def test_the_page_lists_omitted_splits(labelme, tmp_path):
    shutil.copytree(labelme[0], tmp_path / "study")
    done = reproduce("labelme", tmp_path / "study", "--splits", 1, "--stage", "page")
    assert done.code == 0, done.err
    assert {row["split"] for row in figures(tmp_path / "study")} == {0}
    page = (tmp_path / "study" / "reproduction.md").read_text()
    assert "- splits: the first 1 of 2\n" in page


def test_errors_are_one_sentence(data, labelme, tmp_path):
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
    assert "lacks predictions of SupDocNADE: run the stages before." in too_soon.err
    shutil.copytree(
        folder / "predictions",
        tmp_path / "predictions",
        ignore=shutil.ignore_patterns("baseline-*"),
    )
    no_others = reproduce("labelme", tmp_path, "--stage", "page")
    assert no_others.code == 1
    assert "lacks predictions of RBF SVM on √counts: run the stages before." in no_others.err
    draw_labelme(tmp_path / "others", 6, seed=9)
    others = reproduce("labelme", folder, "--data", tmp_path / "others")
    assert others.code == 1
    assert "must be new or hold a study of these photographs, it holds others." in others.err
