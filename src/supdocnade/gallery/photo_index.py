"""The index of a folder of photographs: search by similarity, class and tag.

An index is a folder of three files: `index.json` names the model and holds checksums,
`photographs.safetensors` holds names, topic features and predictions, and `pictures.bin` holds the
thumbnails, concatenated JPEG files. The photographs themselves are never opened.
"""

import hashlib
import json
import os
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_shape
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.metrics import top_ranked
from supdocnade.storage import Arrays, load_arrays

if TYPE_CHECKING:
    from supdocnade.scene.prediction import FittedScene

Floats = NDArray[np.float32]


def model_fingerprint(fitted: "FittedScene") -> str:
    """Return a digest of everything that determines the predictions of a model."""
    digest = hashlib.blake2b(fitted.encoder.fingerprint().encode(), digest_size=16)
    network = fitted.network
    settings = (fitted.settings.damping, network.config, fitted.classes, fitted.tag_names)
    digest.update(repr((settings, fitted.choices)).encode())
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

    def found(self, *, label: str | None = None, tag: str | None = None) -> NDArray[np.int64]:
        """Return the photographs of a class, with a tag, or both, the most probable first.

        Parameters
        ----------
        label : predicted class, one of `classes`.
        tag : tag whose probability reaches the threshold, one of `tag_names`.
        """
        matches_N, score_N = np.ones(len(self), np.bool_), np.zeros(len(self))
        if label is not None:
            number = self.classes.index(label)
            matches_N &= self.rows.proba_NC.argmax(axis=1) == number
            score_N += self.rows.proba_NC[:, number]
        if tag is not None:
            presence_N = self.rows.presence_NA[:, self.tag_names.index(tag)]
            matches_N &= presence_N >= self.threshold
            score_N += presence_N
        order = np.argsort(-score_N, kind="stable")
        return order[matches_N[order]]

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
