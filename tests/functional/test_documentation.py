"""What the documents say can be done, is done here."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def run(arguments):
    return subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True)


def test_the_readme_example_learns():
    readme = (ROOT / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    result = run([sys.executable, "-c", code])
    assert result.returncode == 0, result.stderr
    accuracy, tag_accuracy, _ = map(float, result.stdout.split())
    assert accuracy > 0.9
    assert tag_accuracy > 0.9


def test_the_demo_comes_close_to_the_best_possible():
    result = run([sys.executable, "examples/planted_scenes.py"])
    assert result.returncode == 0, result.stderr
    table = re.findall(r"([\d.]+)%? +([\d.]+)%? +([\d.]+)%?$", result.stdout, re.MULTILINE)
    (_, accuracy, best_accuracy), (_, f, best_f), (unigram, ours, truth) = (
        map(float, row) for row in table
    )
    assert accuracy > best_accuracy - 2
    assert f > best_f - 0.03
    assert truth < ours < (truth + unigram) / 2


def test_every_make_target_that_is_named_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in DOCUMENTS:
        named = set(re.findall(r"(?:`|^)make ([a-z-]+)", document.read_text(), re.MULTILINE))
        assert named <= targets, document


def test_the_figures_on_the_performance_page_are_those_of_the_results():
    result = run([sys.executable, "-m", "benchmarks.page", "--check"])
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_lead_somewhere(document):
    text = document.read_text()
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (document.parent / link).exists(), link
    for path in re.findall(r"`((?:src|tests|docs|benchmarks|examples)/[\w./]*)`", text):
        assert (ROOT / path).exists(), path
