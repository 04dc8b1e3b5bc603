"""The folder of one study: photographs, protocol, words, models and answers, each where it belongs.

============== ===============================================================================
what           how it is made
============== ===============================================================================
photographs    names, digests, classes and tags: `photographs.json`
protocol       pool and splits: `protocol.json`
words/         one file a recipe and split; with the two above it is all that models need
models/        topics and tag scores of every trained model: large, and needed only for answers
answers/       what every method says of the test photographs: small
results.json   figures, and answers.safetensors, the same photograph by photograph
made.json      on what machine, how long, and what was left out
============== ===============================================================================

Every file is written whole or not at all; what is there is not made again.
"""

import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from numpy.typing import NDArray
from scipy import sparse

from supdocnade import __version__
from supdocnade.errors import StorageError, UnwritableFile
from supdocnade.paper.data_sets import PhotoSet
from supdocnade.paper.plans import Plan
from supdocnade.paper.protocol import Protocol, read_protocol, write_pictures
from supdocnade.paper.words import GRID_NAMES, Words, load_words
from supdocnade.progress import ProgressCallback
from supdocnade.storage import write_atomically

PHOTOGRAPHS, PROTOCOL = "photographs.json", "protocol.json"


@dataclass(frozen=True, eq=False, kw_only=True)
class Study:
    """One data set with everything that is done on it."""

    folder: Path
    photos: PhotoSet
    protocol: Protocol
    plan: Plan

    @classmethod
    def begin(cls, folder: Path, photos: PhotoSet, protocol: Protocol, plan: Plan) -> "Study":
        """Write photographs and protocol, or go on with a study of the same photographs."""
        path = folder / PHOTOGRAPHS
        if path.exists() and PhotoSet.load(path).digests != photos.digests:
            raise StorageError(
                f"{folder} must be new or hold a study of these photographs, it holds others."
            )
        photos.save(path)
        write_pictures(folder / PROTOCOL, photos, protocol)
        return cls(folder=folder, photos=photos, protocol=protocol, plan=plan)

    @classmethod
    def resume(cls, folder: Path, plan: Plan) -> "Study":
        """Go on with a study whose photographs need not be on this machine."""
        if not (folder / PHOTOGRAPHS).is_file():
            raise StorageError(f"{folder} must hold a study, got none; --data names photographs.")
        photos = PhotoSet.load(folder / PHOTOGRAPHS)
        protocol = read_protocol(folder / PROTOCOL, photos)
        return cls(folder=folder, photos=photos, protocol=protocol, plan=plan)

    @cached_property
    def label_B(self) -> NDArray[np.int64]:
        """(photographs,) numbers of their classes."""
        return self.photos.label_numbers()

    def words_path(self, recipe: str, split: int) -> Path:
        """Return the file of the words of all photographs, learned in one split."""
        return self.folder / "words" / f"{recipe}-{split}.safetensors"

    def words_made_from(self, recipe: str, split: int) -> dict[str, Any]:
        """Return what decides these words."""
        return {
            "dataset": self.photos.dataset,
            "split": split,
            "n_images": len(self.photos),
            "max_side": self.plan.max_side,
            **self.plan.recipes[recipe].words.settings(),
        }

    def words(self, recipe: str, split: int) -> Words:
        """Return the words of all photographs."""
        return _words(
            self.words_path(recipe, split), json.dumps(self.words_made_from(recipe, split))
        )

    def counts(self, recipe: str, split: int, grid: str) -> list[sparse.csr_array]:
        """Return counts as topic models take them, damped or side by side as the recipe says."""
        return self.plan.recipes[recipe].counts(self.words(recipe, split), grid)

    def histograms(self, recipe: str, split: int, grid: str) -> NDArray[np.float64]:
        """Return plain counts, dense, for methods without topics."""
        counts = self.words(recipe, split).counts(GRID_NAMES[grid])
        dense: NDArray[np.float64] = counts.toarray().astype(np.float64)
        return dense

    def answer_path(self, key: str) -> Path:
        """Return the file of an answer."""
        return self.folder / "answers" / f"{key}.json"

    def answer(self, key: str) -> dict[str, Any] | None:
        """Return an answer, or None if it is still to be found."""
        path = self.answer_path(key)
        if not path.is_file():
            return None
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def write_answer(self, key: str, answer: dict[str, Any]) -> None:
        """Keep an answer."""
        write_atomically(self.answer_path(key), json.dumps(answer, allow_nan=False).encode())


@lru_cache(maxsize=8)
def _words(path: Path, made_from: str) -> Words:
    return load_words(path, json.loads(made_from))


# What the stages of a study took, and on which machines they ran.
#
# It is noted while a stage runs, not only when it ends: a run that is killed has taken its time,
# too.

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
    on_stage: ProgressCallback,
) -> Iterator[ProgressCallback]:
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


def device_name(device: str) -> str:
    """Return what models are trained on, "cpu" or "cuda", by its name."""
    return torch.cuda.get_device_name() if device == "cuda" else "CPU"
