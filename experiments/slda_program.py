"""Multi-class sLDA of its authors (class-slda, in C++) on the published corpus.

python -m experiments.slda_program PROGRAM SETTINGS [--topics 10 40 80] [--seeds 5]

The program is not part of this repository; it has the GPL and needs the GNU Scientific Library.
SETTINGS is the settings file that comes with it. The program takes its seed from the clock; the one
that was measured takes it from the environment variable SLDA_SEED instead, and has no other change.
A stopped run resumes with what is missing; remove experiments/results/slda_program.json to start
again.
"""

import os
import resource
import subprocess
import time
from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from experiments.baselines import N_TOPICS, SEEDS
from experiments.common import read_results, write_results
from experiments.data import class_slda, data_folder

ALPHA = "1.0"
"""Topic prior, as in the program's example and in `SLDA()`."""


def run_program(program: Path, settings: Path, n_topics: int, seed: int) -> dict[str, float]:
    """Return the accuracy of a program's model on the test documents, and the times of its fit."""
    data = data_folder("class_slda")
    train, test = (
        (str(data / f"{part}-data.dat"), str(data / f"{part}-label.dat"), str(settings))
        for part in ("train", "test")
    )
    run: dict[str, Any] = {
        "env": os.environ | {"SLDA_SEED": str(seed)},
        "stdout": subprocess.DEVNULL,
        "check": True,
    }
    with TemporaryDirectory() as folder:
        started, started_cpu = time.perf_counter(), _cpu_seconds()
        subprocess.run([program, "est", *train, ALPHA, str(n_topics), "random", folder], **run)
        seconds, cpu_seconds = time.perf_counter() - started, _cpu_seconds() - started_cpu
        subprocess.run([program, "inf", *test, f"{folder}/final.model", folder], **run)
        predicted = np.loadtxt(Path(folder, "inf-labels.dat"), dtype=np.int64)
        iterations = len(Path(folder, "likelihood.dat").read_text().splitlines())
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "iterations": iterations,
        "accuracy": float((predicted == class_slda()[1].labels).mean()),
    }


def _cpu_seconds() -> float:
    """Return the CPU time of all finished child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("program", type=Path)
    parser.add_argument("settings", type=Path)
    parser.add_argument("--topics", type=int, nargs="+", default=N_TOPICS)
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    arguments = parser.parse_args()
    program, settings = arguments.program.resolve(), arguments.settings.resolve()
    done: dict[str, Any] = read_results("slda_program").get("runs", {})
    for n_topics in arguments.topics:
        for seed in range(1, arguments.seeds + 1):  # GSL takes seed 0 for its default seed, 1.
            name = f"{n_topics} topics, seed {seed}"
            if name not in done:
                done[name] = run_program(program, settings, n_topics, seed)
                print(name, done[name], flush=True)
                write_results(
                    "slda_program",
                    "python -m experiments.slda_program PROGRAM SETTINGS",
                    {"settings": settings.read_text().splitlines(), "runs": done},
                )


if __name__ == "__main__":
    main()
