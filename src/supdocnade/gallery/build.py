"""Building and updating an index of photographs.

A run adds blocks of new photographs, each in a transaction, so that a run that is killed is resumed
by the next one. Photographs are read again only if their size or modification time has changed.
"""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import StorageError
from supdocnade.folders.photo_sources import folder_of_place, kind_of_place, require_sources
from supdocnade.gallery.photo_index import (
    NAME,
    NEW_NAME,
    TEXT,
    Gallery,
    count_bytes,
    create_index,
    database_errors,
    open_index,
    put_in_place,
)
from supdocnade.images.decode import make_thumbnail, read_image_file
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

Key = tuple[str, str]
"""Absolute path of the folder of a photograph, and its path below it."""

Stamp = tuple[int, int]
"""Size and modification time of a file, by which changed files are found."""

Listed = dict[Key, tuple[Source, Stamp]]
_INSERT = f"INSERT INTO photographs VALUES (NULL{', ?' * 8})"


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
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{target} cannot be created: {error.strerror}.") from error
    with (
        lock_folder(target),
        closing(IndexWriter(fitted, target, start_over=start_over)) as writer,
    ):
        listed = _list_photographs([folder_of_place(place) for place in places], sources)
        whole = [absolute_address(each) for each in places if kind_of_place(each) == "folder"]
        n_dropped, n_before = writer.keep(listed, whole), len(writer.changed)
        skipped = _add_photographs(writer, fitted, listed, options)
        n_changed = n_before - len(writer.changed)
        n_added = len(listed) - len(writer.kept) - len(skipped) - n_changed
        changes = {"added": n_added, "changed": n_changed, "dropped": n_dropped}
        if len(skipped) == len(listed):
            if is_new:
                with suppress(OSError):  # Somebody else may have put a file there.
                    (target / LOCK).unlink()
                    target.rmdir()
            raise StorageError(
                f"{', '.join(map(str, places))} must hold a photograph that can be read, got none: "
                f"{skipped[0].reason}"
            )
        return writer.finish(fitted), skipped, changes


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


def _list_photographs(
    folders: Sequence[str], sources: Sequence[Sequence[tuple[str, Source]]]
) -> Listed:
    """Return all photographs of folders; one that is in two folders counts once."""
    found: dict[str, tuple[Key, Source]] = {}
    for folder, some in zip(folders, sources, strict=True):
        for name, source in some:
            found.setdefault(absolute_address(source_name(source)), ((folder, name), source))
    stamps = stamp_sources([source for _, source in found.values()])
    pairs = zip(found.values(), stamps, strict=True)
    return {key: (source, stamp) for (key, source), stamp in pairs}


