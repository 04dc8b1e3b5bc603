"""The index of a folder of photographs: search by similarity, class and tag.

An index is a folder of three files: `index.json` names the model and holds checksums,
`photographs.safetensors` holds names, topic features and predictions, and `pictures.bin` holds the
thumbnails, concatenated JPEG files. The photographs themselves are never opened.
"""

import hashlib
import json
import os
import re
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_shape
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.folders.tags import normalize_tag
from supdocnade.metrics import top_ranked
from supdocnade.storage import Arrays, load_arrays

if TYPE_CHECKING:
    from supdocnade.scene.prediction import FittedScene

Floats = NDArray[np.float32]


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
    if fitted.svm is not None:
        svm = fitted.svm
        arrays += [svm.mean_H, svm.scale_H, svm.support_SH, svm.coefficient_CS, svm.intercept_C]
        digest.update(repr(svm.gamma).encode())
    for array in (*arrays, fitted.tag_frequency_A):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """Names, features and predictions of photographs, one row each."""

    names: tuple[str, ...]
    """Paths relative to the folder, with slashes."""
    stamps_N2: NDArray[np.int64]
    """File size and modification time, by which changed files are found."""
    topics_NH: Floats
    proba_NC: Floats
    """Class probabilities."""
    presence_NA: Floats
    """Tag probabilities."""
    lengths_N: NDArray[np.int64]
    """Sizes of the thumbnails in bytes."""

    def __len__(self) -> int:
        """The number of photographs."""
        return len(self.names)

    def take(self, chosen: Sequence[int]) -> "Rows":
        """Return the given rows."""
        rows = np.array(chosen, np.int64)
        return Rows(
            names=tuple(self.names[row] for row in chosen),
            **{name: getattr(self, name)[rows] for name in _ARRAYS},
        )

    @staticmethod
    def joined(parts: Sequence["Rows"]) -> "Rows":
        """Return the rows of several parts, of which there must be one at least."""
        return Rows(
            names=tuple(name for part in parts for name in part.names),
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS},
        )

    def arrays(self) -> Arrays:
        """Return the arrays by name, for storage."""
        return {name: getattr(self, name) for name in _ARRAYS}

    @classmethod
    def restored(cls, arrays: Arrays, names: Any, fitted: "FittedScene") -> "Rows":
        """Return stored rows; invalid ones raise `InvalidArgument`."""
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InvalidArgument("the names of its photographs must be strings")
        n, n_topics = len(names), fitted.network.config.n_topics
        shapes = {
            "stamps_N2": (n, 2),
            "topics_NH": (n, n_topics),
            "proba_NC": (n, len(fitted.classes)),
            "presence_NA": (n, len(fitted.tag_names)),
            "lengths_N": (n,),
        }
        for name, shape in shapes.items():
            check_shape(name, arrays[name].shape, shape)
        for name in ("topics_NH", "proba_NC", "presence_NA"):
            if not np.isfinite(arrays[name]).all():
                raise InvalidArgument(f"{name} must be finite")
        if len(set(names)) < n or (arrays["lengths_N"] <= 0).any():
            raise InvalidArgument("its photographs must be distinct and have thumbnails")
        return cls(names=tuple(names), **{name: arrays[name] for name in _ARRAYS})


_ARRAYS = ("stamps_N2", "topics_NH", "proba_NC", "presence_NA", "lengths_N")


_BLOCK = 2**20


class PictureFile:
    """The thumbnails of an index; the file stays open, so that it may be replaced meanwhile."""

    def __init__(self, path: Path):
        try:
            self._file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror}.") from error
        weakref.finalize(self, os.close, self._file)

    def read(self, start: int, length: int) -> bytes:
        """Return some bytes of the file; threads may read at the same time."""
        return os.pread(self._file, length, start)

    def digest(self) -> tuple[str, int]:
        """Return the digest and the length of the file."""
        digest, length = hashlib.blake2b(digest_size=16), 0
        while block := self.read(length, _BLOCK):
            digest.update(block)
            length += len(block)
        return digest.hexdigest(), length


