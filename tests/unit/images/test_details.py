import io

import pytest
from PIL import Image

from supdocnade.images.details import read_details

XMP = b"""<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF
 xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description rdf:about=""
 xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmp:Rating="%d" xmp:CreateDate="2019-05-04T03:02:01+02:00"
 /></rdf:RDF></x:xmpmeta>"""


def photograph(tags=None, taken=None, kind="JPEG", **options):
    exif = Image.Exif()
    exif.update(tags or {})
    if taken:
        exif.get_ifd(0x8769)[0x9003] = taken
    buffer = io.BytesIO()
    Image.new("L", (16, 16)).save(buffer, kind, exif=exif, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_details_of_exif_data(tmp_path, kind):
    tags = {
        0x10F: "NIKON CORPORATION",
        0x110: "NIKON D750",
        0x132: "2025:01:01 00:00:00",
        0x4746: 4,
    }
    content = photograph(tags, "2024:07:21 14:03:00", kind)
    expected = ("2024-07-21T14:03:00", "NIKON D750", 4)
    assert read_details(tmp_path / "a.jpg", content) == expected


@pytest.mark.parametrize(
    ("make", "model", "camera"),
    [
        ("Apple", "iPhone 13", "Apple iPhone 13"),
        ("Canon", "Canon EOS 80D\0\0", "Canon EOS 80D"),
        ("", "X100V", "X100V"),
        ("FUJIFILM", "", "FUJIFILM"),
        ("a\nb", "c" * 99, f"a b {'c' * 56}"),
    ],
)
def test_the_camera_is_named_once(tmp_path, make, model, camera):
    content = photograph({0x10F: make, 0x110: model})
    assert read_details(tmp_path / "a.jpg", content)[1] == camera


def test_a_sidecar_has_the_rating(tmp_path):
    photo = tmp_path / "a.jpg"
    content = photograph({0x4746: 1}, xmp=XMP % 2)
    assert read_details(photo, content) == ("2019-05-04T03:02:01", "", 2)
    (tmp_path / "a.xmp").write_bytes(XMP % 3)
    assert read_details(photo, content)[2] == 3
    (tmp_path / "a.jpg.xmp").write_bytes(XMP % 5)
    assert read_details(photo, content)[2] == 5
    assert read_details("s3://bucket/a.jpg", content)[2] == 2


@pytest.mark.parametrize(
    "content",
    [
        b"no image",
        photograph(),
        photograph({0x4746: 9, 0x132: "yesterday"}, "0000:00:00 00:00:00"),
        photograph({0x4746: 3})[:60],
        photograph(xmp=XMP % 7).replace(b"2019", b"20x9"),
    ],
)
def test_details_that_cannot_be_read_are_unknown(tmp_path, content):
    assert read_details(tmp_path / "a.jpg", content) == ("", "", 0)
