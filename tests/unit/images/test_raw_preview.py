import io
import struct

import numpy as np
import pytest
from PIL import Image

from supdocnade.errors import UnreadableImage
from supdocnade.images.decode import DecodeConfig, decode, image_size
from supdocnade.images.raw_preview import RAW_EXTENSIONS


def jpeg(width, height, **more):
    """A JPEG file whose left half is dark."""
    levels = np.full((height, width, 3), 220, np.uint8)
    levels[:, : width // 2] = 20
    file = io.BytesIO()
    Image.fromarray(levels).save(file, "JPEG", **more)
    return file.getvalue()


def header(mark, orientation, order="<"):
    """A TIFF header whose only entry is an orientation."""
    entry = struct.pack(order + "HHIHH", 0x112, 3, 1, orientation, 0)
    return mark + struct.pack(order + "IH", 8, 1) + entry + bytes(4)


LOSSLESS = b"\xff\xd8\xff\xc3\x00\x11\x0e" + struct.pack(">HH", 4000, 6000) + bytes(5000)
"""The beginning of the pixels of a sensor: a frame that is not a preview, with more pixels."""

HEADERS = {
    ".cr2": header(b"II*\0", 6),
    ".cr3": struct.pack(">I", 24) + b"ftypcrx " + bytes(12) + b"moovCMT1" + header(b"II*\0", 6),
    ".nef": header(b"MM\0*", 6, ">"),
    ".arw": header(b"II*\0", 6),
    ".orf": header(b"IIRO", 6),
    ".rw2": header(b"IIU\0", 6),
    ".dng": header(b"MM\0*", 6, ">"),
}


@pytest.mark.parametrize("ending", HEADERS)
def test_the_largest_preview_is_read_and_turned(ending):
    content = HEADERS[ending] + jpeg(16, 12) + bytes(99) + jpeg(64, 48) + LOSSLESS
    levels = decode(content, DecodeConfig(), name=f"a{ending.upper()}")
    assert levels.shape == (64, 48)
    assert levels[:28].max() < 60 < 180 < levels[36:].min()
    assert image_size(content, f"a{ending}") == (64, 48)


def test_a_preview_that_knows_its_orientation_is_turned_once():
    exif = Image.Exif()
    exif[0x112] = 8
    content = b"FUJIFILMCCD-RAW " + bytes(100) + jpeg(64, 48, exif=exif) + bytes(1000)
    levels = decode(content, DecodeConfig(), name="a.raf")
    assert levels[:28].min() > 180
    assert (decode(HEADERS[".nef"] + content, name="a.nef") == levels).all()


@pytest.mark.parametrize("content", [b"", bytes(500), LOSSLESS, b"\xff\xd8\xff" * 9999])
def test_a_file_without_a_preview_is_named(content):
    with pytest.raises(UnreadableImage, match=r"^a.cr2 has no preview that can be read\.$"):
        decode(content, name="a.cr2")


def test_a_damaged_preview_is_named():
    whole = HEADERS[".dng"] + jpeg(640, 480)
    for size in range(len(HEADERS[".dng"]), len(whole) - 2, 97):
        with pytest.raises(UnreadableImage, match=r"^a.dng (has no preview|is )"):
            decode(whole[:size], name="a.dng")


def test_only_the_name_tells_a_raw_file():
    assert len(RAW_EXTENSIONS) == len(HEADERS) + 1
    with pytest.raises(UnreadableImage, match=r"not an image|damaged"):
        decode(HEADERS[".orf"] + jpeg(64, 48), name="a.jpg")
