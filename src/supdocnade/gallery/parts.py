"""What a run has read so far, in blocks on disk, so that it can go on after it was stopped."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np

from supdocnade.errors import SupDocNADEError
from supdocnade.gallery.gallery import Gallery
from supdocnade.gallery.rows import Rows
from supdocnade.scene.fitted import FittedScene
from supdocnade.storage import load_arrays, save_arrays


class Known(Protocol):
    """Photographs that were read, whose small copies are on disk."""

    @property
    def rows(self) -> Rows:
        """All about them."""
        ...

    def picture(self, row: int) -> bytes:
        """Return the small copy of one."""
        ...


class Part:
    """A block of photographs in a file."""

    def __init__(self, path: Path, rows: Rows):
        self.path, self.rows = path, rows

    def picture(self, row: int) -> bytes:
        """Return the small copy of a photograph."""
        start = int(self.rows.lengths_N[:row].sum())
        return _pictures(self)[start : start + int(self.rows.lengths_N[row])]


@lru_cache(maxsize=2)
def _pictures(part: Part) -> bytes:
    """Return the pictures of a part, not of a path: another run may have parts of the same name."""
    return load_arrays(part.path)[0]["pictures"].tobytes()


def save_part(folder: Path, fingerprint: str, rows: Rows, pictures: Sequence[bytes]) -> Part:
    """Keep a block of photographs."""
    path = folder / f"{len(list(folder.glob('*.safetensors'))):06d}.safetensors"
    joined = np.frombuffer(b"".join(pictures), np.uint8)
    described = {"model": fingerprint, "names": list(rows.names)}
    save_arrays(path, {**rows.arrays(), "pictures": joined}, described)
    return Part(path, rows)


def earlier(fitted: FittedScene, fingerprint: str, target: Path, partial: Path) -> Iterator[Known]:
    """Yield what earlier runs of the same model have read; what is damaged is read again."""
    with suppress(SupDocNADEError):
        yield Gallery.load(target, fitted)
    for path in sorted(partial.glob("*.safetensors")):
        with suppress(SupDocNADEError, KeyError):
            arrays, description = load_arrays(path)
            if description["model"] == fingerprint:
                rows = Rows.restored(arrays, description["names"], fitted)
                if int(rows.lengths_N.sum()) == len(arrays["pictures"]):
                    yield Part(path, rows)
