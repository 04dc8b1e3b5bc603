"""Unit tests mirror the source tree, file for file, and packages hold what they should."""

import dataclasses
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.structure import count, import_depth, problems, written_words

ROOT = Path(__file__).parents[2]
SOURCES = {
    "benchmarks": ROOT / "benchmarks",
    "docs": ROOT / "docs",
    "experiments": ROOT / "experiments",
    "tools": ROOT / "tools",
}


def test_every_unit_test_has_its_module():
    unit = ROOT / "tests" / "unit"
    missing = []
    for test in unit.rglob("test_*.py"):
        folder, *rest = test.relative_to(unit).parts
        source = SOURCES.get(folder, ROOT / "src" / "supdocnade" / folder if rest else None)
        source = ROOT / "src" / "supdocnade" if source is None else source
        path = source.joinpath(*rest[:-1], test.name.removeprefix("test_"))
        if not path.is_file():
            missing.append(f"{test.relative_to(ROOT)} tests {path.relative_to(ROOT)}")
    assert missing == []


def test_the_counts_of_the_structure_keep_their_budget():
    counts = count()
    assert problems(counts) == []
    (more,) = problems(dataclasses.replace(counts, record_classes=1000))
    assert more.startswith("record classes: 1,000, but tests/budget.toml allows ")
    (fewer,) = problems(dataclasses.replace(counts, lines=1000))
    assert fewer.endswith("Lower it to keep what was gained.")


def test_generated_sections_do_not_count_as_written_words():
    table = "<!-- a table: begin -->\n| 1 | 2 |\n<!-- a table: end -->"
    assert written_words(f"Two words.\n\n{table}\n\nThree more words.\n{table}\n") == 5


def test_imports_form_no_cycle():
    assert import_depth({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == 3
    with pytest.raises(ValueError, match="form a cycle: a imports b imports a"):
        import_depth({"a": {"b"}, "b": {"a"}})


def test_only_the_registry_of_backends_names_gpu_code():
    """Tests of training run without it."""
    package = ROOT / "src" / "supdocnade"
    named = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "supdocnade.cuda" in path.read_text() and path.parent.name != "cuda"
    }
    assert named == {"likelihood/operations.py"}


def test_the_package_holds_no_data_of_experiments():
    """The wheel is this folder; `nox -s dist` checks the wheel itself."""
    package = ROOT / "src" / "supdocnade"
    files = {
        path.relative_to(package)
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    data = {path for path in files if path.suffix != ".py"}
    places = {path.parent.as_posix() for path in data}
    assert places == {".", "report/templates", "scene", "serving/page"}
    assert sum((package / path).stat().st_size for path in data) < 3_250_000


def test_a_release_has_a_readme_without_relative_links(tmp_path):
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    named = {step.get("name"): step.get("run") for step in workflow["jobs"]["build"]["steps"]}
    readme = tmp_path / "README.md"
    readme.write_text((ROOT / "README.md").read_text())
    before = re.findall(r"(!?)\[[^]]*\]\(([^)]+)\)", readme.read_text())
    place = {"GITHUB_SERVER_URL": "https://host", "GITHUB_REPOSITORY": "owner/project"}
    subprocess.run(
        ["bash", "-ec", named["Make the links of the README absolute"]],
        cwd=tmp_path,
        env={**place, "GITHUB_REF_NAME": "v0.1.0", "PATH": "/usr/bin:/bin"},
        check=True,
    )
    after = re.findall(r"(!?)\[[^]]*\]\(([^)]+)\)", readme.read_text())
    for (image, link), (_, address) in zip(before, after, strict=True):
        kind = "raw" if image else "blob"
        assert "://" not in link
        assert (ROOT / link.partition("#")[0]).is_file()
        assert address == f"https://host/owner/project/{kind}/v0.1.0/{link}"
