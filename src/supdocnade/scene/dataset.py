"""Photographs with their labels and tags, from a folder or from lists, and as a training set.

The photographs that a model was fitted on are stored in it as word counts, so that more can be
added.
"""

import hashlib
import os
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.checks import check_shape
from supdocnade.corpus.documents import Documents
from supdocnade.corpus.tokens import CorpusRows, damp_counts
from supdocnade.errors import InvalidArgument
from supdocnade.folders.metadata import SEPARATOR
from supdocnade.folders.photo_folder import ImageRecord
from supdocnade.folders.photo_sources import scan_photographs
from supdocnade.folders.tags import AnnotationVocabulary, Tags
from supdocnade.images.reading import check_images, image_name
from supdocnade.images.source import source_name
from supdocnade.schema import array, stored, unstored

SMALL_CLASS = 5
"""Classes of fewer photographs have none held out."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Photographs:
    """Photographs with their labels and tags."""

    sources: list[Any] = unstored(default_factory=list)
    names: list[str] = stored(axis="B")
    """Names of the sources, or "image" and a number."""
    labels: list[str | None] = stored(axis="B")
    """Classes; None where unknown."""
    tags: list[Tags] = stored(axis="B")
    keys: list[str] | None = stored(None, axis="B")
    """Digests of their contents; None before the photographs are encoded."""

    def __post_init__(self) -> None:
        if not self.sources:  # A file has none.
            self.sources.extend([b""] * len(self.names))

    def __len__(self) -> int:
        """Return the number of photographs."""
        return len(self.names)

    def take(self, chosen: Sequence[int] | NDArray[np.integer]) -> "Photographs":
        """Return some of the photographs."""
        return Photographs(
            sources=[self.sources[i] for i in chosen],
            names=[self.names[i] for i in chosen],
            labels=[self.labels[i] for i in chosen],
            tags=[self.tags[i] for i in chosen],
            keys=None if self.keys is None else [self.keys[i] for i in chosen],
        )

    def content_keys(self) -> list[str]:
        """Return digests that are equal for copies of a photograph."""
        assert self.keys is not None, "the photographs are encoded"
        return self.keys

    def fingerprint(self) -> str:
        """Return a digest of the contents, labels and tags of all photographs, not of names."""
        digests = bytearray()
        for key, label, some in zip(self.content_keys(), self.labels, self.tags, strict=True):
            record = repr((key, label, some and sorted(some))).encode(errors="surrogatepass")
            digests += hashlib.blake2b(record, digest_size=16).digest()
        in_order = np.sort(np.frombuffer(digests, "S16")).tobytes()
        return hashlib.blake2b(in_order, digest_size=16).hexdigest()

    @property
    def tagged_B(self) -> NDArray[np.bool_]:
        """(photographs,) True where tags are known."""
        return np.array([tags is not None for tags in self.tags], np.bool_)

    @property
    def classes(self) -> list[str]:
        """The classes that occur, sorted."""
        return sorted(self.count_classes())

    def count_classes(self) -> Counter[str]:
        """Return the number of photographs of every class."""
        return Counter(label for label in self.labels if label is not None)

    def label_numbers(self, classes: Sequence[str]) -> NDArray[np.int64]:
        """Return the number of the class of each photograph.

        It is -1 where it is unknown or not among the classes.
        """
        numbers = {label: number for number, label in enumerate(classes)}
        return np.array([numbers.get(label or "", -1) for label in self.labels], np.int64)

    def class_members(self, classes: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the photographs with known classes, (N,), and the class of each, (N, C)."""
        label_B = self.label_numbers(classes)
        known = np.flatnonzero(label_B >= 0)
        return known, label_B[known, None] == np.arange(len(classes))


def read_photographs(
    images: Any, labels: Sequence[Any] | None = None, tags: Sequence[Tags] | None = None
) -> Photographs:
    """Return photographs with their labels and tags.

    Parameters
    ----------
    images : a folder, one sub-folder per class, with optional metadata, or another place (see
        `photo_sources`); or a list of paths, addresses, bytes of files, arrays or PIL images.
    labels : their classes, None where unknown; not with a folder, which has its own.
    tags : a list of tags per photograph, None where unknown; not with a folder.
    """
    if isinstance(images, str | os.PathLike):
        if labels is not None or tags is not None:
            raise InvalidArgument("labels and tags must be None with a folder, which has its own.")
        folder = scan_photographs(images)
        for note in folder.notes:
            warnings.warn(note, stacklevel=3)
        return from_records(folder.records)
    sources = check_images(images)
    return Photographs(
        sources=sources,
        names=[image_name(sources, number) for number in range(len(sources))],
        labels=check_labels(labels, len(sources)),
        tags=check_tags(tags, len(sources)),
    )


def check_labels(labels: Sequence[Any] | None, n_photographs: int) -> list[str | None]:
    """Return the labels of photographs."""
    checked: list[str | None] = []
    for label in _entries("labels", labels, n_photographs):
        if label is not None and (not isinstance(label, str) or not label or SEPARATOR in label):
            raise InvalidArgument(
                "labels must be strings without |, or None where missing; several names of a "
                f"photograph are its tags; got {label!r}."
            )
        checked.append(None if label is None else str(label))
    return checked


def check_tags(tags: Sequence[Tags] | None, n_photographs: int) -> list[Tags]:
    """Return the tags of photographs."""
    given = _entries("tags", tags, n_photographs)
    for some in given:
        if some is not None and (isinstance(some, str) or not isinstance(some, Sequence)):
            raise InvalidArgument(f"tags must be lists of strings, or None, got {some!r}.")
    return given


