"""Counts of the structure of the package; `python -m tests.structure` prints them."""

import ast
import dataclasses
import functools
import graphlib
import re
import tomllib
from collections.abc import Set
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUDGET = ROOT / "tests" / "budget.toml"
SECTION = re.compile(r"<!-- ([\w ]+): begin -->.*?<!-- \1: end -->", re.DOTALL)
"""A part of a page that a program writes."""


@dataclasses.dataclass(frozen=True)
class Counts:
    """How large the package, its tests and its documentation are."""

    files: int
    lines: int
    record_classes: int
    import_depth: int
    longest_function: int
    test_lines: int
    documentation_words: int


def count(root: Path = ROOT) -> Counts:
    """Count package, tests and documentation of a checkout; a cycle of imports is a ValueError."""
    sources = {
        ".".join(path.relative_to(root / "src").with_suffix("").parts).removesuffix(
            ".__init__"
        ): path.read_text()
        for path in (root / "src").rglob("*.py")
    }
    trees = {module: ast.parse(source) for module, source in sources.items()}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return Counts(
        files=len(sources),
        lines=sum(map(_lines, sources.values())),
        record_classes=sum(isinstance(node, ast.ClassDef) and _is_record(node) for node in nodes),
        import_depth=import_depth(
            {module: _imports(module, tree, trees.keys()) for module, tree in trees.items()}
        ),
        longest_function=max(node.end_lineno - node.lineno + 1 for node in functions),
        test_lines=sum(_lines(path.read_text()) for path in (root / "tests").rglob("*.py")),
        documentation_words=sum(written_words(path.read_text()) for path in documents(root)),
    )


def documents(root: Path = ROOT) -> list[Path]:
    """Return the pages that people write: those of the root, of `docs/` and of `changes/`."""
    return sorted([*root.glob("*.md"), root / "changes/README.md", *(root / "docs").rglob("*.md")])


def written_words(text: str) -> int:
    """Count the words of a page outside the sections that programs write between two comments."""
    return len(re.sub(SECTION, "", text).split())


def problems(counts: Counts) -> list[str]:
    """Return a sentence for every count above its budget, or more than 5 % (at least 1) below."""
    budget = tomllib.loads(BUDGET.read_text())
    found = []
    for name, number in dataclasses.asdict(counts).items():
        limit = budget[name]
        what = f"{name.replace('_', ' ')}: {number:,}, but tests/budget.toml allows {limit:,}"
        if number > limit:
            found.append(f"{what}. Take something out, or raise it and say what was taken out.")
        elif limit - number > max(1, limit // 20):
            found.append(f"{what}. Lower it to keep what was gained.")
    return found


def import_depth(imports: dict[str, set[str]]) -> int:
    """Return the length of the longest chain of modules that import one another."""
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        chain = " imports ".join(reversed(error.args[1]))
        raise ValueError(f"The imports form a cycle: {chain}.") from None

    @functools.cache
    def depth(module: str) -> int:
        return 1 + max(map(depth, imports[module]), default=0)

    return max(map(depth, imports))


def _lines(source: str) -> int:
    return source.count("\n")


def _is_record(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list) or any(
        ast.unparse(base) == "NamedTuple" for base in node.bases
    )


def _imports(module: str, tree: ast.Module, modules: Set[str]) -> set[str]:
    """Return what a module imports from the package, in functions, too, but not for types only."""
    typing_only = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    found = {
        f"{node.module}.{name.name}" if f"{node.module}.{name.name}" in modules else node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and id(node) not in typing_only
        for name in node.names
    }
    return found & modules - {module}


if __name__ == "__main__":
    for name, number in dataclasses.asdict(count()).items():
        print(f"{name} = {number}")
