import pytest
from PIL import Image
from tests.textures import iptc_segment, plain_packet, stripes

from supdocnade.folders.keywords import read_all_keywords, read_tags
from supdocnade.folders.xmp_packet import add_keywords, new_packet


@pytest.fixture
def photographs(tmp_path):
    """Photographs with keywords in one place more each, the last one to be used."""
    paths = [tmp_path / "sea" / f"{number}.jpg" for number in range(5)]
    paths[0].parent.mkdir()
    image = Image.fromarray(stripes(0))
    iptc = iptc_segment(((2, 25), b"iptc"))
    image.save(paths[0])
    image.save(paths[1], extra=iptc)
    for path in paths[2:]:
        image.save(path, extra=iptc, xmp=plain_packet("embedded", " two words "))
    for path in paths[3:]:
        path.with_suffix(".xmp").write_bytes(plain_packet("stem"))
    paths[4].with_name("4.jpg.xmp").write_bytes(plain_packet("full"))
    return paths


EXPECTED = [None, ["iptc"], ["embedded", " two words "], ["stem"], ["full"]]


def test_sidecars_come_before_files_and_xmp_before_iptc(photographs):
    stages = []
    tags, notes = read_tags(photographs, lambda *report: stages.append(report))
    assert tags == EXPECTED
    assert notes == [
        "keywords are used as tags; photographs with keywords: "
        "2 in XMP sidecars and 2 in the files themselves."
    ]
    assert stages[-1] == ("reading keywords", 5, 5)


def test_keywords_that_were_predicted_are_not_read(photographs):
    sidecar = photographs[3].with_suffix(".xmp")
    sidecar.write_bytes(add_keywords(sidecar.read_bytes(), ["predicted"]))
    photographs[4].with_name("4.jpg.xmp").write_bytes(new_packet(["predicted"]))
    assert read_tags(photographs[3:])[0] == [["stem"], ["stem"]]


def test_all_keywords_come_from_every_place_that_can_be_read(photographs):
    assert [read_all_keywords(path) for path in photographs] == [
        [],
        ["iptc"],
        ["embedded", " two words ", "iptc"],
        ["stem", "embedded", " two words ", "iptc"],
        ["full", "stem", "embedded", " two words ", "iptc"],
    ]
    photographs[4].with_name("4.jpg.xmp").write_bytes(new_packet(["predicted"]))
    photographs[4].with_suffix(".xmp").write_text("no XML")
    assert read_all_keywords(photographs[4]) == ["embedded", " two words ", "iptc"]


def test_damaged_sidecars_are_named(photographs):
    sidecar = photographs[4].with_name("4.jpg.xmp")
    sidecar.write_bytes(plain_packet("full")[:-60])
    tags, notes = read_tags(photographs[4:])
    assert tags == [["stem"]]
    assert notes[-1].startswith(f"keywords are not read: {sidecar}: it is not XML")
    Image.fromarray(stripes(0)).save(photographs[0], xmp=b"no XML")
    assert "XMP in " in read_tags(photographs)[1][-1]
    assert ", and 1 more." in read_tags(photographs)[1][-1]
