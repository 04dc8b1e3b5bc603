"""Photographs as a topic model learns from them: documents, and their mirror images beside them.

A photograph and its mirror image show the same, so both have its label and its tags. Only learning
knows of mirror images: what is held out, predicted, explained or shown is the photograph itself.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.scene.fitted import damped
from supdocnade.scene.learned import LearnedFrom
from supdocnade.scene.photographs import Photographs
from supdocnade.words.annotations import AnnotationVocabulary


@dataclass(frozen=True, eq=False)
class SceneDocuments:
    """Photographs with the counts of their words, damped."""

    photographs: Photographs
    counts: sparse.csr_array
    """(photographs, words)."""
    mirrored: sparse.csr_array | None
    """The same of their mirror images; None: they are not learned from."""

    @classmethod
    def of(cls, learned: LearnedFrom, damping: float | None) -> "SceneDocuments":
        """Return photographs as documents."""
        mirrored = None if learned.mirrored is None else damped(learned.mirrored, damping)
        return cls(learned.photographs, damped(learned.counts, damping), mirrored)

    def take(self, chosen: NDArray[np.integer]) -> "SceneDocuments":
        """Return some of the photographs, each with its mirror image."""
        mirrored = None if self.mirrored is None else self.mirrored[chosen]
        return SceneDocuments(self.photographs.take(chosen), self.counts[chosen], mirrored)

    @property
    def n_sides(self) -> int:
        """Documents of a photograph."""
        return 1 if self.mirrored is None else 2

    @property
    def counts_of_sides(self) -> sparse.csr_array:
        """The documents of all photographs, and after them those of all mirror images."""
        if self.mirrored is None:
            return self.counts
        return sparse.csr_array(sparse.vstack([self.counts, self.mirrored], format="csr"))

    @property
    def labels_of_sides(self) -> list[str | None]:
        """The labels of these documents."""
        return self.photographs.labels * self.n_sides

    def tags_of_sides(self, vocabulary: AnnotationVocabulary) -> dict[str, Any]:
        """Return the tags of these documents, as `fit` of a topic model takes them."""
        if not len(vocabulary):
            return {}
        tags = vocabulary.encode(self.photographs.tags)
        sides = [tags.annotations] * self.n_sides
        return {
            "annotations": sparse.csr_array(sparse.vstack(sides, format="csr")),
            "annotation_mask": np.tile(tags.known, self.n_sides),
            "annotation_names": list(vocabulary.names),
        }
