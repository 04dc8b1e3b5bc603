import pytest
from PIL import Image
from tests.textures import iptc_segment, plain_packet, stripes

from supdocnade.folders.keywords import (
    DC,
    DIGIKAM,
    LR,
    RDF,
    UnusableXMP,
    add_keywords,
    new_packet,
    read_keywords,
    read_settled_keywords,
    read_tags,
    remove_keywords,
)


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
    tags, notes, levels = read_tags(photographs, lambda *report: stages.append(report))
    assert tags == EXPECTED
    assert notes == [
        "keywords are used as tags; photographs with keywords: "
        "2 in XMP sidecars and 2 in the files themselves."
    ]
    assert levels == {}
    assert stages[-1] == ("reading keywords", 5, 5)


def test_keywords_that_were_predicted_are_not_read(photographs):
    sidecar = photographs[3].with_suffix(".xmp")
    sidecar.write_bytes(add_keywords(sidecar.read_bytes(), ["predicted"]))
    photographs[4].with_name("4.jpg.xmp").write_bytes(new_packet(["predicted"]))
    assert read_tags(photographs[3:])[0] == [["stem"], ["stem"]]


def test_all_keywords_come_from_every_place_that_can_be_read(photographs):
    assert [read_settled_keywords(path) for path in photographs] == [
        [],
        ["iptc"],
        ["embedded", " two words ", "iptc"],
        ["stem", "embedded", " two words ", "iptc"],
        ["full", "stem", "embedded", " two words ", "iptc"],
    ]
    photographs[4].with_name("4.jpg.xmp").write_bytes(new_packet(["predicted"]))
    photographs[4].with_suffix(".xmp").write_text("no XML")
    assert read_settled_keywords(photographs[4]) == ["embedded", " two words ", "iptc"]


def test_damaged_sidecars_are_named(photographs):
    sidecar = photographs[4].with_name("4.jpg.xmp")
    sidecar.write_bytes(plain_packet("full")[:-60])
    tags, notes, _ = read_tags(photographs[4:])
    assert tags == [["stem"]]
    assert notes[-1].startswith(f"keywords are not read: {sidecar}: it is not XML")
    Image.fromarray(stripes(0)).save(photographs[0], xmp=b"no XML")
    assert "XMP in " in read_tags(photographs)[1][-1]
    assert ", and 1 more." in read_tags(photographs)[1][-1]


