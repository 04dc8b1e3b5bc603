"""Modules that commands must not import, since importing them takes longer than the work."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import supdocnade

PACKAGE = Path(supdocnade.__file__).parent
GOLDEN = Path(__file__).parents[1] / "golden"

HEAVY = ("torch", "sklearn", "matplotlib", "pandas", "scipy.optimize", "scipy.stats", "fastapi")
LIGHT_HELP = ("numba", "scipy", "numpy", "PIL", "uvicorn")
"""Further modules that a help text does not need."""

SCRIPT = """
import contextlib, io, json, sys
from supdocnade.cli.main import run
with contextlib.redirect_stdout(io.StringIO()) as printed:
    codes = [run(arguments) for arguments in json.loads(sys.argv[1])]
print(json.dumps([codes, sorted(sys.modules), printed.getvalue()]))
"""


def run_in_one_process(*commands):
    """Run commands in a new process; return their codes, its modules and what they printed."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(commands)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    codes, modules, printed = json.loads(done.stdout)
    return codes, set(modules), printed


def imported_by(*arguments):
    codes, modules, _ = run_in_one_process(arguments)
    assert codes == [0]
    return modules


@pytest.mark.parametrize("command", ["predict", "explain"])
def test_neither_torch_nor_scikit_learn_is_imported(tmp_path, command):
    pixels = np.load(GOLDEN / "dense_sift.npz")["picture/waves"]
    photograph = tmp_path / "waves.png"
    # As large as the photographs that the model learned from: others are noted on stderr.
    Image.fromarray(pixels).resize((512, 384)).save(photograph)
    options = ["-o", str(tmp_path / "explained.png")] if command == "explain" else []
    model = str(GOLDEN / "scene_model_format_7")
    assert not imported_by(command, model, str(photograph), *options) & set(HEAVY)


def test_a_report_needs_neither_torch_nor_scikit_learn(tmp_path):
    model, page = str(GOLDEN / "scene_model_format_7"), str(tmp_path / "report.html")
    assert not imported_by("report", model, "-o", page) & set(HEAVY)


def test_help_imports_no_numerical_package():
    commands = ((), *((name,) for name in ("predict", "train", "features", "demo", "serve")))
    codes, modules, printed = run_in_one_process(*((*command, "--help") for command in commands))
    assert codes == [0] * len(commands)
    assert printed.count("Usage: supdocnade") == len(commands)
    assert not modules & {*HEAVY, *LIGHT_HELP}
    assert "supdocnade.cli.predict" not in modules  # Only commands that run are imported.


def imports_at_start(module):
    """Return the modules that a module of the package imports when it is imported."""
    parts = module.split(".")[1:]
    path = PACKAGE.joinpath(*parts)
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not path.exists():  # A name in a module.
        return set()
    found = {".".join(["supdocnade", *parts[:n]]) for n in range(1, len(parts))}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def packages_at_start(*modules):
    """Return the packages that modules import when they are imported, through others, too."""
    seen, new = set(), set(modules)
    while new:
        seen |= new
        ours = {name for name in new if name.split(".")[0] == "supdocnade"}
        new = set().union(*map(imports_at_start, ours)) - seen
    assert len(seen) > 50
    return {name.split(".")[0] for name in seen}


def test_topic_models_import_torch_only_to_compute():
    names = ("supdocnade.estimators.topic_model", "supdocnade.estimators.supdocnade")
    assert "torch" not in packages_at_start(*names)


@pytest.mark.parametrize(
    "module", ["report.evaluation", "gallery.build", "serving.service", "scene.persistence"]
)
def test_commands_on_fitted_models_import_neither_torch_nor_scikit_learn(module):
    assert not packages_at_start(f"supdocnade.{module}") & {"torch", "sklearn"}
