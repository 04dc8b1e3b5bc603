"""Tags of photographs from keywords that photo managers have stored.

The keywords of a photograph `a.jpg` are those of the first that has any: the XMP sidecar
`a.jpg.xmp` (darktable, digiKam), the sidecar `a.xmp` (Lightroom), the XMP packet inside the file,
the IPTC record inside the file. Keywords that `predict --write-xmp` wrote are left out.
"""

import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from supdocnade.errors import StorageError
from supdocnade.folders.xmp_packet import UnusableXMP, read_keywords
from supdocnade.images.embedded_keywords import read_embedded_keywords
from supdocnade.images.source import is_remote, read_address
from supdocnade.progress import ProgressCallback, no_progress

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
    sidecars : paths of all sidecars that exist, as a set; None: they are looked for.
    """
    tags: list[list[str] | None] = []
    places: Counter[str] = Counter()
    problems: list[str] = []
    # On another file system most of the time is spent waiting for answers.
    n_workers = REMOTE_WORKERS if any(map(is_remote, photographs)) else 1
    with ThreadPoolExecutor(n_workers) as workers:
        run = map if n_workers == 1 else workers.map
        for found in run(lambda photograph: _find_keywords(photograph, sidecars), photographs):
            keywords, place, unread = found
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
    return [word for keywords, _ in _iter_keywords(photograph, [], None) for word in keywords]


def _find_keywords(
    photograph: Address, sidecars: Collection[str] | None
) -> tuple[list[str], str, list[str]]:
    """Return the keywords of a photograph, their place, and places that cannot be read."""
    problems: list[str] = []
    places = _iter_keywords(photograph, problems, sidecars)
    keywords, place = next((place for place in places if place[0]), ([], _FILE))
    return keywords, place, problems


def _iter_keywords(
    photograph: Address, problems: list[str], sidecars: Collection[str] | None
) -> Iterator[tuple[list[str], str]]:
    """Yield the keywords in each place and its kind, in order of precedence."""
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
    packet, keywords = read_embedded_keywords(photograph)
    try:
        if packet:
            yield _read_packet(packet), _FILE
    except UnusableXMP as error:
        problems.append(f"XMP in {name}: {error}")
    yield keywords, _FILE


def _read_packet(content: bytes) -> list[str]:
    return [word for word in read_keywords(content, predicted=False) if word.strip()]