def write_pictures(path: Path, pictures: Iterable[bytes]) -> str:
    """Write concatenated thumbnails; return their digest."""
    digest = hashlib.blake2b(digest_size=16)
    with open(path, "wb") as file:
        for picture in pictures:
            file.write(picture)
            digest.update(picture)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


FORMAT, KIND = 1, "Gallery"
DESCRIPTION, ROWS, PICTURES = "index.json", "photographs.safetensors", "pictures.bin"


@dataclass(frozen=True, eq=False, kw_only=True)
class Gallery:
    """The index of a folder of photographs."""

    folder: str
    """Folder of the photographs when they were indexed, for display."""
    rows: Rows
    classes: tuple[str, ...]
    tag_names: tuple[str, ...]
    threshold: float
    """Probability from which on a photograph has a tag."""
    pictures: PictureFile
    version: str
    """Version of the thumbnails in their addresses, so that browsers do not show outdated ones."""

    def __len__(self) -> int:
        """The number of photographs."""
        return len(self.rows)

    @classmethod
    def load(cls, folder: str | Path, fitted: "FittedScene") -> "Gallery":
        """Read an index; a damaged one, or one of another model, raises `StorageError`.

        Parameters
        ----------
        folder : folder of the index.
        fitted : the model that made it.
        """
        path = Path(folder)
        description = read_description(path)
        if description["model"] != model_fingerprint(fitted):
            raise StorageError(
                f"{path} was made with another model; make it again with supdocnade index."
            )
        arrays, names = load_arrays(path / ROWS)
        try:
            rows = Rows.restored(arrays, names["names"], fitted)
        except (KeyError, InvalidArgument) as error:
            raise StorageError(f"{path / ROWS} is damaged: {error}.") from error
        pictures = PictureFile(path / PICTURES)
        if pictures.digest() != (description["pictures"], int(rows.lengths_N.sum())):
            raise StorageError(f"{path / PICTURES} is damaged, or belongs to another index.")
        return cls(
            folder=description["folder"],
            rows=rows,
            classes=fitted.classes,
            tag_names=fitted.tag_names,
            threshold=fitted.tag_threshold,
            pictures=pictures,
            version=description["pictures"][:8],
        )

    def nearest(
        self, topics_H: NDArray[np.float32], top: int, *, but: int | None = None
    ) -> list[tuple[int, float]]:
        """Return the photographs nearest in topic space, with their distances.

        Parameters
        ----------
        topics_H : topic features of the query.
        top : number of photographs.
        but : row of a photograph to leave out, usually the query itself.
        """
        away_N = np.linalg.norm(self.rows.topics_NH - topics_H, axis=1).astype(np.float64)
        if but is not None:
            away_N[but] = np.inf
        most = min(top, len(self) - (but is not None))
        return [(row, float(away_N[row])) for row in top_ranked(-away_N[None], most)[0].tolist()]

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
        label : predicted class, one of `classes`.
        tags : each one of `tag_names`.
        words : each is looked for in tags, in the predicted class and in the path.
        min_probability : of a tag; None: that from which on tags are given.
        """
        least = self.threshold if min_probability is None else min_probability
        proba_N = np.ones(len(self))
        if label is not None:
            proba_N *= self._class_matches([self.classes.index(label)])
        for tag in tags:
            proba_N *= self._tag_matches([self.tag_names.index(tag)], least)
        for word in normalize_tag(words).split():
            proba_N *= np.maximum.reduce(
                [
                    self._class_matches(_having_word(self.classes, word)),
                    self._tag_matches(_having_word(self.tag_names, word), least),
                    self._path_matches(word),
                ]
            )
        order = np.argsort(-proba_N, kind="stable")
        rows = order[proba_N[order] > 0]
        return rows, proba_N[rows]

    def _class_matches(self, numbers: Sequence[int]) -> NDArray[np.float64]:
        """Return the probability of the predicted class, 0 unless it is one of those given."""
        if not numbers:
            return np.zeros(len(self))
        predicted_N = np.isin(self.rows.proba_NC.argmax(axis=1), numbers)
        return np.where(predicted_N, self.rows.proba_NC.max(axis=1), 0.0).astype(np.float64)

    def _tag_matches(self, numbers: Sequence[int], least: float) -> NDArray[np.float64]:
        """Return the largest probability of some tags, 0 if it is less than it must be."""
        presence_N = self.rows.presence_NA[:, list(numbers)].max(axis=1, initial=0.0)
        return np.where(presence_N >= least, presence_N, 0.0).astype(np.float64)

    def _path_matches(self, word: str) -> NDArray[np.float64]:
        """Return 1 where a part of the path begins with a word, otherwise 0."""
        begins = re.compile(rf"(?<![^\W_]){re.escape(word)}")
        found = [begins.search(path) is not None for path in self._paths]
        return np.array(found, np.float64)

    @cached_property
    def _paths(self) -> list[str]:
        """The paths in the form of tags, for comparison with words."""
        return [normalize_tag(name) for name in self.rows.names]

    def count_tags(self, rows: NDArray[np.int64]) -> list[tuple[str, int]]:
        """Return the tags of some photographs with their numbers, the most frequent first."""
        given_NA = self.rows.presence_NA[rows] >= self.threshold
        return _rank_counts(given_NA.sum(axis=0), self.tag_names)

    def count_classes(self, rows: NDArray[np.int64]) -> list[tuple[str, int]]:
        """Return the predicted classes of some photographs with their numbers."""
        if not self.classes:
            return []
        predicted = self.rows.proba_NC[rows].argmax(axis=1)
        return _rank_counts(np.bincount(predicted, minlength=len(self.classes)), self.classes)

    def label(self, row: int) -> tuple[str, float] | None:
        """Return the predicted class and its probability; None if the model has no classes."""
        if not self.classes:
            return None
        best = int(self.rows.proba_NC[row].argmax())
        return self.classes[best], float(self.rows.proba_NC[row, best])

    def tags(self, row: int) -> list[tuple[str, float]]:
        """Return the tags of a photograph, the most probable first."""
        presence_A = self.rows.presence_NA[row]
        order = np.argsort(-presence_A, kind="stable")
        return [
            (self.tag_names[tag], float(presence_A[tag]))
            for tag in order
            if presence_A[tag] >= self.threshold
        ]

    def picture(self, row: int) -> bytes:
        """Return the thumbnail of a photograph, a JPEG file."""
        start = int(self.rows.lengths_N[:row].sum())
        return self.pictures.read(start, int(self.rows.lengths_N[row]))


def _having_word(names: Sequence[str], word: str) -> list[int]:
    """Return the numbers of the names that have a word; without any, those with a longer one."""
    parts = [normalize_tag(name).split() for name in names]
    whole = [number for number, each in enumerate(parts) if word in each]
    longer = (n for n, each in enumerate(parts) if any(part.startswith(word) for part in each))
    return whole or list(longer)


def _rank_counts(counts: NDArray[np.integer], names: Sequence[str]) -> list[tuple[str, int]]:
    order = np.argsort(-counts, kind="stable").tolist()
    return [(names[number], int(counts[number])) for number in order if counts[number]]


def read_description(folder: Path) -> dict[str, Any]:
    """Return the content of `index.json`, checked."""
    path = folder / DESCRIPTION
    try:
        description = json.loads(path.read_bytes())
    except OSError as error:
        raise StorageError(f"{folder} is no index: {path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path} is damaged: {error}.") from error
    if not isinstance(description, dict) or description.get("kind") != KIND:
        raise StorageError(f"{folder} is no index of supdocnade.")
    if description.get("format") != FORMAT:
        raise StorageError(
            f"{folder} has format {description.get('format')!r}, this version reads {FORMAT}."
        )
    if not all(isinstance(description.get(key), str) for key in ("model", "folder", "pictures")):
        raise StorageError(f"{path} is damaged: entries are missing.")
    return description
