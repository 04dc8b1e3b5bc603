"""Building and updating an index of photographs.

A run adds blocks of new photographs, each in a transaction, so that a run that is killed is resumed
by the next one. Photographs are read again only if they or their sidecars have changed.
"""

import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import StorageError
from supdocnade.folders.photo_sources import kind_of_place, require_sources
from supdocnade.gallery.photo_index import (
    NAME,
    NEW_NAME,
    TEXT,
    Gallery,
    create_index,
    database_errors,
    open_index,
    put_in_place,
    read_photographs,
)
from supdocnade.images.decode import make_thumbnail, read_image_file
from supdocnade.images.details import Details, read_details, sidecar_paths
from supdocnade.images.reading import READING, SkippedImage, map_images
from supdocnade.images.source import (
    Source,
    absolute_address,
    is_remote,
    join_address,
    source_name,
    stamp_sources,
)
from supdocnade.runs import RunOptions, no_progress
from supdocnade.scene.prediction import FittedScene
from supdocnade.storage import LOCK, lock_folder
from supdocnade.text import fold_words, natural_key
from supdocnade.visual_words.encoder import ImageEncoder, ImageWords

BLOCK_SIZE = 128
"""Photographs per block. A run that was killed reads at most one block again."""

SIDE, QUALITY = 640, 80
"""Longest side of a thumbnail in pixels, and its JPEG quality."""

File = tuple[str, int, int]
"""Name of a photograph below its folder, size of its file, and time of the last change of the file
or of its sidecar."""

Listed = dict[str, tuple[Source, File]]
"""Photographs with their absolute paths or addresses."""

_INSERT = f"INSERT OR REPLACE INTO photographs VALUES (NULL{', ?' * 11})"


def build_gallery(
    fitted: FittedScene,
    photos: str | Path | Sequence[str | Path],
    output: Path,
    options: RunOptions = RunOptions(),
    *,
    start_over: bool = False,
) -> tuple[Gallery, list[SkippedImage], dict[str, int]]:
    """Index folders of photographs.

    An existing index of the same model is updated: photographs of other folders and those that
    cannot be read now stay in it, those that are gone from these folders are dropped. It stays as
    it is if a place has no photographs or if none can be read.

    Parameters
    ----------
    fitted : the model.
    photos : folder of photographs, searched recursively, or another place (`photo_sources`); or
        several.
    output : folder of the index.
    start_over : make the index of these folders alone, also if there is one of another model.

    Returns
    -------
    gallery : the index.
    skipped : the photographs that cannot be read.
    changes : the numbers of photographs that were "added", "changed" and "dropped".
    """
    places = [photos] if isinstance(photos, str | Path) else list(dict.fromkeys(photos))
    sources = [require_sources(place) for place in places]
    target = Path(os.path.realpath(output))
    is_new = _check_target(target, places)
    with database_errors(target):
        target.mkdir(parents=True, exist_ok=True)
    with (
        lock_folder(target),
        closing(IndexWriter(fitted, target, start_over=start_over)) as writer,
    ):
        listed, stored = _list_photographs(sources), writer.stored()
        gone = _find_gone(stored, listed, places)
        todo = [
            path for path in listed if path not in stored or stored[path][1:] != listed[path][1][1:]
        ]
        skipped = _add_photographs(writer, fitted, listed, todo, options)
        if len(skipped) == len(listed):
            if is_new:
                with suppress(OSError):  # Somebody else may have put a file there.
                    (target / LOCK).unlink()
                    target.rmdir()
            raise StorageError(
                f"{', '.join(map(str, places))} must hold a photograph that can be read, got none: "
                f"{next(iter(skipped.values())).reason}"
            )
        gallery = writer.finish(fitted, [stored[path][0] for path in gone])
    n_changed = sum(path in stored and path not in skipped for path in todo)
    n_added = len(todo) - len(skipped) - n_changed
    changes = {"added": n_added, "changed": n_changed, "dropped": len(gone)}
    return gallery, list(skipped.values()), changes


def _check_target(target: Path, places: Sequence[str | Path]) -> bool:
    """Return True if the target is new; raise unless it is new or an index."""
    if target in [Path(os.path.realpath(place)) for place in places if not is_remote(place)]:
        raise StorageError(f"{target} must not be the folder of the photographs.")
    names = os.listdir(target) if target.is_dir() else [NAME] if target.exists() else []
    # A run that was killed early leaves its lock and a part of an index.
    is_new = all(name == LOCK or name.startswith(NEW_NAME) for name in names)
    if not is_new and not (target / NAME).exists():
        raise StorageError(f"{target} must be new or an index of supdocnade.")
    return is_new


def _list_photographs(places: Sequence[Sequence[tuple[str, Source]]]) -> Listed:
    """Return all photographs of some places; one that is in two places counts once."""
    found = {
        absolute_address(source_name(source)): (name, source)
        for photographs in places
        for name, source in photographs
    }
    stamps = stamp_sources([source for _, source in found.values()])
    pairs = zip(found.items(), stamps, strict=True)
    return {
        path: (source, (name, size, max(time, _sidecar_time(source))))
        for (path, (name, source)), (size, time) in pairs
    }


def _sidecar_time(source: Source) -> int:
    """Return the modification time of the sidecars of a photograph, 0 if it has none."""
    times = [0]
    for path in sidecar_paths(source):
        with suppress(OSError):
            times.append(os.stat(path).st_mtime_ns)
    return max(times)


