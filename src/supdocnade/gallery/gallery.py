"""An index that is asked: photographs near to others in topic space, photographs with a tag.

An index is a folder. `index.json` says which model made it and what the other two files are;
`photographs.safetensors` has names, topic features and predictions; `pictures.bin` has small copies
of the photographs, JPEG files one after the other. The photographs themselves are not needed, and
never opened.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.gallery.pictures import PictureFile
from supdocnade.gallery.rows import Rows, model_fingerprint
from supdocnade.metrics import top_ranked
from supdocnade.scene.fitted import FittedScene
from supdocnade.storage import load_arrays

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
