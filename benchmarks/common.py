"""Timing, results files and generated sections of the documentation.

Variants run in turn, round after round, so that a slow moment of the machine affects all of them,
with a pause in between in which the threads of the previous variant fall asleep. A run has as many
calls as last a tenth of a second, at least one, and its result is the time per call: in practice a
call follows similar ones, not one that has filled the caches with other data. A first round is
discarded (compilation, caches, page faults). Each variant reports the median of its rounds and the
interquartile range. If that exceeds a quarter of the median, all rounds are repeated, at most five
times. Ratios are ratios of medians. Results record the versions and the commit.
"""

import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch

RESULTS = Path(__file__).parent / "results"
ROUNDS = 7
PAUSE = 0.02
"""Seconds. Torch's threads stay awake for about two milliseconds after their work."""
RUN_SECONDS = 0.1
ATTEMPTS = 5
MAX_SPREAD = 0.25


@dataclass(frozen=True)
class Timing:
    """Times of one variant in seconds."""

    seconds: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Interquartile range."""
        first, _, third = statistics.quantiles(self.seconds, n=4)
        return third - first


def alternate(
    variants: Mapping[str, Callable[[], object]], rounds: int = ROUNDS
) -> dict[str, Timing]:
    """Time the variants in turn, and again if the results vary too much."""
    for attempt in range(ATTEMPTS):
        timings = _alternate(variants, rounds)
        spread = max(timing.spread / timing.median for timing in timings.values())
        if spread <= MAX_SPREAD:
            break
        print(f"attempt {attempt + 1}: interquartile range {spread:.0%} of the median; repeating")
    return timings


def _alternate(variants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Timing]:
    """Time the variants in turn; the first round is discarded."""
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(rounds + 1):
        for name, run in variants.items():
            time.sleep(PAUSE)
            elapsed = _time_call(run)
            if number > 0:
                seconds[name].append(elapsed)
    return {name: Timing(values) for name, values in seconds.items()}


def _time_call(run: Callable[[], object]) -> float:
    n_calls, elapsed, start = 0, 0.0, time.perf_counter()
    while elapsed < RUN_SECONDS:
        run()
        n_calls += 1
        elapsed = time.perf_counter() - start
    return elapsed / n_calls


def metadata() -> dict[str, Any]:
    """Return the commit, the machine and the versions of the main packages."""
    changes = "+changes" if _git("status", "--porcelain", "--", "../src") else ""
    return {
        "commit": _git("rev-parse", "HEAD") + changes,
        "cpu": cpu_name(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numba": numba.__version__,
        "numpy": np.__version__,
    }


def _git(*arguments: str) -> str:
    """Return the output of git; empty if git is not installed or this is not a clone."""
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        return ""


def cpu_name() -> str:
    """Return the number of cores and the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} × {names[0]}" if names else platform.processor()


def write_results(name: str, results: dict[str, Any]) -> None:
    """Write a results file with the metadata of this run."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({**metadata(), **results}, indent=2) + "\n")
    print(f"written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


def print_table(title: str, header: list[str], rows: list[list[str]]) -> None:
    """Print a table of strings, columns aligned."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    print(f"\n{title}")
    for row in [header, ["-" * width for width in widths], *rows]:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def load(name: str) -> dict[str, Any]:
    """Return the results that a benchmark has written."""
    results: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return results


def update_page(page: Path, sections: Mapping[str, str]) -> None:
    """Write the sections of a page; with --check, exit with an error if they differ.

    A section is the text between `<!-- name: begin -->` and `<!-- name: end -->`.
    """
    text = current = page.read_text()
    for name, body in sections.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, rest = current.split(begin)
        _, after = rest.split(end)
        current = f"{before}{begin}\n{body}\n{end}{after}"
    if "--check" not in sys.argv:
        page.write_text(current)
    elif current != text:
        sys.exit(f"{page.name} is not current: run this without --check.")
