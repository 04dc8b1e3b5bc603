"""The index of folders of photographs: search by similarity, class and tag.

An index is a folder of segments (`segment`) and a manifest of them (`manifest`). The photographs
themselves are never opened. In the gallery a photograph has a number, its place in the natural
order of names; in the segments it has a position, which counts the rows of all segments.
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.gallery.manifest import MAKE_AGAIN, Manifest, read_manifest
from supdocnade.gallery.neighbours import nearest_rows, open_approximate
from supdocnade.gallery.segment import Int64s, Segment, SegmentEntry, Widths
from supdocnade.images.source import is_remote, join_address
from supdocnade.scene.inspection import comparison_thumbnail, group_near_duplicates
from supdocnade.storage import damage_errors, load_arrays
from supdocnade.text import fold_words, natural_key

if TYPE_CHECKING:
    from supdocnade.scene.prediction import FittedScene

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def model_fingerprint(fitted: "FittedScene") -> str:
    """Return a digest of everything that determines topics and probabilities of a model.

    Everything is named: the digest stays the same if settings get another field.
    """
    digest = hashlib.blake2b(fitted.encoder.fingerprint().encode(), digest_size=16)
    network, choices, tags = fitted.network, fitted.choices, fitted.choices.tags
    config = network.config
    settings = (fitted.settings.damping, config.output, config.activation, config.annotation_output)
    calibration = None if tags is None else (tags.slope, tags.prior, tags.offset)
    chosen = (choices.temperature, choices.class_tag_weight, calibration)
    digest.update(repr((settings, chosen, fitted.classes, fitted.tag_names)).encode())
    arrays: list[NDArray[Any]] = [*network.parameters.values()]
    if network.tree is not None:
        arrays.append(network.tree.leaf_of_word_K)
    if fitted.class_tag_share_CA is not None:
        arrays.append(fitted.class_tag_share_CA)
    if fitted.class_head is not None:
        head_arrays, head = fitted.class_head.to_storage()
        arrays += head_arrays.values()
        digest.update(repr((fitted.class_head.name, head)).encode())
    for array in (*arrays, fitted.tag_frequency_A):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def model_widths(fitted: "FittedScene") -> Widths:
    """Return the widths of the arrays of an index of a model."""
    n_topics = fitted.network.config.n_topics
    return Widths(n_topics, len(fitted.classes), len(fitted.tag_names))


def read_index(folder: Path, fitted: "FittedScene") -> Manifest:
    """Return the manifest of an index; one of another model raises `StorageError`."""
    manifest = read_manifest(folder)
    if manifest.model != model_fingerprint(fitted):
        raise StorageError(f"{folder} was made with another model; {MAKE_AGAIN}.")
    return manifest


def photo_address(folder: str, name: str) -> str:
    """Return the path or address of a photograph of an index."""
    return name if is_remote(name) else join_address(folder, name)


def deleted_path(folder: Path, name: str) -> Path:
    """Return the path of a list of deleted rows."""
    return folder / f"deleted-{name}.safetensors"


def order_path(folder: Path, name: str) -> Path:
    """Return the path of the order of the photographs."""
    return folder / f"order-{name}.safetensors"


def read_deleted(folder: Path, entry: SegmentEntry) -> Mask | None:
    """Return which rows of a segment are deleted; None if none is."""
    if entry.deleted is None:
        return None
    path = deleted_path(folder, entry.deleted)
    is_deleted_N = np.zeros(entry.rows, np.bool_)
    with damage_errors(str(path)):
        rows = load_arrays(path)[0]["rows"]
        if rows.min() < 0 or rows.max() >= entry.rows:
            raise ValueError("rows are out of range")
    is_deleted_N[rows] = True
    return is_deleted_N


def read_order(folder: Path, name: str) -> Int64s:
    """Return the positions of the photographs in the order of the gallery."""
    path = order_path(folder, name)
    with damage_errors(str(path)):
        positions: Int64s = load_arrays(path)[0]["positions"]
        if positions.dtype != np.int64 or positions.ndim != 1:
            raise InvalidArgument(f"its positions must be a row of int64, got {positions.dtype}")
    return positions


def sort_positions(segments: Sequence[tuple[Segment, Mask | None]]) -> Int64s:
    """Return the positions of all photographs by folder and natural order of names."""
    keys, start = [], 0
    for segment, is_deleted_N in segments:
        for row, (folder, name, _) in enumerate(segment.keys()):
            if is_deleted_N is None or not is_deleted_N[row]:
                keys.append((folder, natural_key(name), start + row))
        start += len(segment)
    keys.sort()
    return np.array([position for *_, position in keys], np.int64)


class Gallery:
    """The index of folders of photographs.

    Attributes
    ----------
    folders : absolute paths of the folders when they were indexed, for display.
    classes, tag_names : those of the model.
    threshold : probability from which on a photograph has a tag.
    is_complete : False if the run that writes the index is unfinished.
    version : part of the addresses of thumbnails, so that browsers do not show outdated ones.
    """

    def __init__(self, folder: Path, manifest: Manifest, fitted: "FittedScene"):
        self.folders = manifest.folders
        self.classes, self.tag_names = fitted.classes, fitted.tag_names
        self.threshold = fitted.tag_threshold
        self.is_complete = manifest.order is not None
        self.version = hashlib.blake2b(repr(manifest).encode(), digest_size=4).hexdigest()
        widths = model_widths(fitted)
        self._segments = [Segment(folder, entry, widths) for entry in manifest.segments]
        for segment in self._segments:
            folders = segment.arrays["folders"]
            if not 0 <= folders.min() <= folders.max() < len(self.folders):
                raise StorageError(
                    f"{segment.path} is damaged: it names folders that do not exist."
                )
        self._deleted = [read_deleted(folder, entry) for entry in manifest.segments]
        self._starts = np.cumsum([0, *(len(segment) for segment in self._segments)])
        self._approximate = [open_approximate(segment) for segment in self._segments]
        if manifest.order is None:
            pairs = zip(self._segments, self._deleted, strict=True)
            self._order = sort_positions(list(pairs))
        else:
            self._order = read_order(folder, manifest.order)
        n_deleted = sum(0 if mask is None else int(mask.sum()) for mask in self._deleted)
        self._number = np.full(self._starts[-1], -1)
        if len(self._order) != self._starts[-1] - n_deleted or (
            len(self._order) and not 0 <= self._order.min() <= self._order.max() < self._starts[-1]
        ):
            raise StorageError(f"{folder} is damaged: its order is that of another index.")
        self._number[self._order] = np.arange(len(self._order))

    def __len__(self) -> int:
        """The number of photographs."""
        return len(self._order)

    @classmethod
    def load(cls, folder: str | Path, fitted: "FittedScene") -> "Gallery":
        """Open an index; a damaged one, or one of another model, raises `StorageError`.

        Everything is checked but the thumbnails, each of which is checked when it is read.
        """
        path = Path(folder)
        manifest = read_index(path, fitted)
        if not manifest.segments:
            raise StorageError(f"{path} has no photographs yet; run supdocnade index again.")
        return cls(path, manifest, fitted)

    def _locate(self, number: int) -> tuple[Segment, int]:
        """Return the segment and the row of a photograph."""
        position = int(self._order[number])
        which = int(np.searchsorted(self._starts, position, "right")) - 1
        return self._segments[which], position - int(self._starts[which])

    def name(self, number: int) -> str:
        """Return the path of a photograph below its folder, after the folder if there are more."""
        segment, row = self._locate(number)
        name = segment.name(row)
        if not self._has_several_folders:
            return name
        return f"{PurePath(self.folders[segment.arrays['folders'][row]]).name}/{name}"

    @cached_property
    def _has_several_folders(self) -> bool:
        folders = [segment.arrays["folders"] for segment in self._segments]
        return len({int(bound) for each in folders for bound in (each.min(), each.max())}) > 1

    def path(self, number: int) -> str:
        """Return the path or address of a photograph when it was indexed."""
        segment, row = self._locate(number)
        return photo_address(self.folders[segment.arrays["folders"][row]], segment.name(row))

    def topics(self, number: int) -> NDArray[np.float32]:
        """Return the topic features of a photograph, (H,)."""
        segment, row = self._locate(number)
        topics_H: NDArray[np.float32] = segment.arrays["topics"][row]
        return topics_H

    def picture(self, number: int) -> bytes:
        """Return the thumbnail of a photograph, a JPEG file."""
        segment, row = self._locate(number)
        return segment.picture(row)

    def nearest(
        self,
        topics_H: NDArray[np.float32],
        top: int,
        *,
        but: int | None = None,
        exact: bool = False,
    ) -> list[tuple[int, float]]:
        """Return the photographs nearest in topic space, with their distances.

        Parameters
        ----------
        topics_H : topic features of the query.
        top : number of photographs.
        but : photograph to leave out, usually the query itself.
        exact : search large segments without their inverted files, too.
        """
        numbers, distances = [np.empty(0, np.int64)], [np.empty(0)]
        for which, segment in enumerate(self._segments):
            approximate = None if exact else self._approximate[which]
            rows, away = nearest_rows(segment, topics_H, top + 1, self._deleted[which], approximate)
            numbers.append(self._number[rows + self._starts[which]])
            distances.append(away)
        number_N, away_N = np.concatenate(numbers), np.concatenate(distances)
        order = np.lexsort((number_N, away_N))
        order = order[number_N[order] != (-1 if but is None else but)][:top]
        return list(zip(number_N[order].tolist(), away_N[order].tolist(), strict=True))

    def near_duplicates(self, picture: Any, numbers: Sequence[int]) -> set[int]:
        """Return those of some photographs that show the picture of another image.

        The picture is an image file or pixels.
        """
        images = [picture, *map(self.picture, numbers)]
        thumbnails = [comparison_thumbnail(image) for image in images]
        first, *groups = group_near_duplicates(thumbnails, list(map(str, range(len(images)))))
        return {number for number, group in zip(numbers, groups, strict=True) if group == first}

    def count_copies(self) -> int:
        """Return the number of photographs with the same thumbnail as one before them."""
        digests = [segment.arrays["picture_digests"] for segment in self._segments]
        kept = np.concatenate(digests)[self._order]
        return len(self) - len(np.unique(kept.view(f"V{kept.shape[1]}")))

    def search(
        self,
        *,
        label: str | None = None,
        tags: Sequence[str] = (),
        words: str = "",
        min_probability: float | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the photographs that have all that is asked for, and the probability of each.

        The most probable photograph comes first. The probability is the product of those of the
        class, the tags and the words.

        Parameters
        ----------
        label : predicted class or label, one of `classes`.
        tags : each one of `tag_names`.
        words : each is looked for in tags, in the predicted class and in the path.
        min_probability : of a tag; None: that from which on tags are given.
        """
        least = self.threshold if min_probability is None else min_probability
        proba_P = np.ones(self._starts[-1])
        if label is not None:
            proba_P *= self._class_matches([self.classes.index(label)])
        for tag in tags:
            proba_P *= self._tag_matches([self.tag_names.index(tag)], least)
        for word in fold_words(words):
            proba_P *= np.maximum.reduce(
                [
                    self._class_matches(_having_word(self.classes, word)),
                    self._tag_matches(_having_word(self.tag_names, word), least),
                    self._path_matches(word),
                ]
            )
        proba_N = proba_P[self._order]
        found = np.flatnonzero(proba_N)
        numbers = found[np.argsort(-proba_N[found], kind="stable")]
        return numbers, proba_N[numbers]

    def _class_matches(self, classes: Sequence[int]) -> Floats:
        """Return the largest probability of a class that is predicted, 0 if none of these is."""
        if not classes:
            return np.zeros(self._starts[-1])
        predicted_P, proba_P = self._predicted
        return np.where(np.isin(predicted_P, classes), proba_P, 0.0)

    @cached_property
    def _predicted(self) -> tuple[Int64s, Floats]:
        """The predicted classes at all positions, and their probabilities."""
        parts = [segment.arrays["proba"] for segment in self._segments]
        predicted = [part.argmax(axis=1) for part in parts]
        proba = [part.max(axis=1).astype(np.float64) for part in parts]
        return np.concatenate(predicted), np.concatenate(proba)

    def _tag_matches(self, tags: Sequence[int], least: float) -> Floats:
        """Return the largest probability of some tags, 0 if it is less than it must be."""
        parts = [
            segment.arrays["presence"][list(tags)].max(axis=0, initial=0.0)
            for segment in self._segments
        ]
        return _at_least(np.concatenate(parts), least)

    def _path_matches(self, word: str) -> Floats:
        """Return 1 where a part of the path begins with a word, otherwise 0."""
        match_P = np.zeros(self._starts[-1])
        for segment, start in zip(self._segments, self._starts[:-1], strict=True):
            match_P[segment.rows_with_word(word) + start] = 1
        return match_P

    def count_tags(self, numbers: Int64s) -> list[tuple[str, int]]:
        """Return the tags of some photographs with their numbers, the most frequent first."""
        everything = len(numbers) == len(self)
        counts_A = self._tag_counts if everything else self._count_tags(numbers)
        return _rank_counts(counts_A, self.tag_names)

    @cached_property
    def _tag_counts(self) -> Int64s:
        return self._count_tags(np.arange(len(self)))

    def _count_tags(self, numbers: Int64s) -> Int64s:
        counts_A = np.zeros(len(self.tag_names), np.int64)
        for segment, rows in self._split(numbers):
            for tag, presence_N in enumerate(segment.arrays["presence"]):
                counts_A[tag] += np.count_nonzero(presence_N[rows] >= self.threshold)
        return counts_A

    def _split(self, numbers: Int64s) -> Iterator[tuple[Segment, Int64s]]:
        """Yield the segments of some photographs, with their rows."""
        positions = np.sort(self._order[numbers])
        bounds = np.searchsorted(positions, self._starts)
        for which, segment in enumerate(self._segments):
            rows = positions[bounds[which] : bounds[which + 1]] - self._starts[which]
            if len(rows):
                yield segment, rows

    def count_classes(self, numbers: Int64s) -> list[tuple[str, int]]:
        """Return the predicted classes of some photographs with their numbers."""
        if not self.classes:
            return []
        predicted = self._predicted[0][self._order[numbers]]
        return _rank_counts(np.bincount(predicted, minlength=len(self.classes)), self.classes)

    def label(self, number: int) -> tuple[str, float] | None:
        """Return the best class and its probability; None if the model has no classes."""
        if not self.classes:
            return None
        segment, row = self._locate(number)
        proba_C = segment.arrays["proba"][row]
        best = int(proba_C.argmax())
        return self.classes[best], float(proba_C[best])

    def tags(self, number: int) -> list[tuple[str, float]]:
        """Return the tags of a photograph, the most probable first."""
        segment, row = self._locate(number)
        return _given(segment.arrays["presence"][:, row], self.tag_names, self.threshold)


def _at_least(proba: NDArray[np.floating], least: float) -> Floats:
    """Return probabilities, with 0 in place of those that are too small."""
    return np.where(proba >= least, proba.astype(np.float64), 0.0)


def _given(
    proba: NDArray[np.floating], names: Sequence[str], least: float
) -> list[tuple[str, float]]:
    """Return the names whose probability is large enough, the most probable first."""
    order = np.argsort(-proba, kind="stable").tolist()
    return [(names[each], float(proba[each])) for each in order if proba[each] >= least]


def _having_word(names: Sequence[str], word: str) -> list[int]:
    """Return the numbers of the names that have a word; without any, those with a longer one."""
    parts = [fold_words(name) for name in names]
    whole = [number for number, each in enumerate(parts) if word in each]
    longer = (n for n, each in enumerate(parts) if any(part.startswith(word) for part in each))
    return whole or list(longer)


def _rank_counts(counts: NDArray[np.integer], names: Sequence[str]) -> list[tuple[str, int]]:
    order = np.argsort(-counts, kind="stable").tolist()
    return [(names[number], int(counts[number])) for number in order if counts[number]]
