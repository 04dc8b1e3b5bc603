import io
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image
from tests.textures import plain_packet, stripes

from supdocnade.folders.jpeg_packet import HEADER, find_segment, read_packet, replace_packet
from supdocnade.folders.keywords import UnusableXMP, add_keywords, new_packet, read_keywords

PICTURE = Image.fromarray(np.dstack([stripes(number) for number in range(3)]))
PADDED = plain_packet("old").replace(b'<?xpacket end="w"?>', b" " * 3000 + b'<?xpacket end="w"?>')
EXIF = Image.Exif()
EXIF[0x010E] = "a description"


def jpeg(picture=PICTURE, **options):
    buffer = io.BytesIO()
    picture.save(buffer, options.pop("format", "JPEG"), **options)
    return buffer.getvalue()


def segment(marker, body):
    return b"\xff" + bytes([marker]) + (len(body) + 2).to_bytes(2, "big") + body


def extended(packet):
    return segment(0xE1, b"http://ns.adobe.com/xmp/extension/\0" + b"0" * 40 + packet)


def several_pictures(**options):
    """Return a JPEG file with an index of pictures (MPF), as phones and stereo cameras write it."""
    others = [Image.fromarray(np.asarray(PICTURE)[::-1]), PICTURE.rotate(180)]
    return jpeg(format="MPO", save_all=True, append_images=others, **options)


PLAIN = jpeg()
PROFILE = bytes(range(256)) * 300  # More than fits into one segment.
STRUCTURES = {
    "plain": PLAIN,
    "grey with restarts": jpeg(PICTURE.convert("L"), restart_marker_rows=1),
    "progressive cmyk": jpeg(PICTURE.convert("CMYK"), progressive=True),
    "profile": jpeg(exif=EXIF, icc_profile=PROFILE, comment=b"comment"),
    "xmp": jpeg(exif=EXIF, icc_profile=PROFILE, xmp=plain_packet("old")),
    "padded": jpeg(xmp=PADDED),
    "ended by zero": jpeg(xmp=plain_packet("old") + b"\0"),
    "several pictures": several_pictures(exif=EXIF),
    "several pictures, xmp": replace_packet(several_pictures(exif=EXIF), plain_packet("old")),
    "trailer": jpeg(exif=EXIF) + b"a video \xff\xd8\xff\xe1\xff\xd9",
    "extended xmp": PLAIN[:2] + extended(b"<crs:Settings/>") + PLAIN[2:],
    "filled": PLAIN[:2] + b"\xff\xff" + PLAIN[2:],
}


def contents(content):
    """Return the pixels of all pictures of a file, its camera data and its profile."""
    with Image.open(io.BytesIO(content)) as image:
        numbers = range(getattr(image, "n_frames", 1))
        pixels = [(image.seek(number), image.tobytes()) for number in numbers]
        return pixels, image.info.get("exif"), image.info.get("icc_profile")


def tagged(content):
    packet = read_packet(content) or new_packet([])
    return replace_packet(content, add_keywords(packet, ["sea", "Animals|Cats|Tiger"]))


@pytest.mark.parametrize("name", STRUCTURES)
def test_pixels_and_other_segments_stay(name):
    content = STRUCTURES[name]
    start, end = find_segment(content)
    after = tagged(content)
    new_start, new_end = find_segment(after)
    assert (after[:new_start], after[new_end:]) == (content[:start], content[end:])
    assert contents(after) == contents(content)
    assert len(contents(after)[0]) == (3 if "several" in name else 1)
    with Image.open(io.BytesIO(after)) as image:
        words = read_keywords(image.info["xmp"])
    assert words == [*(["old"] if end > start else []), "sea", "Tiger"]
    # Space at the end of a packet is used before anything moves.
    assert (len(after) == len(content)) == (name == "padded")


def test_packets_after_an_index_of_pictures_keep_their_length():
    padded = several_pictures(xmp=PADDED)
    assert padded.index(b"MPF\0") < find_segment(padded)[0]
    assert contents(tagged(padded)) == contents(padded)
    with pytest.raises(UnusableXMP, match="after the index of its pictures"):
        tagged(several_pictures(xmp=plain_packet("old")))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a JPEG file"),
        (PLAIN[:20] + b"rubbish" + PLAIN[20:], "damaged"),
        (PLAIN[:20] + b"\xff\xe1\0\1" + PLAIN[20:], "damaged"),
        (PLAIN[:-2], "its end is missing"),
        (PLAIN[:2] + segment(0xE1, HEADER + PADDED) * 2 + PLAIN[2:], "several XMP packets"),
        (PLAIN[:2] + extended(b"<dc:subject/>") + PLAIN[2:], "in extended XMP"),
        (jpeg(xmp=plain_packet("old").decode().encode("utf-16")), "UTF-8"),
        (jpeg(xmp=plain_packet("o" * 21500)), "no room"),
        (jpeg(xmp=b"no XML"), "not XML"),
    ],
)
def test_unusable_files_are_errors(content, message):
    with pytest.raises(UnusableXMP, match=message):
        tagged(content)


@pytest.mark.skipif(shutil.which("exiftool") is None, reason="needs exiftool")
@pytest.mark.parametrize("name", STRUCTURES)
def test_exiftool_reads_the_keywords(name, tmp_path):
    (tmp_path / "a.jpg").write_bytes(tagged(STRUCTURES[name]))
    command = ["exiftool", "-XMP-dc:Subject", tmp_path / "a.jpg"]
    assert b"sea, Tiger" in subprocess.run(command, capture_output=True, check=True).stdout
