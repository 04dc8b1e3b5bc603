"""How we measure.

Variants run in turn, round after round, so that a slow moment of the machine hits all of them, with
a pause in between for the threads of one to fall asleep before the next begins. A run is as many
calls as last a tenth of a second, at least one, and its time is that of a call: in use a call
follows others of its kind, not one that has filled the caches with something else. Each variant
reports the median of its rounds after one that does not count (compiling, caches, page faults), and
the spread between the quartiles. Where that exceeds a quarter of the median all rounds are
repeated, at most five times. Ratios are ratios of medians. Results carry the versions and the
commit that made them.
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
"""Seconds: threads of torch were seen awake two thousandths of a second after their work."""
LENGTH_OF_RUN = 0.1
ATTEMPTS = 5
MOST_SPREAD = 0.25


@dataclass(frozen=True)
class Timing:
    """Seconds of one variant."""

    seconds: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Distance between the quartiles."""
        first, _, third = statistics.quantiles(self.seconds, n=4)
        return third - first


def alternate(
    variants: Mapping[str, Callable[[], object]], rounds: int = ROUNDS
) -> dict[str, Timing]:
    """Time the variants in turn, again if the machine was too busy for the figures to mean much."""
    for attempt in range(ATTEMPTS):
        timings = _alternate(variants, rounds)
        restless = max(timing.spread / timing.median for timing in timings.values())
        if restless <= MOST_SPREAD:
            break
        print(f"attempt {attempt + 1}: quartiles {restless:.0%} of the median apart; once more")
    return timings


def _alternate(variants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Timing]:
    """Time the variants in turn; the first round does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(rounds + 1):
        for name, run in variants.items():
            time.sleep(PAUSE)
            elapsed = _time_of_a_call(run)
            if number > 0:
                seconds[name].append(elapsed)
    return {name: Timing(values) for name, values in seconds.items()}


def _time_of_a_call(run: Callable[[], object]) -> float:
    n_calls, elapsed, start = 0, 0.0, time.perf_counter()
    while elapsed < LENGTH_OF_RUN:
        run()
        n_calls += 1
        elapsed = time.perf_counter() - start
    return elapsed / n_calls


def metadata() -> dict[str, Any]:
    """Return what a reader needs to know about the machine and the code."""
    changes = "+changes" if _git("status", "--porcelain", "--", "../src") else ""
    return {
        "commit": _git("rev-parse", "HEAD") + changes,
        "cpu": _cpu_name(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numba": numba.__version__,
        "numpy": np.__version__,
    }


def _git(*arguments: str) -> str:
    """Return what git says; nothing where it is not installed, or this is no clone."""
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        return ""


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} × {names[0]}" if names else platform.processor()


def write_results(name: str, results: dict[str, Any]) -> None:
    """Write a results file; the benchmark is the only one who does."""
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
    """Put text between the marks of every section of a page; with --check, fail if it is not there.

    A section stands between `<!-- name: begin -->` and `<!-- name: end -->`.
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
