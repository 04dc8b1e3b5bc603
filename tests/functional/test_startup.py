"""Modules that commands must not import, since importing them takes longer than the work."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

GOLDEN = Path(__file__).parents[1] / "golden"

HEAVY = ("torch", "sklearn", "matplotlib", "pandas", "scipy.optimize", "scipy.stats", "fastapi")

SCRIPT = """
import contextlib, io, json, sys
from supdocnade.cli.main import run
with contextlib.redirect_stdout(io.StringIO()):
    code = run(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]))
"""


def imported_by(*arguments):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=True
    )
    code, modules = json.loads(done.stdout)
    assert code == 0
    return set(modules)


@pytest.mark.parametrize("command", ["predict", "explain"])
def test_neither_torch_nor_scikit_learn_is_imported(tmp_path, command):
    pixels = np.load(GOLDEN / "dense_sift.npz")["picture/waves"]
    photograph = tmp_path / "waves.png"
    Image.fromarray(pixels).save(photograph)
    options = ["-o", str(tmp_path / "explained.png")] if command == "explain" else []
    model = str(GOLDEN / "scene_model_format_2")
    assert not imported_by(command, model, str(photograph), *options) & set(HEAVY)


@pytest.mark.parametrize("command", ["predict", "train", "features"])
def test_help_imports_no_numerical_package(command):
    assert not imported_by(command, "--help") & {*HEAVY, "numba", "scipy", "numpy"}