def sidecar(inside, *, attributes=""):
    """Return a sidecar with its own prefixes and foreign contents."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!-- other -->\n'
        f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><r:RDF xmlns:r="{RDF}">\n'
        f'<r:Description r:about=\'\' xmlns:d="{DC}" xmlns:lr="{LR}"\t{attributes}'
        f' xmlns:digi="{DIGIKAM}">{inside}'
        "</r:Description></r:RDF></x:xmpmeta>"
    ).encode()


def test_round_trip_of_a_new_packet():
    keywords = ["sea", "rock & <roll>", 'a "quoted" one', "海"]
    assert read_keywords(new_packet(keywords)) == keywords


def test_characters_outside_xml_are_dropped():
    assert read_keywords(new_packet(["a\x00b\x1b\ud800c"])) == ["abc"]
    packet = new_packet(["abc"])
    assert add_keywords(packet, ["a\x00bc"]) == packet


@pytest.mark.parametrize(
    ("inside", "before"),
    [
        ("<d:subject><r:Bag><r:li>old</r:li></r:Bag></d:subject>", ["old"]),
        ("<d:subject><r:Seq>\n<r:li>a&amp;b</r:li>\n</r:Seq></d:subject>", ["a&b"]),
        ("<d:subject><r:Bag></r:Bag></d:subject>", []),
        ("<d:subject><r:Bag/></d:subject>", []),
        ("<d:subject><r:Bag /></d:subject><d:creator>me</d:creator>", []),
        ("<d:creator>me</d:creator>", []),
        ("", []),
    ],
)
def test_every_other_byte_of_a_sidecar_stays(inside, before):
    content = sidecar(inside, attributes="note='a/>b &gt;'")
    assert read_keywords(content) == before
    added = add_keywords(content, ["sea", "sky"])
    assert read_keywords(added) == [*before, "sea", "sky"]
    assert add_keywords(added, ["sky", "sea"]) == added
    # All bytes are still there, in their order.
    rest = iter(added)
    assert all(byte in rest for byte in content.replace(b" />", b">").replace(b"/></d", b"></d"))


def test_keywords_in_an_empty_description():
    content = f'<r:RDF xmlns:r="{RDF}"><r:Description r:about="a/>b"/></r:RDF>'.encode()
    added = add_keywords(content, ["sea"])
    assert read_keywords(added) == ["sea"]
    assert b'r:about="a/>b"' in added


HIERARCHICAL = "<lr:hierarchicalSubject><r:Bag><r:li>a|b</r:li></r:Bag></lr:hierarchicalSubject>"
TAGS_LIST = "<digi:TagsList><r:Seq><r:li>a/b</r:li></r:Seq></digi:TagsList>"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no xml",
        b"<a/>",
        new_packet(["sea"])[:-40],
        new_packet(["sea"]).decode().encode("utf-16"),
        b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
        sidecar("<d:subject>sea</d:subject>"),
    ],
)
def test_unusable_files_are_errors(content):
    with pytest.raises(UnusableXMP):
        add_keywords(content, ["sky"])


def test_predicted_keywords_are_marked_and_not_added_again_after_someone_removed_them():
    content = sidecar("<d:subject><r:Bag><r:li>old</r:li></r:Bag></d:subject>")
    added = add_keywords(content, ["sea", "sky"])
    assert read_keywords(added) == ["old", "sea", "sky"]
    start = added.index(b"<rdf:li")
    corrected = added[:start] + added[added.index(b"<rdf:li", start + 1) :]
    assert read_keywords(corrected) == ["old", "sky"]
    assert add_keywords(corrected, ["sea"]) == corrected


@pytest.mark.parametrize(
    "inside",
    [
        "<d:subject><r:Bag><r:li>old</r:li></r:Bag></d:subject>",
        "<d:creator>me</d:creator>",
        "<lr:hierarchicalSubject>\n<r:Bag><r:li>a|b</r:li></r:Bag></lr:hierarchicalSubject>",
        TAGS_LIST,
        "",
    ],
)
def test_removing_keywords_restores_every_byte(inside):
    content = sidecar(inside)
    once = add_keywords(content, ["sea", "rock & roll"])
    twice = add_keywords(once, ["sky"])
    assert remove_keywords(twice, ["sky"]) == once
    assert remove_keywords(once, ["sea", "rock & roll", "other"]) == content
    # The keywords of two runs can be removed in any order.
    assert remove_keywords(remove_keywords(twice, ["sea", "rock & roll"]), ["sky"]) == content


@pytest.mark.parametrize("inside", [HIERARCHICAL, TAGS_LIST])
def test_the_last_parts_of_a_hierarchy_are_keywords_if_there_are_no_others(inside):
    assert read_keywords(sidecar(inside)) == ["b"]
    subject = "<d:subject><r:Bag><r:li>c</r:li></r:Bag></d:subject>"
    assert read_keywords(sidecar(inside + subject)) == ["c"]


@pytest.mark.parametrize("encoding", ["US-ASCII", "ISO-8859-1"])
def test_keywords_are_readable_in_any_declared_encoding(encoding):
    content = sidecar("").replace(b"UTF-8", encoding.encode())
    added = add_keywords(content, ["café", "海"])
    assert read_keywords(added) == ["café", "海"]
    assert remove_keywords(added, ["café", "海"]) == content


TIGER = "Animals|Cats|Tiger"


def test_keywords_have_their_levels_in_lists_with_hierarchies():
    content = sidecar(HIERARCHICAL + TAGS_LIST)
    added = add_keywords(content, [TIGER, "sea", "b"])
    assert read_keywords(added) == ["Tiger", "sea"]
    # Flat ones are in all four lists.
    words = ("sea", "Tiger", TIGER, "Animals/Cats/Tiger", "b")
    assert [added.decode().count(f">{word}<") for word in words] == [4, 2, 1, 1, 0]
    assert add_keywords(added, ["tiger", "Cats|Tiger"]) == added
    assert remove_keywords(added, [TIGER, "sea"]) == content
    # Only what was written is removed.
    assert remove_keywords(added, ["Wild|Tiger"]).decode().count(TIGER) == 1
    packet = new_packet(["sea", TIGER])
    assert read_keywords(packet) == ["sea", "Tiger"]
    assert [packet.count(f"<rdf:li>{word}<".encode()) for word in ("sea", TIGER)] == [3, 1]


def test_levels_are_known_where_all_photographs_agree(tmp_path):
    lists = [
        HIERARCHICAL.replace("a|b", f"{TIGER}</r:li><r:li>Sky"),
        TAGS_LIST.replace("a/b", "Animals/Cats/Tiger</r:li><r:li>a/b"),
        TAGS_LIST.replace("a/b", "c/B"),
    ]
    packets = [*map(sidecar, lists), new_packet(["x|y"])]  # Keywords of a model do not count.
    for number, packet in enumerate(packets):
        (tmp_path / f"{number}.xmp").write_bytes(packet)
    tags, _, levels = read_tags([tmp_path / f"{number}.jpg" for number in range(4)])
    assert tags == [["Tiger", "Sky"], ["Tiger", "b"], ["B"], None]
    assert levels == {"tiger": TIGER}
