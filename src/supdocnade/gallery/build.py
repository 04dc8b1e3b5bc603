"""Making an index: read photographs, in blocks that are kept, so that a run can go on.

Until it is done, a run has its blocks in `INDEX.partial` beside its output. Photographs that an
earlier run has read, of this index or of one that was stopped, are not read again while their size
and time are the same.
"""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import StorageError, SupDocNADEError
from supdocnade.folders.photo_folder import find_photographs
from supdocnade.gallery.photo_index import (
    DESCRIPTION,
    FORMAT,
    KIND,
    PICTURES,
    ROWS,
    Gallery,
    Rows,
    model_fingerprint,
    read_description,
    write_pictures,
)
from supdocnade.images.decode import make_thumbnail, read_image_file
from supdocnade.partial_folder import PartialFolder
from supdocnade.progress import no_progress
from supdocnade.run_options import RunOptions
from supdocnade.scene.prediction import FittedScene
from supdocnade.storage import load_arrays, save_arrays, write_atomically
from supdocnade.visual_words.encoder import count_words
from supdocnade.visual_words.parallel import READING, SkippedImage, over_images

# What a run has read so far, in blocks on disk, so that it can go on after it was stopped.


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


BLOCK = 128
"""Photographs that are kept together; so many are read again at most when a run was stopped."""

SIDE, QUALITY = 360, 82
"""Of a small copy: pixels along its longest side, and quality as JPEG."""

Stamp = tuple[int, int]


Photograph = tuple[NDArray[np.int32], bytes]
"""Visual words and thumbnail."""


def build_gallery(
    fitted: FittedScene,
    photos: Path,
    output: Path,
    options: RunOptions = RunOptions(),
) -> tuple[Gallery, list[SkippedImage]]:
    """Index a folder of photographs; return the index and what could not be read.

    Parameters
    ----------
    fitted : the model.
    photos : a folder, with all folders in it.
    output : the folder of the index; one that is there is replaced as a whole or not at all.
    """
    stamps = {path.as_posix(): _stamp(photos / path) for path in find_photographs(photos)}
    if not stamps:
        raise StorageError(f"{photos} must hold photographs, got none.")
    target = Path(os.path.realpath(output))
    _check_target(target, photos)
    partial = PartialFolder(target)
    partial.create()
    fingerprint = model_fingerprint(fitted)
    skipped: list[SkippedImage] = []
    with partial.lock():
        kept: dict[str, tuple[Known, int]] = {}
        for known in earlier(fitted, fingerprint, target, partial.folder):
            for row, name in enumerate(known.rows.names):
                if stamps.get(name) == tuple(known.rows.stamps_N2[row].tolist()):
                    kept[name] = (known, row)
        todo = [name for name in stamps if name not in kept]
        for read in _read(fitted, photos, todo, len(kept), options, skipped):
            rows = _rows(fitted, read, stamps)
            pictures = [picture for _, picture in read.values()]
            part = save_part(partial.folder, fingerprint, rows, pictures)
            kept |= {name: (part, row) for row, name in enumerate(rows.names)}
        places = [kept[name] for name in stamps if name in kept]
        if not places:
            raise StorageError(f"{photos} has no photograph that can be read.")
        _write(target, photos, fingerprint, places)
        partial.discard()
    return Gallery.load(output, fitted), skipped


def _check_target(target: Path, photos: Path) -> None:
    """Refuse a folder in which an index would destroy something else."""
    if target == Path(os.path.realpath(photos)):
        raise StorageError(f"{target} must not be the folder of the photographs.")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        try:
            read_description(target)
        except StorageError as error:
            raise StorageError(f"{target} must be new or an index: {error}") from error


def _stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except OSError:  # It has gone since it was listed; reading it says so.
        return (0, 0)
    return status.st_size, status.st_mtime_ns


def _read(
    fitted: FittedScene,
    photos: Path,
    todo: Sequence[str],
    n_kept: int,
    options: RunOptions,
    skipped: list[SkippedImage],
) -> Iterator[dict[str, Photograph]]:
    """Yield photographs in blocks as they are read; add those that cannot be to `skipped`."""
    block: dict[str, Photograph] = {}
    sources = [photos / name for name in todo]
    results = over_images(
        _ReadPhotograph(fitted), sources, replace(options, on_error="skip", progress=no_progress)
    )
    for number, (name, result) in enumerate(zip(todo, results, strict=True), start=1):
        if isinstance(result, SkippedImage):
            skipped.append(result)
        else:
            block[name] = result
        if block and (len(block) == BLOCK or number == len(todo)):
            yield block
            block = {}
        options.progress(READING, n_kept + number, n_kept + len(todo))


class _ReadPhotograph:
    """Returns the words and the thumbnail of a photograph; picklable, for worker processes."""

    def __init__(self, fitted: FittedScene):
        self.encoder = fitted.bag.encoder_

    def __call__(self, source: Any, name: str, number: int) -> tuple[NDArray[np.int32], bytes]:
        content = read_image_file(source, name)
        words = self.encoder.encode(content, name).ids
        return words, make_thumbnail(content, SIDE, QUALITY, name)


def _rows(fitted: FittedScene, read: dict[str, Photograph], stamps: dict[str, Stamp]) -> Rows:
    words = [words for words, _ in read.values()]
    topics_NH = fitted.hidden(count_words(words, fitted.bag.n_features_out_))
    proba_NC = fitted.class_proba(topics_NH) if fitted.classes else np.empty((len(read), 0))
    return Rows(
        names=tuple(read),
        stamps_N2=np.array([stamps[name] for name in read], np.int64),
        topics_NH=topics_NH,
        proba_NC=proba_NC.astype(np.float32),
        presence_NA=fitted.tag_proba(topics_NH).astype(np.float32),
        lengths_N=np.array([len(picture) for _, picture in read.values()], np.int64),
    )


def _write(
    target: Path, photos: Path, fingerprint: str, places: Sequence[tuple[Known, int]]
) -> None:
    """Write the index beside its place, and move it there."""
    fresh = target.with_name(f".{target.name}.new")
    old = target.with_name(f".{target.name}.old")
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        digest = write_pictures(fresh / PICTURES, (known.picture(row) for known, row in places))
        rows = Rows.joined([known.rows.take([row]) for known, row in places])
        save_arrays(fresh / ROWS, rows.arrays(), {"names": list(rows.names)})
        description = {
            "format": FORMAT,
            "kind": KIND,
            "model": fingerprint,
            "folder": os.path.abspath(photos),
            "pictures": digest,
        }
        write_atomically(fresh / DESCRIPTION, json.dumps(description, indent=1).encode())
        shutil.rmtree(old, ignore_errors=True)
        if target.exists():
            os.replace(target, old)
        os.replace(fresh, target)
    except OSError as error:
        raise StorageError(f"{target} cannot be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            # Whatever stopped it between the two moves, Ctrl-C too, the old index comes back.
            if old.exists() and not target.exists():
                os.replace(old, target)
            shutil.rmtree(fresh, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)
