"""Photographs with their labels and tags, from a folder or from lists; choice of a held-out set."""

import hashlib
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import InvalidArgument, UnreadableImage
from supdocnade.folders.metadata import (
    SEPARATOR,
    has_several_labels,
    join_labels,
    split_labels,
)
from supdocnade.folders.photo_folder import ImageRecord
from supdocnade.folders.photo_sources import find_sources, kind_of_place, scan_photographs
from supdocnade.folders.splits import split_per_class
from supdocnade.folders.tags import Tags
from supdocnade.images.source import source_name
from supdocnade.visual_words.cache import read_with_key
from supdocnade.visual_words.parallel import check_images, image_name

SMALL_CLASS = 5
"""Classes of fewer photographs have none held out."""

_UNLABELLED = "\0"


@dataclass(frozen=True, eq=False, kw_only=True)
class Photographs:
    """Photographs with their labels and tags."""

    sources: list[Any]
    names: list[str]
    """Names of the sources, or "image" and a number."""
    labels: list[str | None]
    """Classes, or several labels as `join_labels` returns them; None where unknown."""
    tags: list[Tags]
    keys: list[str] | None = None
    """Digests of their contents; None before the photographs are encoded."""
    several_labels: bool | None = None
    """Whether photographs may have several labels; None: whether any of these has."""

    def __post_init__(self) -> None:
        if self.several_labels is None:
            object.__setattr__(self, "several_labels", has_several_labels(self.labels))

    def __len__(self) -> int:
        """The number of photographs."""
        return len(self.sources)

    def take(self, chosen: Sequence[int] | NDArray[np.integer]) -> "Photographs":
        """Return some of the photographs."""
        return Photographs(
            sources=[self.sources[i] for i in chosen],
            names=[self.names[i] for i in chosen],
            labels=[self.labels[i] for i in chosen],
            tags=[self.tags[i] for i in chosen],
            keys=None if self.keys is None else [self.keys[i] for i in chosen],
            several_labels=self.several_labels,
        )

    def content_keys(self) -> list[str]:
        """Return digests that are equal for copies of a photograph."""
        if self.keys is not None:
            return self.keys
        return [_content_key(source, number) for number, source in enumerate(self.sources)]

    def fingerprint(self) -> str:
        """Return a digest of the contents, labels and tags of all photographs, not of names."""
        return fingerprint_records(self.content_keys(), self.labels, self.tags)

    @property
    def classes(self) -> list[str]:
        """The classes that occur, sorted."""
        return sorted(self.count_classes())

    def count_classes(self) -> Counter[str]:
        """Return the number of photographs of every class."""
        if self.several_labels:
            return Counter(name for label in self.labels for name in split_labels(label))
        return Counter(label for label in self.labels if label is not None)

    def main_labels(self) -> list[str | None]:
        """Return one class per photograph; of several labels, the rarest one that is not small."""
        if not self.several_labels:
            return self.labels
        counts = self.count_classes()

        def rank(name: str) -> tuple[bool, int, str]:
            return counts[name] < SMALL_CLASS, counts[name], name

        return [min(split_labels(label), key=rank, default=label) for label in self.labels]

    def label_numbers(self, classes: Sequence[str]) -> NDArray[np.int64]:
        """Return the number of the class of each photograph (see `main_labels`).

        It is -1 where it is unknown or not among the classes.
        """
        numbers = {label: number for number, label in enumerate(classes)}
        return np.array([numbers.get(label or "", -1) for label in self.main_labels()], np.int64)

    def class_members(self, classes: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the photographs with known classes, (N,), and the classes of each, (N, C)."""
        if not self.several_labels:
            label_B = self.label_numbers(classes)
            known = np.flatnonzero(label_B >= 0)
            return known, label_B[known, None] == np.arange(len(classes))
        known = np.array([i for i, label in enumerate(self.labels) if label is not None], np.int64)
        numbers = {label: number for number, label in enumerate(classes)}
        members_NC = np.zeros((len(known), len(classes)), np.bool_)
        for row, photograph in enumerate(known):
            names = split_labels(self.labels[photograph])
            members_NC[row, [numbers[name] for name in names if name in numbers]] = True
        return known, members_NC


def fingerprint_records(
    keys: Iterable[str], labels: Iterable[str | None], tags: Iterable[Tags]
) -> str:
    """Return a digest of photographs in any order.

    Parameters
    ----------
    keys : digests of their contents.
    """
    digests = bytearray()
    for key, label, some in zip(keys, labels, tags, strict=True):
        record = repr((key, label, some and sorted(some))).encode(errors="surrogatepass")
        digests += hashlib.blake2b(record, digest_size=16).digest()
    in_order = np.sort(np.frombuffer(digests, "S16")).tobytes()
    return hashlib.blake2b(in_order, digest_size=16).hexdigest()


def read_photographs(
    images: Any, labels: Sequence[Any] | None = None, tags: Sequence[Tags] | None = None
) -> Photographs:
    """Return photographs with their labels and tags.

    Parameters
    ----------
    images : a folder, one sub-folder per class, with optional metadata, or another place (see
        `photo_sources`); or a list of paths, addresses, bytes of files, arrays or PIL images.
    labels : their classes, or lists of several labels, None where unknown; not with a folder,
        which has its own.
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
        if isinstance(label, str) and SEPARATOR in label:
            label = split_labels(label)
        several = isinstance(label, list | tuple | set | frozenset)
        names = list(label) if several else [] if label is None else [label]
        if not all(isinstance(name, str) and name for name in names):
            raise InvalidArgument(
                "labels must be strings, or lists of strings for several labels per photograph, or "
                f"None where missing, got {label!r}."
            )
        checked.append(join_labels(names) if several else None if label is None else str(label))
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


def expand_folders(images: Any, *, with_files: bool = True) -> list[Any]:
    """Return a list of images, in which folders and other places are replaced by photographs.

    Parameters
    ----------
    with_files : False keeps files that hold photographs, such as lists and tar files.
    """
    given = [images] if isinstance(images, str | os.PathLike) else check_images(images)
    found: list[Any] = []
    for source in given:
        is_path = isinstance(source, str | os.PathLike)
        if is_path and (with_files or kind_of_place(source) == "folder"):
            found += [photograph for _, photograph in find_sources(source)]
        else:
            found.append(source)
    return found


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


def hold_out(
    photographs: Photographs,
    fraction: float,
    seed: int,
    never_B: NDArray[np.bool_] | None = None,
    picture_B: NDArray[np.int64] | None = None,
    always_B: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """Return a mask of the held-out photographs: a share of every class, near-duplicates together.

    No photographs of classes with fewer than five are held out.

    Parameters
    ----------
    fraction : the share; 0 holds out nothing.
    never_B : (photographs,) True for those that must not be held out; None: any may be.
    picture_B : (photographs,) equal for near-duplicates; None: equal for equal contents.
    always_B : (photographs,) True for those that are held out in addition to the share of the
        others; None: no such photographs.
    """
    none_B = np.zeros(len(photographs), np.bool_)
    if fraction == 0:
        return none_B
    never_B = none_B if never_B is None else never_B
    always_B = none_B if always_B is None else always_B
    labels = [label or _UNLABELLED for label in photographs.main_labels()]
    small = {label for label, count in Counter(labels).items() if count < SMALL_CLASS}
    groups = picture_B
    if groups is None:
        groups = np.unique(photographs.content_keys(), return_inverse=True)[1]
    split = split_per_class(
        [
            None if label in small or fixed else label
            for label, fixed in zip(labels, never_B | always_B, strict=True)
        ],
        train_size=1 - fraction,
        seed=seed,
        groups=groups,
    )
    held = np.zeros(len(photographs), np.bool_)
    held[split.test] = True
    held |= np.isin(groups, groups[always_B]) & ~never_B
    # Near-duplicates of photographs in the training part, whose class may be too small to split.
    held[np.isin(groups, groups[~held])] = False
    if held.all():  # All show one picture, which is needed for training.
        held[:] = False
    return held


def _content_key(source: Any, number: int) -> str:
    """Return the digest of a photograph, or its number if it cannot be read."""
    try:
        key = read_with_key(source)[1]
    except UnreadableImage:
        key = None
    return key or f"image {number}"
