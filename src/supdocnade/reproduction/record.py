"""What the stages of a study took, and on which machines they ran.

It is noted while a stage runs, not only when it ends: a run that is killed has taken its time, too.
"""

import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch

from supdocnade import __version__
from supdocnade.encoding.many import OnStage
from supdocnade.errors import UnwritableFile
from supdocnade.reproduction.models import device_name
from supdocnade.storage import write_atomically

SECONDS = "seconds.json"

EVERY = 10.0
"""Seconds between two notes at least; they are made as progress is reported, so what was done since
then is lost by a kill."""


@contextmanager
def recorded(
    folder: Path,
    stage: str,
    machine: dict[str, Any],
    n_made: Callable[[], int],
    on_stage: OnStage,
) -> Iterator[OnStage]:
    """Note the time of a stage, beside what earlier runs took, and its machine.

    Yields what is to be called in place of `on_stage`.

    Parameters
    ----------
    machine : noted once there is something that it has made.
    n_made : counts what was made.
    """
    had, noted = n_made(), time.perf_counter()

    def note() -> None:
        nonlocal noted
        known, now = recall(folder), time.perf_counter()
        spent = known.get("seconds", {}).get(stage, 0.0) + now - noted
        known["seconds"] = known.get("seconds", {}) | {stage: round(spent, 3)}
        machines = known.setdefault("machines", {})
        # Otherwise it was all there, perhaps from another machine.
        if n_made() > had and machine not in machines.setdefault(stage, []):
            machines[stage].append(machine)
        known["machines"] = {stage: used for stage, used in machines.items() if used}
        # Not worth a stage: it is noted again later, and then counts from the last time.
        with suppress(UnwritableFile):
            write_atomically(folder / SECONDS, json.dumps(known, indent=1).encode())
            noted = now

    def progress(*told: Any) -> None:
        on_stage(*told)
        if time.perf_counter() - noted >= EVERY:
            note()

    try:
        yield progress
    finally:
        note()


def recall(folder: Path) -> dict[str, Any]:
    """Return what is known of a study: the seconds and the machines of every stage."""
    path = folder / SECONDS
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return found


def this_machine(device: str, products: str) -> dict[str, Any]:
    """Return on what something is done."""
    exactly = {} if device == "cpu" else {"products": products}
    return {
        "device": device_name(device),
        **exactly,
        "cpu": _cpu_name(),
        "python": platform.python_version(),
        "supdocnade": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{os.cpu_count()} × {names[0] if names else platform.machine()}"
