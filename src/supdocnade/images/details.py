"""The time, the camera and the rating of a photograph, from EXIF data and XMP."""

import io
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any

from supdocnade.errors import StorageError
from supdocnade.images.decode import ignore_pillow_warnings, open_image
from supdocnade.images.source import Source, is_local_file, source_name
from supdocnade.text import clean_name, read_file

Details = tuple[str, str, int]
"""Time as 2024-07-21T14:03:00, camera, and rating from 1 to 5; "" and 0 if they are not known."""

MAX_CAMERA, MAX_RATING = 60, 5

_EXIF_IFD, _TAKEN, _CHANGED, _MAKE, _MODEL, _RATING = 0x8769, 0x9003, 0x0132, 0x010F, 0x0110, 0x4746
_XMP_TAKEN = re.compile(
    rb"""(?:exif:DateTimeOriginal|photoshop:DateCreated|xmp:CreateDate)(?:=["']|>)\s*([-\d:T]{10,19})"""
)
_XMP_RATING = re.compile(rb"""xmp:Rating(?:=["']|>)\s*([1-5])\b""")


def sidecar_paths(source: Source) -> list[str]:
    """Return the paths that an XMP sidecar of a photograph may have; none unless it is local."""
    if not is_local_file(source):
        return []
    path = source_name(source)
    return [f"{path}.xmp", f"{os.path.splitext(path)[0]}.xmp"]


def read_details(source: Source, content: bytes) -> Details:
    """Return what a photograph and its sidecar tell; data that cannot be read are ignored.

    Parameters
    ----------
    source : the photograph.
    content : its file, or the preview of a RAW file.
    """
    tags, embedded = _read_header(content)
    packets = [*_read_sidecars(source), embedded]
    times = [str(tags.get(tag, "")) for tag in (_TAKEN, _CHANGED)]
    times += [found[1].decode() for each in packets if (found := _XMP_TAKEN.search(each))]
    ratings = [int(found[1]) for each in packets if (found := _XMP_RATING.search(each))]
    rating = ratings[0] if ratings else tags.get(_RATING, 0)
    make, model = (str(tags.get(tag, "")).strip("\0 ") for tag in (_MAKE, _MODEL))
    if not model.lower().startswith(make.lower().partition(" ")[0]):
        model = f"{make} {model}"
    return (
        next(filter(None, map(_parse_time, times)), ""),
        clean_name(model)[:MAX_CAMERA].strip() if model.strip() else "",
        rating if isinstance(rating, int) and 0 < rating <= MAX_RATING else 0,
    )


def _read_header(content: bytes) -> tuple[dict[int, Any], bytes]:
    """Return the EXIF data and the XMP packet of an image file, as far as they can be read."""
    tags: dict[int, Any] = {}
    packet: str | bytes = b""
    # Pillow raises errors of any type on damaged metadata.
    with (
        suppress(Exception),
        ignore_pillow_warnings(),
        open_image(io.BytesIO(content), "") as image,
    ):
        packet = image.info.get("xmp", b"")
        exif = image.getexif()
        tags.update(exif)
        tags.update(exif.get_ifd(_EXIF_IFD))
    return tags, packet.encode() if isinstance(packet, str) else bytes(packet)


def _read_sidecars(source: Source) -> Iterator[bytes]:
    for path in sidecar_paths(source):
        with suppress(OSError, StorageError):
            yield read_file(path)


def _parse_time(text: str) -> str:
    """Return a time in EXIF data or XMP as in `Details`, "" if it is not a time.

    >>> _parse_time("2024:07:21 14:03:00"), _parse_time("2024-07-21"), _parse_time("0000:00:00")
    ('2024-07-21T14:03:00', '2024-07-21T00:00:00', '')
    """
    digits = re.sub(r"\D", "", text)[:14]
    with suppress(ValueError):
        return datetime.strptime(digits.ljust(14, "0"), "%Y%m%d%H%M%S").isoformat()
    return ""