class IndexWriter:
    """Changes an index, which stays as it is until photographs are added or `finish` is called.

    Attributes
    ----------
    kept : photographs that are in the index and need not be read.
    changed : those whose file has changed, until they are read again.
    """

    def __init__(self, fitted: FittedScene, folder: Path, *, start_over: bool = False):
        self.folder, self.model = folder, fitted.fingerprint()
        self.kept: set[Key] = set()
        self._connection: sqlite3.Connection | None = None
        self._gone: list[tuple[int]] = []
        self.changed: dict[Key, int] = {}
        if (folder / NAME).exists() and not start_over:
            self._connection = open_index(folder, self.model, write=True)

    def close(self) -> None:
        """Close the index, without changes since the last call of `add`."""
        if self._connection is not None:
            self._connection.close()

    def keep(self, listed: Listed, folders: Sequence[str]) -> int:
        """Drop the photographs of folders that are not listed; return their number.

        One with another size or time stays until `add`.
        """
        if self._connection is None:
            return 0
        n_dropped, paths = 0, {join_address(*key) for key in listed}
        within = tuple(join_address(folder, "x")[:-1] for folder in folders)
        query = "SELECT id, folder, name, size, time FROM photographs LIMIT ?"
        most = count_bytes(self.folder) // 16  # A forged file may repeat its pages.
        with database_errors(self.folder):
            for row, folder, name, *stamp in self._connection.execute(query, (most,)):
                key = folder.decode(*TEXT), name.decode(*TEXT)
                if any(
                    (key[0], each.as_posix()) in listed for each in PurePosixPath(key[1]).parents
                ):
                    continue  # Its folder is listed, since it cannot be read now.
                if key not in listed:
                    is_listed = join_address(*key) in paths  # In another folder.
                    if is_listed or join_address(*key).startswith(within):
                        self._gone.append((row,))
                        n_dropped += not is_listed
                elif listed[key][1] == tuple(stamp):
                    self.kept.add(key)
                else:
                    self.changed[key] = row
            self._connection.rollback()
        return n_dropped

    def add(
        self,
        keys: Sequence[Key],
        stamps: Sequence[Stamp],
        pictures: Sequence[bytes],
        topics_NH: NDArray[np.float32],
        proba_NP: NDArray[np.float32],
        *,
        is_complete: bool = False,
    ) -> None:
        """Add photographs to the index, and remove those that were dropped, in a transaction.

        The probabilities of a photograph are those of all classes and then of all tags.
        """
        is_new = self._connection is None
        self._gone += [(self.changed.pop(key),) for key in keys if key in self.changed]
        with database_errors(self.folder):
            connection = self._connection or create_index(self.folder, self.model)
            with connection:  # Commits, or rolls back after an error.
                connection.execute("BEGIN")
                connection.execute("UPDATE about SET is_complete = ?", (is_complete,))
                for table in ("photographs", "pictures"):
                    connection.executemany(f"DELETE FROM {table} WHERE id = ?", self._gone)
                pairs = zip(keys, stamps, pictures, topics_NH, proba_NP, strict=True)
                for (folder, name), stamp, picture, topics_H, proba_P in pairs:
                    words = "".join(f" {word}" for word in fold_words(name))
                    texts = (natural_key(join_address(folder, name))[0], folder, name, words)
                    values = (topics_H.astype("<f4").tobytes(), proba_P.astype("<f4").tobytes())
                    stored = (*(text.encode(*TEXT) for text in texts), *stamp, *values)
                    row = connection.execute(_INSERT, stored).lastrowid
                    connection.execute("INSERT INTO pictures VALUES (?, ?)", (row, picture))
            self._connection = put_in_place(self.folder, connection) if is_new else connection
        self._gone = []

    def finish(self, fitted: FittedScene) -> Gallery:
        """Mark the index as complete, and return it; nothing can be added afterwards."""
        if self._connection is None:
            raise StorageError(f"{self.folder} has no photographs.")
        with database_errors(self.folder):
            ((was_complete,),) = self._connection.execute("SELECT is_complete FROM about")
            if self._gone or not was_complete:
                nothing = np.empty((0, 0), np.float32)
                self.add([], [], [], nothing, nothing, is_complete=True)
            connection, self._connection = self._connection, None
            connection.execute("BEGIN")
        return Gallery(self.folder, connection, fitted)


def _add_photographs(
    writer: IndexWriter, fitted: FittedScene, listed: Listed, options: RunOptions
) -> list[SkippedImage]:
    """Read photographs that are not in the index, and add them; return the unreadable ones."""
    todo = [key for key in listed if key not in writer.kept]
    skipped: list[SkippedImage] = []
    block: dict[Key, tuple[ImageWords, bytes]] = {}

    def write() -> None:
        words, pictures = zip(*block.values(), strict=True)
        keys = list(block)
        block.clear()
        photographs = fitted.compare(words)
        proba_NP = np.hstack([fitted.class_proba(photographs), fitted.tag_proba(photographs)])
        stamps = [listed[key][1] for key in keys]
        writer.add(keys, stamps, pictures, photographs.topics_BH, proba_NP.astype(np.float32))

    sources = [listed[key][0] for key in todo]
    results = map_images(
        partial(_read_photograph, fitted.encoder),
        sources,
        replace(options, on_error="skip", progress=no_progress),
    )
    try:
        for number, (key, result) in enumerate(zip(todo, results, strict=True), start=1):
            if isinstance(result, SkippedImage):
                skipped.append(result)
            else:
                block[key] = result
            if len(block) == BLOCK_SIZE:
                write()
            options.progress(READING, len(writer.kept) + number, len(listed))
    finally:  # Also after Ctrl-C.
        if block:
            write()
    return skipped


def _read_photograph(
    encoder: ImageEncoder, source: Any, name: str, number: int
) -> tuple[ImageWords, bytes]:
    """Return the words and the thumbnail of a photograph."""
    content = read_image_file(source)
    return encoder.encode(content, name).words, make_thumbnail(content, SIDE, QUALITY, name)
