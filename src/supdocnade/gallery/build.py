"""Building and updating an index of photographs.

A run adds blocks of new photographs as segments, and each is in the index as soon as it is
written, so that a run that is killed is resumed by the next one. Photographs are read again only
if their size or modification time has changed.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from supdocnade.errors import StorageError
from supdocnade.folders.photo_sources import find_sources, folder_of_place, kind_of_place
from supdocnade.gallery.manifest import (
    Manifest,
    format_number,
    is_index,
    unused_number,
    write_manifest,
)
from supdocnade.gallery.neighbours import MIN_APPROXIMATE, write_approximate
from supdocnade.gallery.photo_index import (
    Gallery,
    Mask,
    deleted_path,
    model_fingerprint,
    model_widths,
    order_path,
    photo_address,
    read_deleted,
    read_index,
    read_order,
    sort_positions,
)
from supdocnade.gallery.segment import (
    Photograph,
    Segment,
    SegmentEntry,
    Stamp,
    merge_segments,
    write_block,
)
from supdocnade.images.decode import make_thumbnail, read_image_file
from supdocnade.images.source import (
    Source,
    absolute_address,
    is_remote,
    source_name,
    stamp_sources,
)
from supdocnade.progress import no_progress
from supdocnade.run_options import RunOptions
from supdocnade.scene.prediction import FittedScene
from supdocnade.storage import lock_folder, save_arrays
from supdocnade.text import fold_words
from supdocnade.visual_words.cache import ImageWords
from supdocnade.visual_words.parallel import READING, SkippedImage, map_images

BLOCK_SIZE = 128
"""Photographs per block. A run that was killed reads at most one block again."""

MERGED_AT_ONCE = 16
"""Segments of about the same size that are merged while a run adds photographs."""

MAX_DELETED = 0.25
"""Share of deleted photographs from which on a segment is written again."""

SIDE, QUALITY = 360, 82
"""Longest side of a thumbnail in pixels, and its JPEG quality."""

Key = tuple[int, str]
"""Number of the folder of a photograph, and its path below it."""


def build_gallery(
    fitted: FittedScene,
    photos: str | Path | Sequence[str | Path],
    output: Path,
    options: RunOptions = RunOptions(),
    *,
    start_over: bool = False,
) -> tuple[Gallery, list[SkippedImage], dict[str, int]]:
    """Index folders of photographs.

    An existing index of the same model is updated: photographs that are not in the folders are
    dropped from it. It stays as it is if a place has no photographs or if none can be read.

    Parameters
    ----------
    fitted : the model.
    photos : folder of photographs, searched recursively, or another place (`photo_sources`); or
        several.
    output : folder of the index.
    start_over : read all photographs again, and replace the index of another model.

    Returns
    -------
    gallery : the index.
    skipped : the photographs that cannot be read.
    dropped : the number of photographs dropped from each folder, by the path of the folder.
    """
    places = [photos] if isinstance(photos, str | Path) else list(dict.fromkeys(photos))
    sources = [_find_photographs(place) for place in places]
    target = Path(os.path.realpath(output))
    is_new = _check_target(target, places)
    skipped: list[SkippedImage] = []
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{target} cannot be created: {error.strerror}.") from error
    with lock_folder(target):
        writer = IndexWriter(fitted, target, start_over=start_over)
        numbers = writer.number_folders([folder_of_place(place) for place in places])
        listed = _list_photographs(sources, numbers)
        dropped = writer.keep(listed)
        todo = [key for key in listed if key not in writer.kept]
        for block in _read(fitted, listed, todo, options, skipped):
            writer.add(block)
        if not writer.manifest.segments:
            if is_new:
                shutil.rmtree(target, ignore_errors=True)
            raise StorageError(
                f"{', '.join(map(str, places))} must hold a photograph that can be read, got none: "
                f"{skipped[0].reason}"
            )
        writer.finish()
    return Gallery.load(output, fitted), skipped, dropped


def _find_photographs(place: str | Path) -> list[tuple[str, Source]]:
    """Return names and sources of the photographs of a place, which must have some."""
    is_local_file = kind_of_place(place) == "photograph" and not is_remote(place)
    if is_local_file and not os.path.exists(place):
        raise StorageError(f"{place} must be a place of photographs, but it does not exist.")
    found = find_sources(place)
    if not found:
        raise StorageError(f"{place} must hold photographs, got none.")
    return found


def _check_target(target: Path, places: Sequence[str | Path]) -> bool:
    """Return True if the target is new; raise unless it is new or an index."""
    if target in [Path(os.path.realpath(place)) for place in places if not is_remote(place)]:
        raise StorageError(f"{target} must not be the folder of the photographs.")
    is_new = not target.exists() or (target.is_dir() and not any(target.iterdir()))
    if not is_new and not is_index(target):
        raise StorageError(f"{target} must be new or an index of supdocnade.")
    return is_new


def _list_photographs(
    sources: Sequence[list[tuple[str, Source]]], numbers: Sequence[int]
) -> dict[Key, tuple[Source, Stamp]]:
    """Return sources and stamps of all photographs; one that is in two folders counts once.

    Parameters
    ----------
    sources : of every place, names and sources of its photographs.
    numbers : numbers of the folders of the places.
    """
    found: dict[Key, Source] = {}
    seen: set[str] = set()
    for number, some in zip(numbers, sources, strict=True):
        for name, source in some:
            if len(sources) > 1:
                full = absolute_address(source_name(source))
                if full in seen:
                    continue
                seen.add(full)
            found[number, name] = source
    stamps = stamp_sources(found.values())
    return {
        key: (source, stamp) for (key, source), stamp in zip(found.items(), stamps, strict=True)
    }


class IndexWriter:
    """Changes an index; every change leaves a consistent index on disk.

    An index that exists is first changed on disk when photographs are added or by `finish`.

    Attributes
    ----------
    manifest : contents of the index.
    kept : photographs that are in the index and need not be read.
    """

    def __init__(self, fitted: FittedScene, folder: Path, *, start_over: bool = False):
        self.folder, self.widths = folder, model_widths(fitted)
        self.kept: set[Key] = set()
        self.manifest = Manifest(model=model_fingerprint(fitted))
        self._segments: dict[str, tuple[Segment, Mask | None]] = {}
        self._numbers = count(unused_number(folder))
        if not is_index(folder):
            self._commit()
        elif not start_over:
            self._open_all(read_index(folder, fitted))

    def _open_all(self, earlier: Manifest) -> None:
        """Continue an index; photographs in damaged files are read again."""
        for entry in earlier.segments:
            with suppress(StorageError):
                self._open(entry)
        intact = tuple(each for each in earlier.segments if each.name in self._segments)
        self.manifest = replace(earlier, segments=intact, order=None)
        with suppress(StorageError):
            if earlier.order is not None and intact == earlier.segments:
                read_order(self.folder, earlier.order)
                self.manifest = earlier

    def _commit(self, **changes: Any) -> None:
        self.manifest = replace(self.manifest, **changes)
        write_manifest(self.folder, self.manifest)
        names = {each.name for each in self.manifest.segments}
        self._segments = {name: self._segments[name] for name in names & self._segments.keys()}

    def _open(self, entry: SegmentEntry) -> tuple[Segment, Mask | None]:
        """Return a segment, and which of its rows are deleted; it is opened once."""
        if entry.name not in self._segments:
            segment = Segment(self.folder, entry, self.widths)
            self._segments[entry.name] = segment, read_deleted(self.folder, entry)
        return self._segments[entry.name]

    def _next_name(self) -> str:
        return format_number(next(self._numbers))

    def number_folders(self, folders: Sequence[str]) -> list[int]:
        """Return the numbers of folders in the index; new ones get new numbers."""
        known = list(self.manifest.folders)
        known += [folder for folder in dict.fromkeys(folders) if folder not in known]
        self.manifest = replace(self.manifest, folders=tuple(known))
        return [known.index(folder) for folder in folders]

    def keep(self, listed: dict[Key, tuple[Source, Stamp]]) -> dict[str, int]:
        """Mark all photographs as deleted but those listed with the same stamp.

        Returns
        -------
        The number of photographs of each folder that are not listed, by the path of the folder.
        """
        entries, gone = [], list[Key]()
        for entry in self.manifest.segments:
            segment, was_deleted_N = self._open(entry)
            is_deleted_N = np.zeros(len(segment), np.bool_)
            for row, (folder, name, stamp) in enumerate(segment.keys()):
                if was_deleted_N is not None and was_deleted_N[row]:
                    is_deleted_N[row] = True
                elif (folder, name) not in listed:
                    is_deleted_N[row] = True
                    gone.append((folder, name))
                else:
                    is_deleted_N[row] = listed[folder, name][1] != stamp
            if is_deleted_N.all():
                continue
            rows = np.flatnonzero(is_deleted_N)
            if len(rows) > (0 if was_deleted_N is None else was_deleted_N.sum()):
                deleted = self._next_name()
                save_arrays(deleted_path(self.folder, deleted), {"rows": rows}, {})
                entry = replace(entry, deleted=deleted)
                self._segments[entry.name] = segment, is_deleted_N
            kept_N = ~is_deleted_N
            self.kept |= {
                each[:2] for each, kept in zip(segment.keys(), kept_N, strict=True) if kept
            }
            entries.append(entry)
        if entries != list(self.manifest.segments):
            self.manifest = replace(self.manifest, segments=tuple(entries), order=None)
        return self._count_dropped(gone, listed)

    def _count_dropped(self, gone: Sequence[Key], listed: Iterable[Key]) -> dict[str, int]:
        """Return how many photographs of each folder are gone.

        A photograph is not gone if it is now listed in another folder.
        """
        folders = self.manifest.folders
        if not gone:
            return {}
        still = {photo_address(folders[folder], name) for folder, name in listed}
        return Counter(
            folders[folder]
            for folder, name in gone
            if photo_address(folders[folder], name) not in still
        )

    def add(self, photographs: Sequence[Photograph]) -> None:
        """Add photographs to the index."""
        entry = write_block(self.folder, self._next_name(), photographs, self.widths)
        self._commit(segments=(*self.manifest.segments, entry), order=None)
        tier = [each for each in self.manifest.segments if _tier(each) == _tier(entry)]
        while len(tier) >= MERGED_AT_ONCE:
            merged = self._merge(tier)
            tier = [each for each in self.manifest.segments if _tier(each) == _tier(merged)]

    def finish(self) -> None:
        """Merge small segments, and write the order of the photographs, unless all is done."""
        if self.manifest.order is not None:
            return
        entries = self.manifest.segments
        smallest = [entries[number] for number in choose_segments([each.rows for each in entries])]
        for entry in entries:
            is_deleted_N = self._open(entry)[1]
            share = 0.0 if is_deleted_N is None else is_deleted_N.mean()
            if share > MAX_DELETED and entry not in smallest:
                self._merge([entry])
        if smallest:
            self._merge(smallest)
        opened = [self._open(entry) for entry in self.manifest.segments]
        segments = self.manifest.segments
        if sum(entry.rows for entry in segments) >= MIN_APPROXIMATE:
            segments = tuple(
                replace(entry, approximate=entry.approximate or write_approximate(segment))
                for entry, (segment, _) in zip(segments, opened, strict=True)
            )
        name = self._next_name()
        save_arrays(order_path(self.folder, name), {"positions": sort_positions(opened)}, {})
        self._commit(segments=segments, order=name)

    def _merge(self, entries: Sequence[SegmentEntry]) -> SegmentEntry:
        """Replace segments by one without the deleted photographs; return its entry."""
        parts = []
        for segment, is_deleted_N in map(self._open, entries):
            kept_N = np.ones(len(segment), np.bool_) if is_deleted_N is None else ~is_deleted_N
            parts.append((segment, np.flatnonzero(kept_N)))
        merged = merge_segments(self.folder, self._next_name(), parts, self.widths)
        others = [each for each in self.manifest.segments if each not in entries]
        self._commit(segments=(*others, merged), order=None)
        return merged


def _tier(entry: SegmentEntry) -> int:
    """Return a number that is equal for segments of about the same size."""
    return int(np.log2(max(entry.rows / BLOCK_SIZE, 1)) / np.log2(MERGED_AT_ONCE) + 1e-9)


def choose_segments(sizes: Sequence[int]) -> list[int]:
    """Return the segments to merge, so that each has more photographs than all smaller ones.

    There are then few segments, and merging after every run costs a photograph few copies.

    >>> choose_segments([1000, 100, 60, 50])
    [3, 2, 1]
    >>> choose_segments([1000, 100, 60])
    []
    """
    order = sorted(range(len(sizes)), key=lambda number: (sizes[number], -number))
    chosen, total = 0, 0
    for place, number in enumerate(order):
        if place and sizes[number] <= total:
            chosen = place + 1
        total += sizes[number]
    return order[:chosen]


def _read(
    fitted: FittedScene,
    listed: dict[Key, tuple[Source, Stamp]],
    todo: Sequence[Key],
    options: RunOptions,
    skipped: list[SkippedImage],
) -> Iterator[list[Photograph]]:
    """Yield blocks of photographs as they are read; append unreadable ones to `skipped`."""
    block: dict[Key, tuple[ImageWords, bytes]] = {}
    sources = [listed[key][0] for key in todo]
    n_kept = len(listed) - len(todo)
    results = map_images(
        _ReadPhotograph(fitted), sources, replace(options, on_error="skip", progress=no_progress)
    )
    try:
        for number, (key, result) in enumerate(zip(todo, results, strict=True), start=1):
            if isinstance(result, SkippedImage):
                skipped.append(result)
            else:
                block[key] = result
            if len(block) == BLOCK_SIZE:
                full, block = block, {}
                yield _predict(fitted, full, listed)
            options.progress(READING, n_kept + number, len(listed))
    except KeyboardInterrupt:
        if block:
            yield _predict(fitted, block, listed)
        raise
    if block:
        yield _predict(fitted, block, listed)


class _ReadPhotograph:
    """Returns the words and the thumbnail of a photograph; picklable, for worker processes."""

    def __init__(self, fitted: FittedScene):
        self.encoder = fitted.encoder

    def __call__(self, source: Any, name: str, number: int) -> tuple[ImageWords, bytes]:
        content = read_image_file(source)
        words = self.encoder.encode(content, name).words
        return words, make_thumbnail(content, SIDE, QUALITY, name)


def _predict(
    fitted: FittedScene,
    block: dict[Key, tuple[ImageWords, bytes]],
    listed: dict[Key, tuple[Source, Stamp]],
) -> list[Photograph]:
    """Return photographs with their features and predictions."""
    topics_NH = fitted.topics_of([words for words, _ in block.values()])
    proba_NC = fitted.class_proba(topics_NH)
    presence_NA = fitted.tag_proba(topics_NH)
    return [
        Photograph(
            folder=key[0],
            name=key[1],
            words="".join(f" {word}" for word in fold_words(key[1])),
            stamp=listed[key][1],
            topics_H=topics_NH[row],
            proba_C=proba_NC[row].astype(np.float32),
            presence_A=presence_NA[row].astype(np.float32),
            picture=picture,
        )
        for row, (key, (_, picture)) in enumerate(block.items())
    ]
