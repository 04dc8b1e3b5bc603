import numpy as np
import pytest
from PIL import Image
from tests.textures import iptc_segment

from supdocnade.images.embedded_keywords import read_embedded_keywords

PACKET = b"<x:xmpmeta xmlns:x='adobe:ns:meta/'/>"


def image():
    return Image.fromarray(np.arange(60, dtype=np.uint8).reshape(6, 10))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.jpg", {"xmp": PACKET}),
        ("a.webp", {"xmp": PACKET}),
        ("a.avif", {"xmp": PACKET + b"\0\0"}),
        ("a.tif", {"tiffinfo": {700: PACKET}}),
    ],
)
def test_packets_of_xmp(tmp_path, name, options):
    image().save(tmp_path / name, **options)
    assert read_embedded_keywords(tmp_path / name) == (PACKET, [])


@pytest.mark.parametrize(
    ("data_sets", "expected"),
    [
        ([((2, 25), b"sea")], ["sea"]),
        ([((2, 25), b"sea"), ((2, 120), b"caption"), ((2, 25), b"sky")], ["sea", "sky"]),
        ([((2, 25), "Küste".encode())], ["Küste"]),
        ([((2, 25), "Küste".encode("latin-1"))], ["Küste"]),
        ([((1, 90), b"\x1b%G"), ((2, 25), b"K\xfcste")], ["K\ufffdste"]),
        ([((2, 120), b"caption")], []),
    ],
)
def test_keywords_of_iptc(tmp_path, data_sets, expected):
    image().save(tmp_path / "a.jpg", extra=iptc_segment(*data_sets))
    assert read_embedded_keywords(tmp_path / "a.jpg") == (b"", expected)


def test_files_without_keywords(tmp_path):
    for name, content in (("a.jpg", b""), ("b.jpg", b"no image"), ("c.jpg", iptc_segment())):
        (tmp_path / name).write_bytes(content)
        assert read_embedded_keywords(tmp_path / name) == (b"", [])
    image().save(tmp_path / "d.png")
    assert read_embedded_keywords(tmp_path / "d.png") == (b"", [])
    assert read_embedded_keywords(tmp_path / "missing.jpg") == (b"", [])
