"""Building an index of photographs.

An unfinished run keeps blocks of photographs in `INDEX.partial` and resumes from them. Photographs
of an earlier index are read again only if their size or modification time has changed.
"""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from supdocnade.errors import StorageError, SupDocNADEError
from supdocnade.folders.photo_sources import find_sources, folder_of_place
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
from supdocnade.images.source import Source, is_remote, stamp_sources
from supdocnade.partial_folder import PartialFolder
from supdocnade.progress import no_progress
from supdocnade.run_options import RunOptions
from supdocnade.scene.prediction import FittedScene
from supdocnade.storage import load_arrays, save_arrays, write_atomically
from supdocnade.visual_words.cache import ImageWords
from supdocnade.visual_words.parallel import READING, SkippedImage, map_images


class Block:
    """Photographs that a run has read, stored in one file."""

    def __init__(self, path: Path, rows: Rows):
        self.path, self.rows = path, rows

    def picture(self, row: int) -> bytes:
        """Return the thumbnail of a photograph."""
        start = int(self.rows.lengths_N[:row].sum())
        return _pictures(self)[start : start + int(self.rows.lengths_N[row])]


@lru_cache(maxsize=2)
def _pictures(block: Block) -> bytes:
    # Cached by block, not by path: another run may have a block at the same path.
    return load_arrays(block.path)[0]["pictures"].tobytes()


def save_block(path: Path, fingerprint: str, rows: Rows, pictures: Sequence[bytes]) -> Block:
    """Write a block of photographs."""
    joined = np.frombuffer(b"".join(pictures), np.uint8)
    described = {"model": fingerprint, "names": list(rows.names)}
    save_arrays(path, {**rows.arrays(), "pictures": joined}, described)
    return Block(path, rows)


def load_earlier(
    fitted: FittedScene, fingerprint: str, target: Path, partial: Path
) -> Iterator[Gallery | Block]:
    """Yield the photographs that earlier runs of the same model have read, if undamaged."""
    with suppress(SupDocNADEError):
        yield Gallery.load(target, fitted)
    for path in sorted(partial.glob("*.safetensors")):
        with suppress(SupDocNADEError, KeyError):
            arrays, description = load_arrays(path)
            if description["model"] == fingerprint:
                rows = Rows.restored(arrays, description["names"], fitted)
                if int(rows.lengths_N.sum()) == len(arrays["pictures"]):
                    yield Block(path, rows)


BLOCK_SIZE = 128
"""Photographs per block: at most so many are read again when a run is resumed."""

SIDE, QUALITY = 360, 82
"""Longest side of a thumbnail in pixels, and its JPEG quality."""

Stamp = tuple[int, int]


Photograph = tuple[ImageWords, bytes]
"""Visual words and thumbnail."""


def build_gallery(
    fitted: FittedScene,
    photos: str | Path,
    output: Path,
    options: RunOptions = RunOptions(),
) -> tuple[Gallery, list[SkippedImage]]:
    """Index a folder of photographs; return the index and the skipped photographs.

    Parameters
    ----------
    fitted : the model.
    photos : folder of photographs, searched recursively, or another place (`photo_sources`).
    output : folder of the index; an existing one is replaced atomically.
    """
    sources = dict(find_sources(photos))
    stamps = dict(zip(sources, stamp_sources(sources.values()), strict=True))
    if not stamps:
        raise StorageError(f"{photos} must hold photographs, got none.")
    target = Path(os.path.realpath(output))
    _check_target(target, photos)
    partial = PartialFolder(target)
    partial.create()
    fingerprint = model_fingerprint(fitted)
    skipped: list[SkippedImage] = []
    with partial.lock():
        places: dict[str, tuple[Gallery | Block, int]] = {}
        for known in load_earlier(fitted, fingerprint, target, partial.folder):
            for row, name in enumerate(known.rows.names):
                if stamps.get(name) == tuple(known.rows.stamps_N2[row].tolist()):
                    places[name] = (known, row)
        paths = _unused_paths(partial.folder)
        todo = [name for name in stamps if name not in places]
        for read in _read(
            fitted, {name: sources[name] for name in todo}, len(places), options, skipped
        ):
            rows = _rows(fitted, read, stamps)
            pictures = [picture for _, picture in read.values()]
            block = save_block(next(paths), fingerprint, rows, pictures)
            places |= {name: (block, row) for row, name in enumerate(rows.names)}
        if not places:
            raise StorageError(f"{photos} has no photograph that can be read.")
        _write(target, photos, fingerprint, [places[name] for name in stamps if name in places])
        partial.discard()
    return Gallery.load(output, fitted), skipped


def _check_target(target: Path, photos: str | Path) -> None:
    """Raise unless the target is new or an index."""
    if not is_remote(photos) and target == Path(os.path.realpath(photos)):
        raise StorageError(f"{target} must not be the folder of the photographs.")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        try:
            read_description(target)
        except StorageError as error:
            raise StorageError(f"{target} must be new or an index: {error}") from error


def _unused_paths(folder: Path) -> Iterator[Path]:
    """Yield paths for new blocks."""
    first = max((int(path.stem) + 1 for path in folder.glob("*.safetensors")), default=0)
    return (folder / f"{number:06d}.safetensors" for number in count(first))


def _read(
    fitted: FittedScene,
    todo: dict[str, Source],
    n_kept: int,
    options: RunOptions,
    skipped: list[SkippedImage],
) -> Iterator[dict[str, Photograph]]:
    """Yield blocks of photographs as they are read; append unreadable ones to `skipped`."""
    block: dict[str, Photograph] = {}
    results = map_images(
        _ReadPhotograph(fitted),
        list(todo.values()),
        replace(options, on_error="skip", progress=no_progress),
    )
    for number, (name, result) in enumerate(zip(todo, results, strict=True), start=1):
        if isinstance(result, SkippedImage):
            skipped.append(result)
        else:
            block[name] = result
        if block and (len(block) == BLOCK_SIZE or number == len(todo)):
            yield block
            block = {}
        options.progress(READING, n_kept + number, n_kept + len(todo))


class _ReadPhotograph:
    """Returns the words and the thumbnail of a photograph; picklable, for worker processes."""

    def __init__(self, fitted: FittedScene):
        self.encoder = fitted.encoder

    def __call__(self, source: Any, name: str, number: int) -> tuple[ImageWords, bytes]:
        content = read_image_file(source)
        words = self.encoder.encode(content, name).words
        return words, make_thumbnail(content, SIDE, QUALITY, name)


def _rows(fitted: FittedScene, read: dict[str, Photograph], stamps: dict[str, Stamp]) -> Rows:
    topics_NH = fitted.topics_of([words for words, _ in read.values()])
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
    target: Path,
    photos: str | Path,
    fingerprint: str,
    places: Sequence[tuple[Gallery | Block, int]],
) -> None:
    """Write the index to a temporary folder and move it to its place."""
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
            "folder": folder_of_place(photos),
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
            # If anything, Ctrl-C too, stopped it between the two moves, the old index is restored.
            if old.exists() and not target.exists():
                os.replace(old, target)
            shutil.rmtree(fresh, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)
