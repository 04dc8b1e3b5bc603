"""Run the commands and code of the documents, and check their links, paths and figures."""

import importlib
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.commands import SMALL, draw, supdocnade
from tests.networks import write_network
from tests.packed_photos import copy_to_memory, tar_members, write_tar
from tests.scene_model import small_model
from tests.serving import run_server
from tests.structure import documents
from tests.texts import write_jsonl, write_texts

from supdocnade.cli.demo import SETTINGS as DEMO_SETTINGS
from supdocnade.folders.photo_folder import read_folder

ROOT = Path(__file__).parents[2]
TESTED = {
    *("README.md", "docs/baselines.md", "docs/extending.md", "docs/model.md"),
    *("docs/networks.md", "docs/paper-table.md", "docs/scaling.md", "docs/serving.md"),
    *("docs/sources.md", "docs/text.md", "docs/tools.md", "docs/tour.md"),
}
"""Documents whose commands and code are run by a test."""
DOCUMENTS = documents()


@pytest.fixture
def run_snippet(tmp_path, monkeypatch, capsys):
    """Run the Python code of a document in an empty folder; return it and what it printed."""

    def run(document):
        text = (ROOT / document).read_text()
        (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        monkeypatch.chdir(tmp_path)
        exec(compile(code, document, "exec"), {"__name__": "__main__"})
        return code, capsys.readouterr().out

    return run


def test_the_readme_example_learns(run_snippet):
    _, printed = run_snippet("README.md")
    accuracy, tag_accuracy = map(float, printed.split()[:2])
    assert accuracy > 0.9
    assert tag_accuracy > 0.9


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_the_python_code_of_the_tour_runs(run_snippet, tmp_path):
    _, printed = run_snippet("docs/tour.md")
    assert "'accuracy'" in printed
    assert (tmp_path / "explanation.png").is_file()


def test_the_code_of_the_page_about_baselines_runs(run_snippet):
    _, printed = run_snippet("docs/baselines.md")
    assert printed.count("1.0 ['sea' 'car']") == 2
    assert printed.count("perplexity") == 3


def test_the_code_of_the_page_about_many_photographs_runs(run_snippet):
    code, _ = run_snippet("docs/scaling.md")
    assert "training_processes()" in code


def test_the_code_of_the_extending_page_runs(capsys):
    text = (ROOT / "docs" / "extending.md").read_text()
    blocks, names = re.findall(r"```python\n(.*?)```", text, re.DOTALL), {}
    for block in blocks:
        exec(compile(block, "docs/extending.md", "exec"), names)
    epochs, softplus, steps, words = capsys.readouterr().out.splitlines()
    assert epochs.endswith("accuracy 1.0")
    # A model of words that are all equally probable has perplexity 10.
    assert 1 < float(softplus.split()[-1]) < 9
    assert 1 < float(steps.split()[-1]) < 9
    assert words == "words per image [16 16 16 16 16 16 16 16] columns 8"


@pytest.mark.parametrize("page", ["tools", "scaling"])
def test_the_commands_of_a_page_run(page, tmp_path, monkeypatch):
    text = (ROOT / f"docs/{page}.md").read_text()
    monkeypatch.chdir(tmp_path)
    for folder in ("photos", "new-photos"):
        draw(Path(folder), 1)
    small_model().save(tmp_path / "scenes")
    for line in "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)).splitlines():
        done = supdocnade(*shlex.split(line, comments=True)[1:])
        assert done.code == 0, (line, done.err)
        assert done.out
    assert (tmp_path / "predictions").is_dir()


@pytest.mark.parametrize("document", ["README.md", "docs/tour.md"])
def test_the_commands_of_a_document_run(document, tmp_path, monkeypatch):
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    commands = [shlex.split(line, comments=True) for line in "".join(blocks).splitlines()]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SUPDOCNADE_NETWORKS", str(tmp_path / "networks"))
    draw(Path("photos"))
    draw(Path("test-photos"), 2, seed=1)
    draw(Path("more-photos"), 2, seed=2)
    write_texts(Path("texts"))
    shutil.copytree("test-photos/coast", "new-photos")
    shutil.copy("new-photos/coast_0001.jpg", "photo.jpg")
    # The commands as written, on little data and with settings that take little time.
    for name, value in (("n_words", 30), ("max_epochs", 12)):
        monkeypatch.setitem(DEMO_SETTINGS, name, value)
    for name, value in (("N_TRAIN", 4), ("N_FRESH", 1)):
        monkeypatch.setattr(f"supdocnade.cli.demo.{name}", value)
    quick = {"demo": ("--features", "sift"), "train": SMALL}
    for program, command, *arguments in commands:
        assert program == "supdocnade"
        if command == "serve":
            with run_server(*arguments) as (_, client):
                assert client.get("/").status_code == 200
            continue
        # Photographs that are added to a model take its settings, and a corpus has visual words.
        keeps_words = "--add" in arguments or arguments[:1] == ["photos.corpus"]
        extra = () if keeps_words else quick.get(command, ())
        done = supdocnade(command, *arguments, *extra)
        assert done.code == 0, (command, done.err)
        assert done.out or done.err
    commands_run = {command for _, command, *_ in commands}
    assert commands_run >= {"check", "train", "predict", "report", "serve"}
    assert Path("scenes/report.html").is_file()
    assert Path("supdocnade-demo/report.html").is_file() == (document == "README.md")


def test_the_commands_and_code_of_the_page_about_networks_run(tmp_path, monkeypatch):
    page = ROOT / "docs/networks.md"
    blocks = re.findall(r"(?<!-->\n)```(sh|python)\n(.*?)```", page.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SUPDOCNADE_NETWORKS", str(tmp_path / "networks"))
    (description,) = re.findall(r"```json\n(.*?)```", page.read_text(), re.DOTALL)
    write_network(Path("dinov2.onnx"), layout="tokens", leading=[[1, 2, 3]], patch=(14, 14))
    Path("dinov2.json").write_text(description)
    records = read_folder(draw(Path("photos"), 5))
    paths, labels = zip(*((record.source, record.label) for record in records), strict=True)
    shutil.copy(paths[0], "photo.jpg")
    for language, block in blocks:
        if language == "sh":
            for line in block.splitlines():
                _, command, *arguments = shlex.split(line, comments=True)
                done = supdocnade(command, *arguments)
                assert done.code == 0, (command, done.err)
                assert "dinov2" in done.out or not arguments
        else:
            # The search as written, on few photographs and with settings that take little time.
            few = slice(2, 8) if "GridSearchCV" in block else slice(None)
            quick = "for_photographs(network, max_epochs=1)"
            block = block.replace("for_photographs(network)", quick).replace("3e-4, ", "")
            names = {"paths": paths[few], "labels": labels[few]}
            exec(compile(block, "docs/networks.md", "exec"), names)
    assert names["maps"][0].patches_PD.shape == (81, 1280)


def test_the_commands_and_code_of_the_text_page_run(run_snippet, tmp_path, monkeypatch):
    page = ROOT / "docs" / "text.md"
    monkeypatch.chdir(tmp_path)
    texts = write_texts(Path("texts"))
    write_texts(Path("more-texts"), 2, seed=1)
    write_jsonl(Path("news.jsonl"), texts, text="body", label="section")
    rows = [f'"{file.read_text()}"' for file in sorted(texts.rglob("*.txt"))]
    Path("news.csv").write_text("\n".join(["body", *rows]))
    for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
        for line in block.splitlines():
            done = supdocnade(*shlex.split(line, comments=True)[1:])
            assert done.code == 0, done.err
            assert done.out
    help_text = supdocnade("topics", "--help").out
    assert all(option in help_text for option in re.findall(r"`(--[a-z-]+)", page.read_text()))
    _, printed = run_snippet("docs/text.md")
    assert printed.endswith("['sea' 'city']\n")


def test_the_commands_of_the_sources_page_run(tmp_path, monkeypatch):
    (block,) = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/sources.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    records = read_folder(draw(Path("photos")))
    write_tar("photos.tar", tar_members(records))
    for number in range(2):
        write_tar(f"shards-{number}.tar", tar_members(records[number::2]))
    Path("photos/some.txt").write_text("coast/coast_0001.jpg\nforest/forest_0001.jpg\n")
    copy_to_memory(Path("photos"), "photos")
    for line in block.splitlines():
        _, command, *arguments = shlex.split(line)
        done = supdocnade(command, *arguments, *(SMALL if command == "train" else ()))
        assert done.code == 0, (command, done.err)
        assert done.out


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_the_requests_in_the_serving_page_are_answered(tmp_path, monkeypatch):
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/serving.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    draw(Path("photos"))
    shutil.copy("photos/coast/coast_0001.jpg", "photo.jpg")
    shutil.copy("photos/forest/forest_0001.jpg", "other.jpg")
    assert supdocnade("train", "photos", "-o", "scenes", *SMALL).code == 0
    assert blocks[0] == "supdocnade index scenes photos\nsupdocnade serve scenes\n"
    assert supdocnade("index", "scenes", "photos").code == 0
    with run_server("scenes") as (process, _):
        for line in blocks[1].splitlines():
            request = line.replace("http://127.0.0.1:8000/", process.url)
            done = subprocess.run(["bash", "-c", request], capture_output=True, text=True)
            assert done.returncode == 0, (line, done.stderr)
            if line.startswith("curl") and " -o " not in line:
                assert "status" not in json.loads(done.stdout), line
    options = re.findall(r"`(--[a-z-]+)`", (ROOT / "docs/serving.md").read_text())
    help_text = supdocnade("serve", "--help").out + supdocnade("index", "--help").out
    assert all(option in help_text for option in options)


def test_the_text_example_has_twenty_lines_and_learns(run_snippet):
    code, printed = run_snippet("docs/model.md")
    assert len([line for line in code.splitlines() if line]) <= 20
    predicted, perplexity, city, sea, coherence = printed.splitlines()
    assert predicted == "['sea' 'city']"
    # Nine equally frequent words per text: 9 is the best possible, 18 that of the unigram.
    one, several = map(float, re.findall(r"\d+\.\d+", perplexity))
    assert 8 < several < 12
    assert 8 < one < 12
    words = {name: set(re.search(rf'{name} = "(.*)"', code)[1].split()) for name in ("city", "sea")}
    assert set(re.findall(r"'(\w+)'", city)) < words["city"]
    assert set(re.findall(r"'(\w+)'", sea)) < words["sea"]
    assert float(coherence.split()[-1]) > 0


def test_the_planted_example_comes_close_to_the_best_possible(capsys):
    runpy.run_path(str(ROOT / "examples/planted_scenes.py"), run_name="__main__")
    printed = capsys.readouterr().out
    table = re.findall(r"([\d.]+)%? +([\d.]+)%? +([\d.]+)%?$", printed, re.MULTILINE)
    (_, accuracy, best_accuracy), (_, f, best_f), (unigram, ours, truth) = (
        map(float, row) for row in table
    )
    assert accuracy > best_accuracy - 2
    assert f > best_f - 0.03
    assert truth < ours < (truth + unigram) / 2


def test_the_page_about_the_installation_lists_all_extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    table = re.findall(r"^\| (`.*?) \|", (ROOT / "docs/install.md").read_text(), re.MULTILINE)
    listed = re.findall(r"`(\w+)`", " ".join(table))
    assert sorted([*listed, "dev", "docs"]) == sorted(project["optional-dependencies"])


def test_every_block_of_code_is_run_or_says_why_not():
    for document in DOCUMENTS:
        blocks = re.findall(
            r"(<!-- not run: .+ -->\n)?```(sh|python)\n(.*?)```", document.read_text(), re.DOTALL
        )
        for _, language, block in blocks:
            if language == "python":
                compile(block, document.name, "exec")
        name = document.relative_to(ROOT).as_posix()
        assert name in TESTED or all(reason for reason, *_ in blocks), (
            f"Write a test that runs the code of {name}, and add its name to TESTED."
        )


@pytest.mark.parametrize(
    "record", sorted((ROOT / "docs/decisions").glob("0*.md")), ids=lambda path: path.stem
)
def test_decision_records_are_short_and_listed(record):
    text = record.read_text()
    assert len(text.split()) <= 300
    parts = re.findall(r"^\*\*(.*?)\.\*\*", text, re.MULTILINE)
    assert parts[:4] == ["Context", "Decision", "Consequence", "Number"]
    title = text.partition("\n")[0].removeprefix("# ")
    assert f"- [{title}]({record.name})" in (record.parent / "README.md").read_text()


def test_every_make_target_in_a_document_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in DOCUMENTS:
        named = set(re.findall(r"(?:`|^)make ([a-z-]+)", document.read_text(), re.MULTILINE))
        assert named <= targets, document


@pytest.mark.parametrize(
    "module", ["benchmarks.page", "experiments.page", "experiments.reproduction"]
)
def test_the_figures_on_the_pages_are_those_of_the_results(module, monkeypatch):
    monkeypatch.setattr(sys, "argv", [module, "--check"])
    importlib.import_module(module).main()  # It exits with a message if a page is not current.


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_exist(document):
    text = document.read_text()
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (document.parent / link).exists(), link
    for path in re.findall(r"`((?:src|tests|docs|benchmarks|experiments|examples)/[\w./]*)`", text):
        assert (ROOT / path).exists(), path


def test_the_map_of_the_code_shows_every_folder():
    pattern = re.compile(r"^\| `(\w+)/` \|.*\|(.*)\|$", re.MULTILINE)
    rows = pattern.findall((ROOT / "CONTRIBUTING.md").read_text())
    package = ROOT / "src/supdocnade"
    folders = sorted(path.parent.name for path in package.glob("*/__init__.py"))
    assert sorted(folder for folder, _ in rows) == folders
    for folder, files in rows:
        for name in re.findall(r"`([\w.]+)`", files):
            assert (package / folder / name).is_file(), (folder, name)


def test_pre_commit_runs_the_checks_of_make_check():
    recipe = re.search(r"^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    checks = [line.strip().replace("$(VENV)", ".venv") for line in recipe[1].splitlines()]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert checks == re.findall(r"entry: (\.venv/.*)", hooks)
