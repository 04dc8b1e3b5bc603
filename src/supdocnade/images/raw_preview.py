"""RAW files of cameras, which are read by the JPEG preview that the camera has put into them.

All formats hold their preview as a whole JPEG file; the pixels of the sensor are never developed.
"""

import io

from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from supdocnade.errors import UnreadableImage

RAW_EXTENSIONS = (".cr2", ".cr3", ".nef", ".arw", ".raf", ".orf", ".rw2", ".dng")

_START, _ORIENTATION = b"\xff\xd8\xff", 0x112
_MAX_STARTS, _MAX_SEGMENTS, _HEAD = 1000, 100, 1 << 20


def as_image_file(content: bytes, name: str) -> bytes:
    """Return the largest preview of a RAW file as an upright JPEG file; other files as they are.

    Parameters
    ----------
    content : bytes of a file.
    name : of the file; its ending tells RAW files from TIFF files.
    """
    if not name.lower().endswith(RAW_EXTENSIONS):
        return content
    largest, place, most = b"", -1, 0
    for _ in range(_MAX_STARTS):
        place = content.find(_START, place + 1)
        if place < 0:
            break
        if (n_pixels := _count_pixels(content, place)) > most:
            largest, most = content[place:], n_pixels
    if not most:
        raise UnreadableImage(f"{name} has no preview that can be read.")
    try:
        exif = _read_header(content)
        if _ORIENTATION not in exif or _ORIENTATION in JpegImageFile(io.BytesIO(largest)).getexif():
            return largest
        turned = Image.Exif()
        turned[_ORIENTATION] = int(exif[_ORIENTATION])
        segment = turned.tobytes()
    except Exception:  # Pillow raises errors of any type on damaged metadata.
        return largest
    return _START + b"\xe1" + (len(segment) + 2).to_bytes(2, "big") + segment + largest[2:]


def _count_pixels(content: bytes, place: int) -> int:
    """Return the pixels of a JPEG file within a file, 0 if it is not one that can be decoded."""
    place += 2
    for _ in range(_MAX_SEGMENTS):
        head = content[place : place + 9]
        if len(head) < 9 or head[0] != 0xFF or head[1] in (0xD8, 0xD9, 0xDA):
            return 0
        if head[1] in (0xC0, 0xC1, 0xC2):  # The pixels of a sensor may be lossless, 0xC3.
            height, width = (int.from_bytes(head[at : at + 2], "big") for at in (5, 7))
            return height * width if head[4] == 8 else 0
        place += 2 + int.from_bytes(head[2:4], "big")
    return 0


def _read_header(content: bytes) -> Image.Exif:
    """Return the metadata in the header of a RAW file; a RAF file has it in its preview."""
    start = content.find(b"CMT1") + 4 if content[4:12] == b"ftypcrx " else 0
    head = content[start : start + _HEAD]
    exif = Image.Exif()
    if mark := {b"II": b"*\0", b"MM": b"\0*"}.get(head[:2]):  # ORF and RW2 have their own marks.
        exif.load(b"Exif\0\0" + head[:2] + mark + head[4:])
    return exif
