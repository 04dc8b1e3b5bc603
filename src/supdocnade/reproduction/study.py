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
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.errors import StorageError
from supdocnade.reproduction.photosets import PhotoSet
from supdocnade.reproduction.plans import Plan
from supdocnade.reproduction.protocol import Protocol, read_protocol, write_pictures
from supdocnade.reproduction.words import GRID_NAMES, Words, load_words
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
