"""The folder of a study: one data set with its protocol, words, models and predictions.

====================== ========================================================================
photographs.json       names, digests, classes and tags
protocol.json          pool and splits
words/                 one file per recipe and split; with the two above all that models need
models/                topics and tag probabilities of every trained model; large
predictions/           held-out scores and test predictions of every method; small
results.json           metrics; predictions.safetensors has the scores of every photograph
provenance.json        machines, times and omissions
====================== ========================================================================

Every file is written atomically, and a stage skips what is already there.
"""

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from experiments.paper.data_sets import PhotoSet
from experiments.paper.plans import Plan
from experiments.paper.protocol import Protocol, read_protocol, write_protocol
from experiments.paper.words import GRIDS, Words, load_words
from supdocnade.errors import StorageError
from supdocnade.storage import write_atomically

PHOTOGRAPHS, PROTOCOL, PREDICTIONS = "photographs.json", "protocol.json", "predictions"


class MissingPrediction(StorageError):
    """The folder of a study lacks a prediction that its results need."""

    def __init__(self, folder: Path, method: str):
        super().__init__(f"{folder} lacks predictions of {method}: run the stages before.")


@dataclass(frozen=True, eq=False, kw_only=True)
class Study:
    """One data set with the plan of its experiments and the folder of their files."""

    folder: Path
    photos: PhotoSet
    protocol: Protocol
    plan: Plan

    @classmethod
    def begin(cls, folder: Path, photos: PhotoSet, protocol: Protocol, plan: Plan) -> "Study":
        """Write photographs and protocol, or resume a study of the same photographs."""
        path = folder / PHOTOGRAPHS
        if path.exists() and PhotoSet.load(path).digests != photos.digests:
            raise StorageError(
                f"{folder} must be new or hold a study of these photographs, it holds others."
            )
        photos.save(path)
        write_protocol(folder / PROTOCOL, photos, protocol)
        return cls(folder=folder, photos=photos, protocol=protocol, plan=plan)

    @classmethod
    def resume(cls, folder: Path, plan: Plan) -> "Study":
        """Resume a study whose photographs need not be on this machine."""
        if not (folder / PHOTOGRAPHS).is_file():
            raise StorageError(f"{folder} must hold a study, got none; --data names photographs.")
        photos = PhotoSet.load(folder / PHOTOGRAPHS)
        protocol = read_protocol(folder / PROTOCOL, photos)
        return cls(folder=folder, photos=photos, protocol=protocol, plan=plan)

    @cached_property
    def label_B(self) -> NDArray[np.int64]:
        """(photographs,) class numbers."""
        return self.photos.label_numbers()

    def words_path(self, recipe: str, split: int) -> Path:
        """Return the file of the words of all photographs, learned in one split."""
        return self.folder / "words" / f"{recipe}-{split}.safetensors"

    def words_description(self, recipe: str, split: int) -> dict[str, Any]:
        """Return everything that determines these words."""
        return {
            "dataset": self.photos.dataset,
            "split": split,
            "n_images": len(self.photos),
            "max_side": self.plan.max_side,
            **self.plan.recipes[recipe].words.settings(),
        }

    def words(self, recipe: str, split: int) -> Words:
        """Return the words of all photographs."""
        description = json.dumps(self.words_description(recipe, split))
        return _load_words(self.words_path(recipe, split), description)

    def counts(self, recipe: str, split: int, grid: str) -> list[sparse.csr_array]:
        """Return the counts that topic models of a recipe learn from, one matrix per side."""
        return self.plan.recipes[recipe].counts(self.words(recipe, split), grid)

    def histograms(self, recipe: str, split: int, grid: str) -> NDArray[np.float64]:
        """Return the plain counts as a dense array, for methods without topics."""
        counts = self.words(recipe, split).counts(GRIDS[grid])
        dense: NDArray[np.float64] = counts.toarray().astype(np.float64)
        return dense

    def prediction(self, key: str) -> dict[str, Any] | None:
        """Return the stored prediction of a key, or None if there is none yet."""
        path = self.folder / PREDICTIONS / f"{key}.json"
        if not path.is_file():
            return None
        prediction: dict[str, Any] = json.loads(path.read_text())
        return prediction

    def write_prediction(self, key: str, prediction: dict[str, Any]) -> None:
        """Store a prediction."""
        path = self.folder / PREDICTIONS / f"{key}.json"
        write_atomically(path, json.dumps(prediction, allow_nan=False).encode())


@lru_cache(maxsize=8)
def _load_words(path: Path, description: str) -> Words:
    return load_words(path, json.loads(description))
