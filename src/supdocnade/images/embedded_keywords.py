"""Keywords inside image files, in XMP packets and IPTC records."""

import io
import os
from contextlib import nullcontext

from PIL import IptcImagePlugin

from supdocnade.images.decode import ignore_pillow_warnings, open_image
from supdocnade.images.source import open_address

_KEYWORDS, _CHARACTER_SET = (2, 25), (1, 90)
"""Data sets of the IPTC standard."""


def read_embedded_keywords(
    path: str | os.PathLike[str], content: bytes | None = None
) -> tuple[bytes, list[str]]:
    """Return the XMP packet of an image file and its IPTC keywords; both are empty if it has none.

    A file that cannot be read has no keywords: decoding reports it.

    Parameters
    ----------
    content : bytes of the file; None: it is opened, and only the header of most files is read.
    """
    opened = open_address(path) if content is None else nullcontext(io.BytesIO(content))
    try:
        with (
            ignore_pillow_warnings(),  # About odd metadata.
            opened as file,
            open_image(file, os.fspath(path)) as image,
        ):
            packet = image.info.get("xmp", b"")
            records = IptcImagePlugin.getiptcinfo(image) or {}
    except Exception:  # Pillow raises errors of any type on damaged metadata.
        return b"", []
    packet = packet.encode() if isinstance(packet, str) else bytes(packet)
    found = records.get(_KEYWORDS, [])
    words = found if isinstance(found, list) else [found]
    is_utf8 = records.get(_CHARACTER_SET) == b"\x1b%G"
    return packet.rstrip(b"\0"), [_decode_keyword(word, is_utf8=is_utf8) for word in words]


def _decode_keyword(word: bytes, *, is_utf8: bool) -> str:
    """Return an IPTC keyword as text; many programs write UTF-8 without saying so."""
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError:
        return word.decode("utf-8", "replace") if is_utf8 else word.decode("latin-1")
