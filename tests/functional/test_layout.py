"""Unit tests mirror the source tree, file for file."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = {
    "benchmarks": ROOT / "benchmarks",
    "docs": ROOT / "docs",
    "experiments": ROOT / "experiments",
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
    assert places == {".", "paper/protocols", "report/templates", "serving/page"}
    assert sum((package / path).stat().st_size for path in data) < 250_000
