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