def _find_gone(stored: Iterable[str], listed: Listed, places: Sequence[str | Path]) -> list[str]:
    """Return the stored photographs of folders among some places that are not listed.

    A photograph stays if a folder that contains it is listed, since that cannot be read now.
    """
    folders = [absolute_address(each) for each in places if kind_of_place(each) == "folder"]
    within = tuple(join_address(folder, "x")[:-1] for folder in folders)
    return [
        path
        for path in stored
        if path not in listed
        and path.startswith(within)
        and not any(str(folder) in listed for folder in PurePath(path).parents)
    ]


class IndexWriter:
    """Changes an index, which stays as it is until `add` or `finish` is called."""

    def __init__(self, fitted: FittedScene, folder: Path, *, start_over: bool = False):
        self.folder, self.model = folder, fitted.fingerprint()
        self._connection: sqlite3.Connection | None = None
        if (folder / NAME).exists() and not start_over:
            self._connection = open_index(folder, self.model, write=True)

    def close(self) -> None:
        """Close the index, without the changes of an unfinished call."""
        if self._connection is not None:
            self._connection.close()

    def stored(self) -> dict[str, tuple[int, int, int]]:
        """Return the row, the size and the time of every photograph in the index, by its path."""
        if self._connection is None:
            return {}
        with database_errors(self.folder):
            rows = read_photographs(self._connection, self.folder, "path", "id", "size", "time")
            stored = {path.decode(*TEXT): (row, size, time) for path, row, size, time in rows}
            self._connection.rollback()
        return stored

    def add(
        self,
        paths: Sequence[str],
        files: Sequence[File],
        pictures: Sequence[bytes],
        details: Sequence[Details],
        topics_NH: NDArray[np.float32],
        proba_NP: NDArray[np.float32],
        unfamiliar_N: NDArray[np.bool_],
    ) -> None:
        """Add photographs to the index, or replace them, in a transaction.

        The probabilities of a photograph are those of all classes and then of all tags.
        """
        is_new = self._connection is None
        with database_errors(self.folder):
            connection = self._connection or create_index(self.folder, self.model)
            with connection:  # Commits, or rolls back after an error.
                connection.execute("BEGIN")
                rows = zip(
                    *(paths, files, pictures, details, topics_NH, proba_NP, unfamiliar_N.tolist()),
                    strict=True,
                )
                for path, (name, *stamp), picture, about, topics_H, proba_P, unlike in rows:
                    words = "".join(f" {word}" for word in fold_words(name))
                    texts = (natural_key(path)[0], path, words)
                    values = (topics_H.astype("<f4").tobytes(), proba_P.astype("<f4").tobytes())
                    taken, camera, rating = about
                    found = (int(unlike), taken.encode(), camera.encode(*TEXT), rating)
                    stored = (*(text.encode(*TEXT) for text in texts), *stamp, *values, *found)
                    row = connection.execute(_INSERT, stored).lastrowid
                    connection.execute("INSERT INTO pictures VALUES (?, ?)", (row, picture))
            self._connection = put_in_place(self.folder, connection) if is_new else connection

    def finish(self, fitted: FittedScene, gone: Sequence[int] = ()) -> Gallery:
        """Drop the photographs of some rows and return the index, which is then not changed."""
        connection, self._connection = self._connection, None
        assert connection is not None
        with database_errors(self.folder):
            with connection:
                connection.execute("BEGIN")
                query = "DELETE FROM photographs WHERE id = ?"
                connection.executemany(query, [(row,) for row in gone])
            connection.execute("BEGIN")
        return Gallery(self.folder, connection, fitted)


def _add_photographs(
    writer: IndexWriter, fitted: FittedScene, listed: Listed, todo: list[str], options: RunOptions
) -> dict[str, SkippedImage]:
    """Read photographs and add them; return the unreadable ones."""
    skipped: dict[str, SkippedImage] = {}
    block: dict[str, tuple[ImageWords, bytes, Details]] = {}

    def write() -> None:
        words, pictures, details = zip(*block.values(), strict=True)
        paths = list(block)
        block.clear()
        photographs = fitted.compare(words)
        found = [fitted.class_proba(photographs), fitted.tag_proba(photographs)]
        proba_NP = np.hstack(found).astype(np.float32)
        files = [listed[path][1] for path in paths]
        topics_NH = photographs.topics_BH
        unlike_N = fitted.is_unfamiliar(topics_NH)
        writer.add(paths, files, pictures, details, topics_NH, proba_NP, unlike_N)

    results = map_images(
        partial(_read_photograph, fitted.encoder),
        [listed[path][0] for path in todo],
        replace(options, on_error="skip", progress=no_progress),
    )
    n_kept = len(listed) - len(todo)
    try:
        for number, (path, result) in enumerate(zip(todo, results, strict=True), start=1):
            if isinstance(result, SkippedImage):
                skipped[path] = result
            else:
                block[path] = result
            if len(block) == BLOCK_SIZE:
                write()
            options.progress(READING, n_kept + number, len(listed))
    finally:  # Also after Ctrl-C.
        if block:
            write()
    return skipped


def _read_photograph(
    encoder: ImageEncoder, source: Any, name: str, number: int
) -> tuple[ImageWords, bytes, Details]:
    """Return the words, the thumbnail and the details of a photograph."""
    content = read_image_file(source)
    picture = make_thumbnail(content, SIDE, QUALITY, name)
    return encoder.encode(content, name).words, picture, read_details(source, content)