def from_records(records: Sequence[ImageRecord]) -> Photographs:
    """Return the photographs of a data set."""
    return Photographs(
        sources=[record.source for record in records],
        names=[source_name(record.source) for record in records],
        labels=[record.label for record in records],
        tags=[record.tags for record in records],
    )


def _entries(name: str, given: Sequence[Any] | None, n_images: int) -> list[Any]:
    """Return one entry per image, None where it is missing."""
    if given is None:
        return [None] * n_images
    entries = []
    for entry in given:
        is_nan = isinstance(entry, float) and np.isnan(entry)
        missing = is_nan or type(entry).__name__ in ("NAType", "NaTType")
        entries.append(None if missing else entry)
    if len(entries) != n_images:
        raise InvalidArgument(
            f"{name} must have an entry for each of the {n_images} images, got {len(entries)}."
        )
    return entries


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Photographs with the counts of their words."""

    photographs: Photographs
    """Their sources may no longer exist."""
    counts: sparse.csr_array = array("BW", np.int64, least=1)
    """(photographs, words in regions); or `CorpusRows`, which stay on disk."""
    in_words_B: NDArray[np.bool_] = array("B", np.bool_)
    """(photographs,) True for those that the visual words were learned from."""
    features_BF: NDArray[np.float32] | None = array(
        "BF", np.float32, stored_as=np.float16, default=None
    )
    """(photographs, features) of whole photographs; None unless a network describes them."""

    def __post_init__(self) -> None:
        check_shape("photographs", (len(self.photographs),), self.counts.shape[:1])

    def take(self, rows: NDArray[np.integer]) -> "TrainingSet":
        """Return some of the photographs."""
        features_BF = self.features_BF
        if features_BF is not None:
            # Consecutive rows of a file stay there.
            in_turn = len(rows) > 0 and bool((np.diff(rows) == 1).all())
            features_BF = features_BF[rows[0] : rows[-1] + 1] if in_turn else features_BF[rows]
        photographs = self.photographs.take(rows)
        return TrainingSet(photographs, self.counts[rows], self.in_words_B[rows], features_BF)

    def load(self, rows: NDArray[np.integer]) -> "TrainingSet":
        """Return some of the photographs, with counts and features in memory."""
        some = self.take(rows)
        counts, features_BF = some.counts, some.features_BF
        if isinstance(counts, CorpusRows):
            counts = sparse.csr_array(counts.load(), dtype=np.int64)
        features_BF = None if features_BF is None else np.array(features_BF)
        return replace(some, counts=counts, features_BF=features_BF)

    def damp(self, scale: float | None) -> "TrainingSet":
        """Return the photographs with damped counts; None leaves them as they are."""
        if scale is None:
            return self
        if isinstance(self.counts, CorpusRows):
            return replace(self, counts=replace(self.counts, damping=scale))
        return replace(self, counts=damp_counts(self.counts, scale))

    def join(self, other: "TrainingSet") -> "TrainingSet":
        """Return these photographs and others; a photograph in both is taken from the other."""
        repeated = set(other.photographs.content_keys())
        keys = self.photographs.content_keys()
        own = self.take(np.array([i for i, key in enumerate(keys) if key not in repeated], int))
        mine, theirs = own.photographs, other.photographs
        own_names, taken = [], set(theirs.names)
        for name in mine.names:  # Another photograph may have the name of an earlier one.
            while name in taken:
                name += " (before)"
            taken.add(name)
            own_names.append(name)
        return TrainingSet(
            Photographs(
                sources=[*mine.sources, *theirs.sources],
                names=[*own_names, *theirs.names],
                labels=[*mine.labels, *theirs.labels],
                tags=[*mine.tags, *theirs.tags],
                keys=[*mine.content_keys(), *theirs.content_keys()],
            ),
            sparse.csr_array(sparse.vstack([own.counts, other.counts], format="csr")),
            np.concatenate([own.in_words_B, other.in_words_B]),
            _join(own.features_BF, other.features_BF),
        )

    def documents(
        self,
        vocabulary: AnnotationVocabulary,
        classes: Sequence[str],
        *,
        annotations_are_words: bool,
    ) -> Documents:
        """Return the photographs as documents, with their classes and tags.

        Parameters
        ----------
        classes : of the documents; an empty list leaves them without labels.
        annotations_are_words : as for `Documents.from_counts`.
        """
        has_tags = len(vocabulary) > 0
        return Documents.from_counts(
            self.counts,
            annotations=vocabulary.encode(self.photographs.tags) if has_tags else None,
            annotation_mask=self.photographs.tagged_B if has_tags else None,
            labels=self.photographs.label_numbers(classes),
            n_classes=len(classes),
            global_features=self.features_BF,
            annotations_are_words=annotations_are_words,
        )

    def describe(self) -> dict[str, Any]:
        """Return the numbers of photographs, classes and tags, and their fingerprint."""
        photographs = self.photographs
        return {
            "n_images": len(photographs),
            "images_of_class": dict(sorted(photographs.count_classes().items())),
            "n_unlabelled": photographs.labels.count(None),
            "n_tagged": int(photographs.tagged_B.sum()),
            "fingerprint": photographs.fingerprint(),
        }


def _join(first: Any, second: Any) -> Any:
    """Return two arrays as one; None if one of them is missing."""
    return None if first is None or second is None else np.concatenate([first, second])
