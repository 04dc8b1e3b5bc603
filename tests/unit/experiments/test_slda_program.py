"""The run of the sLDA authors' program, with a stand-in for the program."""

import sys

import pytest
from experiments.slda_program import run_program

STAND_IN = f"""#!{sys.executable}
import os, sys
from pathlib import Path

command, data, labels, settings, *rest = sys.argv[1:]
folder = Path(rest[-1])
if command == "est":
    assert rest[:-1] == ["1.0", "7", "random"]
    folder.joinpath("likelihood.dat").write_text("-1.0\\t1.0\\n" * int(os.environ["SLDA_SEED"]))
    folder.joinpath("final.model").write_text(Path(labels).read_text())
else:
    known = Path(rest[0]).read_text()  # It predicts the labels of the training documents.
    folder.joinpath("inf-labels.dat").write_text(known)
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.setenv("SUPDOCNADE_DATA", str(tmp_path))
    (tmp_path / "class_slda").mkdir()
    for part, labels in (("train", "4\n0\n1\n4\n"), ("test", "4\n0\n1\n1\n")):
        (tmp_path / "class_slda" / f"{part}-data.dat").write_text("1 0:3\n" * 4)
        (tmp_path / "class_slda" / f"{part}-label.dat").write_text(labels)
    program = tmp_path / "slda"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    return program


def test_a_run_has_accuracy_times_and_iterations(program, tmp_path):
    record = run_program(program, tmp_path / "settings.txt", n_topics=7, seed=3)
    assert record["accuracy"] == 0.75
    assert record["iterations"] == 3
    assert record["cpu_seconds"] > 0
    assert 0 < record["seconds"] < 60
