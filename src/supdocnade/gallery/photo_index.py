"""An index that is asked: photographs near to others in topic space, photographs with a tag.

An index is a folder. `index.json` says which model made it and what the other two files are;
`photographs.safetensors` has names, topic features and predictions; `pictures.bin` has small copies
of the photographs, JPEG files one after the other. The photographs themselves are not needed, and
never opened.
"""

import hashlib
import json
import os
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_shape
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.metrics import top_ranked
from supdocnade.scene.prediction import FittedScene
from supdocnade.storage import Arrays, load_arrays

# What an index holds of photographs, one row each.

Floats = NDArray[np.float32]


def model_fingerprint(fitted: FittedScene) -> str:
    """Return a digest of everything that decides what a model says of a photograph."""
    digest = hashlib.blake2b(fitted.bag.encoder_.fingerprint().encode(), digest_size=16)
    network = fitted.topics.network_
    settings = (fitted.settings.damping, network.config, fitted.classes, fitted.tag_names)
    digest.update(repr((settings, fitted.choices)).encode())
    arrays = [tensor.detach().cpu().numpy() for tensor in network.state_dict().values()]
    if fitted.svm is not None:
        svm = fitted.svm
        arrays += [svm.mean_H, svm.scale_H, svm.support_SH, svm.coefficient_CS, svm.intercept_C]
        digest.update(repr(svm.gamma).encode())
    for array in (*arrays, fitted.tag_frequency_A):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """Some photographs, without their pictures."""

    names: tuple[str, ...]
    """Paths below the folder, with slashes."""
    stamps_N2: NDArray[np.int64]
    """Size of the file and time of its last change: whether it is still the same one."""
    topics_NH: Floats
    proba_NC: Floats
    """Probabilities of the classes."""
    presence_NA: Floats
    """Probabilities that the tags are there."""
    lengths_N: NDArray[np.int64]
    """Bytes of the small copies."""

    def __len__(self) -> int:
        """The number of photographs."""
        return len(self.names)

    def take(self, chosen: Sequence[int]) -> "Rows":
        """Return some of them."""
        rows = np.array(chosen, np.int64)
        return Rows(
            names=tuple(self.names[row] for row in chosen),
            **{name: getattr(self, name)[rows] for name in _ARRAYS},
        )

    @staticmethod
    def joined(parts: Sequence["Rows"]) -> "Rows":
        """Return those of several parts, at least one, one after the other."""
        return Rows(
            names=tuple(name for part in parts for name in part.names),
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS},
        )

    def arrays(self) -> Arrays:
        """Return all arrays by their names, to be stored."""
        return {name: getattr(self, name) for name in _ARRAYS}

    @classmethod
    def restored(cls, arrays: Arrays, names: Any, fitted: FittedScene) -> "Rows":
        """Return what was stored, or raise `InvalidArgument`."""
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InvalidArgument("its photographs have odd names")
        n, n_topics = len(names), fitted.topics.network_.config.n_topics
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
            raise InvalidArgument("its photographs are there twice, or without a picture")
        return cls(names=tuple(names), **{name: arrays[name] for name in _ARRAYS})


_ARRAYS = ("stamps_N2", "topics_NH", "proba_NC", "presence_NA", "lengths_N")


# Small copies of photographs in one file, read where they are asked for.

_BLOCK = 2**20


class PictureFile:
    """A file that stays open: whoever replaces it does not disturb those who read it."""

    def __init__(self, path: Path):
        try:
            self._file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror}.") from error
        weakref.finalize(self, os.close, self._file)

    def read(self, start: int, length: int) -> bytes:
        """Return a part of the file; threads may ask at the same time."""
        return os.pread(self._file, length, start)

    def digest(self) -> tuple[str, int]:
        """Return a digest of all of it, and its length."""
        digest, length = hashlib.blake2b(digest_size=16), 0
        while block := self.read(length, _BLOCK):
            digest.update(block)
            length += len(block)
        return digest.hexdigest(), length


def write_pictures(path: Path, pictures: Iterable[bytes]) -> str:
    """Write pictures one after the other; return a digest."""
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
    """The photographs of a folder, as a model sees them."""

    folder: str
    """Where they were, for people."""
    rows: Rows
    classes: tuple[str, ...]
    tag_names: tuple[str, ...]
    threshold: float
    """Of the probability from which on a photograph has a tag."""
    pictures: PictureFile
    version: str
    """Of the pictures: those of another index, which have the same numbers, have other addresses in
    a browser that keeps them."""

    def __len__(self) -> int:
        """The number of photographs."""
        return len(self.rows)

    @classmethod
    def load(cls, folder: str | Path, fitted: FittedScene) -> "Gallery":
        """Return an index; one that is damaged, or of another model, raises `StorageError`.

        Parameters
        ----------
        folder : of the index.
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
            threshold=0.5 if fitted.choices.tags is None else fitted.choices.tags.threshold,
            pictures=pictures,
            version=description["pictures"][:8],
        )

    def nearest(
        self, topics_H: NDArray[np.float32], top: int, *, but: int | None = None
    ) -> list[tuple[int, float]]:
        """Return the photographs nearest in topic space, with their distances.

        Parameters
        ----------
        topics_H : features of a photograph.
        top : how many.
        but : a photograph that is left out, since it is the one that is asked about.
        """
        away_N = np.linalg.norm(self.rows.topics_NH - topics_H, axis=1).astype(np.float64)
        if but is not None:
            away_N[but] = np.inf
        most = min(top, len(self) - (but is not None))
        return [(row, float(away_N[row])) for row in top_ranked(-away_N[None], most)[0].tolist()]

    def found(self, *, label: str | None = None, tag: str | None = None) -> NDArray[np.int64]:
        """Return the photographs of a class, with a tag, or both; the surest first.

        Parameters
        ----------
        label : that is predicted, one of `classes`.
        tag : whose probability reaches the threshold, one of `tag_names`.
        """
        fits_N, sure_N = np.ones(len(self), np.bool_), np.zeros(len(self))
        if label is not None:
            number = self.classes.index(label)
            fits_N &= self.rows.proba_NC.argmax(axis=1) == number
            sure_N += self.rows.proba_NC[:, number]
        if tag is not None:
            presence_N = self.rows.presence_NA[:, self.tag_names.index(tag)]
            fits_N &= presence_N >= self.threshold
            sure_N += presence_N
        order = np.argsort(-sure_N, kind="stable")
        return order[fits_N[order]]

    def label(self, row: int) -> tuple[str, float] | None:
        """Return the class of a photograph and its probability, if the model knows classes."""
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
        """Return the small copy of a photograph, a JPEG file."""
        start = int(self.rows.lengths_N[:row].sum())
        return self.pictures.read(start, int(self.rows.lengths_N[row]))


def read_description(folder: Path) -> dict[str, Any]:
    """Return what `index.json` says; anything else raises `StorageError`."""
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
        raise StorageError(f"{path} is damaged: it says too little.")
    return description
