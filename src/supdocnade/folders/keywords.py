"""Tags of photographs from keywords that photo managers have stored.

A photograph `a.jpg` gets the keywords of the first place that has any: the XMP sidecar
`a.jpg.xmp` (darktable, digiKam), the sidecar `a.xmp` (Lightroom), the XMP packet inside the file,
the IPTC record inside the file. Keywords that `supdocnade tag` wrote are left out.
"""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

from joblib import Parallel, delayed

from supdocnade.errors import StorageError
from supdocnade.folders.metadata import MAX_NAME
from supdocnade.folders.xmp_packet import UnusableXMP, read_keywords
from supdocnade.images.decode import read_embedded_keywords
from supdocnade.images.source import is_remote, read_address
from supdocnade.runs import ProgressCallback, no_progress

READING_KEYWORDS = "reading keywords"
"""Stage reported to the progress callback."""

REMOTE_WORKERS = 16
"""Photographs on other file systems whose keywords are read at a time."""

_SIDECAR, _FILE = "XMP sidecars", "the files themselves"


Address = str | os.PathLike[str]


def read_tags(
    photographs: Sequence[Address],
    progress: ProgressCallback = no_progress,
    *,
    sidecars: Collection[str] | None = None,
) -> tuple[list[list[str] | None], list[str]]:
    """Return the keywords of photographs, None for those without any, and notes for the user.

    Parameters
    ----------
    photographs : paths, or addresses of files on other file systems.
    sidecars : paths of all sidecars that exist, as a set. By default, they are looked for.
    """

    def find(photograph: Address) -> tuple[list[str], str, list[str]]:
        return _find_keywords(photograph, sidecars)

    tags: list[list[str] | None] = []
    places: Counter[str] = Counter()
    problems: list[str] = []
    found: Iterable[tuple[list[str], str, list[str]]] = map(find, photographs)
    if any(map(is_remote, photographs)):  # Most of the time is spent waiting for answers.
        workers = Parallel(n_jobs=REMOTE_WORKERS, prefer="threads", return_as="generator")
        found = workers(map(delayed(find), photographs))
    for keywords, place, unread in found:
        problems += unread
        if keywords:
            places[place] += 1
        tags.append(keywords or None)
        progress(READING_KEYWORDS, len(tags), len(photographs))
    notes = []
    if places:
        counts = " and ".join(f"{count} in {name}" for name, count in sorted(places.items()))
        notes.append(f"keywords are used as tags; photographs with keywords: {counts}.")
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        notes.append(f"keywords are not read: {problems[0]}{more}.")
    return tags, notes


def read_all_keywords(photograph: Address) -> list[str]:
    """Return the keywords of a photograph from all places that `read_tags` looks at.

    Places that cannot be read are passed over.
    """
    found = (*_iter_sidecars(photograph, [], None), *_iter_embedded(photograph, []))
    return [word for keywords, _ in found for word in keywords]


def _find_keywords(
    photograph: Address, sidecars: Collection[str] | None
) -> tuple[list[str], str, list[str]]:
    """Return the keywords of a photograph, their place, and places that cannot be read."""
    problems: list[str] = []
    places = chain(
        _iter_sidecars(photograph, problems, sidecars), _iter_embedded(photograph, problems)
    )
    keywords, place = next((place for place in places if place[0]), ([], _FILE))
    return keywords, place, problems


def _iter_sidecars(
    photograph: Address, problems: list[str], sidecars: Collection[str] | None
) -> Iterator[tuple[list[str], str]]:
    """Yield the keywords in each sidecar and the kind of the place, in order of precedence."""
    name = os.fspath(photograph)
    for stem in (name, os.path.splitext(name)[0]):
        for ending in (".xmp", ".XMP"):
            sidecar = stem + ending
            exists = os.path.isfile(sidecar) if sidecars is None else sidecar in sidecars
            try:
                if exists:
                    yield _read_packet(read_address(sidecar)), _SIDECAR
            except UnusableXMP as error:
                problems.append(f"{sidecar}: {error}")
            except StorageError as error:
                problems.append(str(error).rstrip("."))


def _iter_embedded(photograph: Address, problems: list[str]) -> Iterator[tuple[list[str], str]]:
    """Yield the keywords in each part of the file and the kind of the place, in that order."""
    packet, keywords = read_embedded_keywords(photograph)
    try:
        if packet:
            yield _read_packet(packet), _FILE
    except UnusableXMP as error:
        problems.append(f"XMP in {os.fspath(photograph)}: {error}")
    yield keywords, _FILE


def _read_packet(content: bytes) -> list[str]:
    words = read_keywords(content, predicted=False)
    return [word for word in words if word.strip() and len(word) <= MAX_NAME]
