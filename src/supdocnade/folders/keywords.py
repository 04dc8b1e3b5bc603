"""Tags of photographs from keywords that photo managers have stored.

The keywords of a photograph `a.jpg` are those of the first that has any: the XMP sidecar
`a.jpg.xmp` (darktable, digiKam), the sidecar `a.xmp` (Lightroom), the XMP packet inside the file,
the IPTC record inside the file. Keywords that `predict --write-xmp` wrote are left out.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from supdocnade.folders.xmp_packet import UnusableXMP, read_keywords
from supdocnade.images.embedded_keywords import read_embedded_keywords
from supdocnade.progress import ProgressCallback, no_progress

READING_KEYWORDS = "reading keywords"
"""Stage reported to the progress callback."""

_SIDECAR, _FILE = "XMP sidecars", "the files themselves"


def read_tags(
    photographs: Sequence[Path], progress: ProgressCallback = no_progress
) -> tuple[list[list[str] | None], list[str]]:
    """Return the keywords of photographs, None for those without any, and notes for the user."""
    tags: list[list[str] | None] = []
    sources: Counter[str] = Counter()
    problems: list[str] = []
    for number, path in enumerate(photographs):
        keywords, source = _find_keywords(path, problems)
        if keywords:
            sources[source] += 1
        tags.append(keywords or None)
        progress(READING_KEYWORDS, number + 1, len(photographs))
    notes = []
    if sources:
        places = " and ".join(f"{count} in {name}" for name, count in sorted(sources.items()))
        notes.append(f"keywords are used as tags; photographs with keywords: {places}.")
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        notes.append(f"keywords are not read: {problems[0]}{more}.")
    return tags, notes


def read_all_keywords(photograph: Path) -> list[str]:
    """Return the keywords of a photograph from all places that `read_tags` looks at.

    Places that cannot be read are passed over.
    """
    return [word for keywords, _ in _iter_keywords(photograph, []) for word in keywords]


def _find_keywords(photograph: Path, problems: list[str]) -> tuple[list[str], str]:
    """Return the keywords of a photograph and their source; append to `problems`."""
    places = _iter_keywords(photograph, problems)
    return next((place for place in places if place[0]), ([], _FILE))


def _iter_keywords(photograph: Path, problems: list[str]) -> Iterator[tuple[list[str], str]]:
    """Yield the keywords in each place and its source, in order of precedence."""
    for name in (photograph.name, photograph.stem):
        for ending in (".xmp", ".XMP"):
            sidecar = photograph.with_name(f"{name}{ending}")
            try:
                if sidecar.is_file():
                    yield _read_packet(sidecar.read_bytes()), _SIDECAR
            except (OSError, UnusableXMP) as error:
                problems.append(f"{sidecar}: {getattr(error, 'strerror', None) or error}")
    packet, keywords = read_embedded_keywords(photograph)
    try:
        if packet:
            yield _read_packet(packet), _FILE
    except UnusableXMP as error:
        problems.append(f"XMP in {photograph}: {error}")
    yield keywords, _FILE


def _read_packet(content: bytes) -> list[str]:
    return [word for word in read_keywords(content, predicted=False) if word.strip()]
