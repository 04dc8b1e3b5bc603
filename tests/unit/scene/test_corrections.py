import json
import os
from contextlib import ExitStack, closing

import pytest

from supdocnade.errors import InvalidArgument, StorageError, UnwritableFile
from supdocnade.folders.photo_folder import ImageRecord
from supdocnade.images.reading import content_key
from supdocnade.scene import corrections as module
from supdocnade.scene.corrections import (
    Correction,
    CorrectionFile,
    correct_records,
    read_corrections,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "corrections.jsonl"


@pytest.fixture
def open_file(path):
    """A function that opens the file; it is closed at the end."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(CorrectionFile(path)))


def test_a_file_keeps_corrections_and_returns_the_last_first(open_file, path):
    file = open_file()
    file.add(Correction("/photos/a.jpg", None, "coast", ("sea",)))
    file.add(Correction("b.jpg", "0" * 40, "forest"))
    file.add(Correction("/photos/a.jpg", None, "skyline", ()))
    assert [each.label for each in file.newest(0, 10)] == ["skyline", "forest"]
    assert file.newest(1, 1) == [Correction("b.jpg", "0" * 40, "forest")]
    assert file.has("/photos/a.jpg")
    assert not file.has("b.jpg")
    file.close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"file_name": "/photos/a.jpg", "label": "coast", "tags": ["sea"]},
        {"file_name": "b.jpg", "key": "0" * 40, "label": "forest"},
        {"file_name": "/photos/a.jpg", "label": "skyline", "tags": []},
    ]
    assert list(read_corrections(path).values()) == open_file().newest(0, 10)[::-1]


def test_a_correction_without_class_and_tags_withdraws_an_earlier_one(open_file, path):
    file = open_file()
    file.add(Correction("b.jpg", "0" * 40, "forest"))
    file.add(Correction("b.jpg", "0" * 40))
    assert len(file) == 0
    assert read_corrections(path) == {}


def test_judged_tags_are_kept_and_not_learned(open_file, path):
    file = open_file()
    file.add(Correction("/a.jpg", None, None, None, {"sea": False, "boat": True}))
    file.add(Correction("/b.jpg", None, "coast", None, {"sea": True}))
    file.close()
    read = read_corrections(path)
    assert list(read.values()) == open_file().newest(0, 10)[::-1]
    assert read["/a.jpg"].judged == {"sea": False, "boat": True}
    records = [ImageRecord(name, "forest", ("tree",)) for name in ("/a.jpg", "/b.jpg")]
    found, notes = correct_records(records, read)
    assert (found, notes) == ([ImageRecord("/b.jpg", "coast", ("tree",))], [])
    path.write_text('{"file_name": "a", "judged": {"sea": 1}}')
    with pytest.raises(StorageError, match="line 1: expected true or false for each tag in judged"):
        read_corrections(path)


def test_two_servers_do_not_share_a_file(open_file, path):
    first = open_file()
    with pytest.raises(StorageError, match="another server keeps its corrections there"):
        CorrectionFile(path)
    first.close()
    open_file()


def test_a_line_without_an_end_is_ended(open_file, path):
    path.write_text('{"file_name": "/a.jpg", "label": "coast"}')
    file = open_file()
    file.add(Correction("/b.jpg", None, "forest"))
    assert list(read_corrections(path)) == ["/a.jpg", "/b.jpg"]


def test_files_that_cannot_be_used_are_named(tmp_path, path):
    with pytest.raises(InvalidArgument, match=r"must end in .jsonl, got .*a.csv"):
        CorrectionFile(tmp_path / "a.csv")
    with pytest.raises(UnwritableFile, match="cannot be written: No such file"):
        CorrectionFile(tmp_path / "none" / "a.jsonl")
    path.write_text('{"file_name": "/a.jpg", "lab')
    with pytest.raises(StorageError, match="line 1: expected a JSON object"):
        CorrectionFile(path)
    path.write_text('{"file_name": 7}')
    with pytest.raises(StorageError, match="line 1: expected the name of a file"):
        CorrectionFile(path)
    path.write_text('{"file_name": "a", "key": 7}')
    with pytest.raises(StorageError, match="line 1: expected a string as key"):
        CorrectionFile(path)


def test_what_cannot_be_written_leaves_the_file_as_it_was(open_file, path, monkeypatch):
    file = open_file()
    file.add(Correction("/a.jpg", None, "coast"))
    before = path.read_bytes()

    def fail(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "fsync", fail)
        with pytest.raises(UnwritableFile, match="cannot be written: No space left"):
            file.add(Correction("/b.jpg", None, "coast"))
    assert path.read_bytes() == before
    assert len(file) == 1
    os.replace(path, path.with_name("moved.jsonl"))
    path.touch()
    with pytest.raises(UnwritableFile, match="was replaced by another file"):
        file.add(Correction("/b.jpg", None, "coast"))


def test_photographs_are_found_by_path_and_by_contents(tmp_path):
    records = []
    for name in ("a.jpg", "b.jpg", "c.jpg", "d.jpg"):
        (tmp_path / name).write_bytes(name.encode())
        records.append(ImageRecord(str(tmp_path / name), "coast", ("sea",)))
    given = [
        Correction(str(tmp_path / "a.jpg"), None, "forest"),
        Correction("renamed.jpg", content_key(b"c.jpg"), None, ()),
        # The contents count, not the name.
        Correction(str(tmp_path / "b.jpg"), content_key(b"other"), "skyline"),
    ]
    found, notes = correct_records(records, {each.identity: each for each in given})
    assert found == [
        ImageRecord(records[0].source, "forest", ("sea",)),
        ImageRecord(records[2].source, "coast", ()),
    ]
    assert notes == [
        f"1 correction is of a photograph not found here, such as {tmp_path / 'b.jpg'}."
    ]


def test_only_photographs_that_may_be_meant_are_read(tmp_path, monkeypatch):
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).write_bytes(name.encode())
    read, read_with_key = [], module.read_with_key
    monkeypatch.setattr(module, "read_with_key", lambda s: read.append(s) or read_with_key(s))
    records = [ImageRecord(str(tmp_path / name)) for name in ("gone.jpg", "a.jpg", "b.jpg")]
    by_key = Correction("b.jpg", content_key(b"b.jpg"), "coast")
    found, notes = correct_records(records, {by_key.identity: by_key})
    assert (len(found), notes, read) == (1, [], [records[2].source])
    unknown = Correction("x.jpg", "0" * 40, "coast")
    found, notes = correct_records(records, {unknown.identity: unknown})
    assert (found, len(notes), len(read)) == ([], 1, 4)
