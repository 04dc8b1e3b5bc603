import os
import resource

import pytest
from PIL import Image
from tests.textures import iptc_segment, plain_packet, stripes

from supdocnade.errors import StorageError
from supdocnade.folders.keyword_files import (
    KeywordWriter,
    UnwritableRecord,
    append_text,
    undo_record,
)
from supdocnade.folders.keywords import add_keywords, read_keywords
from supdocnade.storage import write_atomically

KEYWORDS = ["sea", "sky"]


def test_a_record_has_whole_lines_after_a_full_disk(tmp_path):
    record = tmp_path / "record"
    append_text(record, "first\n")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (9, limits[1]))
    try:
        with pytest.raises(StorageError, match="record cannot be written: File too large"):
            append_text(record, "second\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert record.read_text() == "first\n"


def test_a_record_that_cannot_be_written_is_an_error_of_its_own(tmp_path):
    (tmp_path / "record").symlink_to(tmp_path / "missing" / "record")
    writer = KeywordWriter(tmp_path / "record")
    with pytest.raises(UnwritableRecord, match="cannot be written"):
        writer.write(str(tmp_path / "a.jpg"), KEYWORDS)
    assert not (tmp_path / "a.jpg.xmp").exists()


def test_undoing_a_record_restores_all_sidecars(tmp_path):
    record, other = tmp_path / "record", tmp_path / "b.jpg.xmp"
    KeywordWriter().write(str(tmp_path / "b.jpg"), ["mine"])
    before = other.read_bytes()
    for tags in (["sea"], ["sea", "sky"]):
        writer = KeywordWriter(record)
        for name in ("a.jpg", "b.jpg", "c.jpg"):
            writer.write(str(tmp_path / name), tags)
    assert writer.n_sidecars == 3
    changed = tmp_path / "c.jpg.xmp"
    changed.write_bytes(add_keywords(changed.read_bytes(), ["later"]))
    assert len(list(undo_record(record, dry_run=True))) == 6
    messages = list(undo_record(record))
    assert sum("deleted" in message for message in messages) == 1
    assert not (tmp_path / "a.jpg.xmp").exists()
    assert other.read_bytes() == before
    assert read_keywords(changed.read_bytes()) == ["later"]
    assert list(undo_record(record)) == []


@pytest.mark.parametrize(
    "line",
    [
        *("no json", "[]", '{"sidecar": "a.xmp"}'),
        '{"sidecar": 1, "created": true, "keywords": []}',
        '{"sidecar": "a.xmp", "created": true, "keywords": "sea"}',
        '{"photo": "a.jpg", "keywords": [], "segment": "/", "modified": 1, "before": "", '
        '"after": ""}',
    ],
)
def test_a_record_is_checked_before_anything_is_undone(tmp_path, line):
    record = tmp_path / "record"
    KeywordWriter(record).write(str(tmp_path / "a.jpg"), KEYWORDS)
    record.write_text(f"{line}\n{record.read_text()}")
    with pytest.raises(StorageError, match="record, line 1: expected a line of a record"):
        list(undo_record(record))
    assert (tmp_path / "a.jpg.xmp").exists()


@pytest.fixture
def jpegs(tmp_path):
    """Photographs: a link, one with XMP and a sidecar, one with IPTC, and a PNG file."""
    (tmp_path / "below").mkdir()
    paths = [tmp_path / name for name in ("below/a.jpg", "b.JPG", "c.jpg", "d.png")]
    iptc = iptc_segment(((2, 25), b"iptc"))
    for path, more in zip(
        paths, ({}, {"xmp": plain_packet("old")}, {"extra": iptc}, {}), strict=True
    ):
        Image.fromarray(stripes(0)).save(path, **more)
        os.utime(path, ns=(10**18, 10**18))
        path.chmod(0o640)
    (tmp_path / "b.JPG.xmp").write_bytes(plain_packet("sand"))
    (tmp_path / "a.jpg").symlink_to(paths[0])
    return [tmp_path / "a.jpg", *paths[1:]]


def snapshot(folder):
    files = (path for path in folder.rglob("*.*") if path.is_file())
    return {path: (path.read_bytes(), path.is_symlink(), path.stat().st_mode) for path in files}


def embedded_words(path):
    with Image.open(path) as image:
        return read_keywords(image.info["xmp"])


def embed(paths, **options):
    record, levels = paths[0].with_name("record"), {"sea": "Nature|Sea"}
    writer = KeywordWriter(record, levels, embed=True, **options)
    for path in paths:
        writer.write(str(path), KEYWORDS)
    return writer.n_embedded, writer.n_sidecars


def test_keywords_that_the_photograph_has_elsewhere_are_not_written(tmp_path):
    photo, stem, full = (tmp_path / name for name in ("a.jpg", "a.xmp", "a.jpg.xmp"))
    iptc = iptc_segment(((2, 25), b"Sand"))
    Image.fromarray(stripes(0)).save(photo, extra=iptc, xmp=plain_packet("Sky"))
    stem.write_bytes(plain_packet("SEA"))
    before = [photo.read_bytes(), stem.read_bytes()]
    given = ["sea", "sky", "sand"]
    assert not KeywordWriter().write(str(photo), given)
    assert not KeywordWriter(by_stem=True).write(str(photo), given)
    assert not full.exists()
    KeywordWriter().write(str(photo), ["sea", "ship", "sky"])
    assert read_keywords(full.read_bytes()) == ["ship"]
    assert [photo.read_bytes(), stem.read_bytes()] == before
    # A prediction in one sidecar does not keep another photo manager from getting it.
    KeywordWriter(by_stem=True).write(str(photo), ["ship", "sky"])
    assert read_keywords(stem.read_bytes()) == ["SEA", "ship"]
    # Someone removes it in one place, which holds for all.
    stem.write_bytes(stem.read_bytes().replace(b">ship<", b"><", 1))
    KeywordWriter(embed=True).write(str(photo), ["ship", "reef"])
    assert embedded_words(photo) == ["Sky", "reef"]


def test_embedded_keywords_are_undone_byte_for_byte(tmp_path, jpegs):
    before, record = snapshot(tmp_path), tmp_path / "record"
    assert embed(jpegs, dry_run=True) == (3, 2)
    assert snapshot(tmp_path) == before
    assert embed(jpegs) == (3, 2)
    # Programs that find keywords in XMP do not read those of IPTC.
    words = [embedded_words(path) for path in jpegs[:3]]
    assert words == [["Sea", "sky"], ["old", "Sea", "sky"], ["iptc", "Sea", "sky"]]
    assert read_keywords((tmp_path / "b.JPG.xmp").read_bytes()) == ["sand", "Sea", "sky"]
    assert b">Nature|Sea<" in (tmp_path / "d.png.xmp").read_bytes()
    assert {*snapshot(tmp_path)} == {*before, tmp_path / "d.png.xmp"}
    assert all(path.stat().st_mode & 0o777 == 0o640 for path in jpegs)
    assert embed(jpegs) == (0, 0)  # They are there.
    KeywordWriter(record, embed=True).write(str(jpegs[0]), ["ship"])
    assert not KeywordWriter().write(str(tmp_path / "a.jpg"), [])
    assert len(list(undo_record(record, dry_run=True))) == 5
    assert f"restored {tmp_path}/c.jpg, without Nature|Sea, sky" in list(undo_record(record))
    assert snapshot(tmp_path) == before
    assert jpegs[1].stat().st_mtime_ns == 10**18
    assert list(undo_record(record)) == []


def test_only_what_a_killed_run_wrote_and_nobody_changed_is_undone(tmp_path, jpegs, monkeypatch):
    before = snapshot(tmp_path)

    def write(path, content):
        if path == jpegs[2]:
            raise KeyboardInterrupt
        write_atomically(path, content)

    monkeypatch.setattr("supdocnade.folders.keyword_files.write_atomically", write)
    with pytest.raises(KeyboardInterrupt):
        embed(jpegs)
    monkeypatch.undo()
    # The line of the file that was not written is in the record, too, perhaps a part of it.
    assert len((tmp_path / "record").read_text().splitlines()) == 4
    append_text(tmp_path / "record", '{"photo": "a')
    changed = jpegs[1].read_bytes() + b"rated"
    jpegs[1].write_bytes(changed)
    _, error, _ = undo_record(tmp_path / "record")
    assert str(error).endswith("b.JPG is left unchanged: it has changed since it was written.")
    assert snapshot(tmp_path) == before | {jpegs[1]: (changed, *before[jpegs[1]][1:])}


def test_damaged_and_protected_photographs_are_left_alone(tmp_path, jpegs):
    jpegs[0].write_bytes(jpegs[0].read_bytes()[:-2])
    jpegs[1].chmod(0o440)
    (tmp_path / "c.jpg.xmp").write_text("no XML")
    before = snapshot(tmp_path)
    for path, reason in zip(jpegs, ("damaged JPEG", "read-only", "not XML"), strict=False):
        with pytest.raises(StorageError, match=rf"{path.name}.* is left unchanged: .*{reason}"):
            embed([path])
    assert snapshot(tmp_path) == before
    assert not (tmp_path / "record").exists()


def test_a_read_only_sidecar_is_named_and_left_alone(tmp_path):
    sidecar = tmp_path / "a.jpg.xmp"
    sidecar.write_bytes(plain_packet("old"))
    sidecar.chmod(0o444)
    with pytest.raises(StorageError, match=r"a.jpg.xmp is left unchanged: it is read-only\."):
        KeywordWriter().write(str(tmp_path / "a.jpg"), KEYWORDS)
    assert sidecar.read_bytes() == plain_packet("old")
    assert not KeywordWriter().write(str(tmp_path / "a.jpg"), ["old"])
    KeywordWriter(tmp_path / "record").write(str(tmp_path / "b.jpg"), KEYWORDS)
    (tmp_path / "b.jpg.xmp").chmod(0o444)
    (error,) = undo_record(tmp_path / "record")
    assert str(error).endswith("b.jpg.xmp is left unchanged: it is read-only.")
    assert (tmp_path / "b.jpg.xmp").exists()


def test_keywords_of_people_are_not_those_of_a_model(tmp_path):
    record, sidecar = tmp_path / "record", tmp_path / "a.jpg.xmp"
    KeywordWriter(record, predicted=False).write(str(tmp_path / "a.jpg"), ["sea"])
    assert b"supdocnade:predicted" not in sidecar.read_bytes()
    KeywordWriter(record, predicted=False).write(str(tmp_path / "a.jpg"), ["sea", "sky"])
    assert read_keywords(sidecar.read_bytes()) == ["sea", "sky"]
    assert b"predicted" not in sidecar.read_bytes()
    assert len(list(undo_record(record))) == 2
    assert not sidecar.exists()
