"""Training on a CPU without the folder of GPU code, which only the registry of backends names.

Nor does it import the code of several processes.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

WITHOUT_CUDA = """
import sys
sys.modules["supdocnade.cuda"] = None  # An import raises ImportError.
import pytest
code = pytest.main(sys.argv[1:])
assert "supdocnade.training.distributed" not in sys.modules  # One process does not need it.
sys.exit(code)
"""
TESTS = ("unit/training/test_trainer.py", "unit/training/test_objective.py")


def test_one_process_trains_on_a_cpu_without_gpu_code():
    tests = [str(ROOT / "tests" / name) for name in TESTS]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_CUDA, "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d\d passed", done.stdout)


def test_only_the_registry_of_backends_names_gpu_code():
    package = ROOT / "src" / "supdocnade"
    named = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "supdocnade.cuda" in path.read_text() and path.parent.name != "cuda"
    }
    assert named == {"likelihood/operations.py"}
