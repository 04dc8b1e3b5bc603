import gzip
import io
import pickle
import tarfile

import pytest
from tests.packed_photos import copy_to_memory, write_tar

from supdocnade.errors import StorageError
from supdocnade.folders.tar_files import MAX_TEXT, scan_tar
from supdocnade.images.source import read_source, source_name


def found(path):
    """Return name within the shard, contents, class and tags of its photographs."""
    return [
        (record.source.member, read_source(record.source), record.label, record.tags)
        for record in scan_tar(str(path))
    ]


MEMBERS = {
    "a.jpg": b"photograph a",
    "a.json": b'{"label": "sea", "tags": ["sky", "sand"], "width": 3}',
    "b.cls": b"forest\n",
    "b.PNG": b"photograph b",
    "b.seg.png": b"a mask",
    "b.txt": b"a caption",
    "b.json": b'{"label": "not read", "tags": "tree|path"}',
    "./coast/c.jpg": b"photograph c",
    "d.jpg": b"photograph d",
    "d.json": b'{"label": null}',
    "e.jpg": b"photograph e",
    "e.cls": b"3",
    "._f.jpg": b"no photograph",
}

EXPECTED = [
    ("a.jpg", b"photograph a", "sea", ("sky", "sand")),
    ("b.PNG", b"photograph b", "forest", ("tree", "path")),
    ("coast/c.jpg", b"photograph c", "coast", None),
    ("d.jpg", b"photograph d", None, None),
    ("e.jpg", b"photograph e", "3", None),
]


def test_a_tar_file_has_classes_and_tags(tmp_path):
    assert found(write_tar(tmp_path / "photos.tar", MEMBERS)) == EXPECTED


def test_a_tar_file_on_another_file_system_is_the_same(tmp_path):
    write_tar(tmp_path / "photos.tar", MEMBERS)
    address = copy_to_memory(tmp_path, "test_tar_files")
    assert found(f"{address}/photos.tar") == EXPECTED


def test_the_name_has_the_tar_file_and_the_source_can_be_pickled(tmp_path):
    path = write_tar(tmp_path / "photos.tar", MEMBERS)
    source = pickle.loads(pickle.dumps(scan_tar(str(path))[0].source))
    assert source_name(source) == f"{path}/a.jpg"
    assert read_source(source) == b"photograph a"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a.txt": b"text"}, "photos.tar must hold photographs, got none."),
        (
            {"a.jpg": b"", "a.json": b"[1]"},
            "photos.tar/a.json: expected a JSON object, got '[1]'.",
        ),
        ({"a.jpg": b"", "a.json": b"{"}, "photos.tar/a.json: expected a JSON object, got '{'."),
        (
            {"a.jpg": b"", "a.json": b'{"tags": [3]}'},
            "photos.tar/a.jpg: expected a list of strings, or one separated by |, as tags, "
            "got '[3]'.",
        ),
        (
            {"a.jpg": b"", "a.cls": b"\xff"},
            "photos.tar/a.cls, line 1: expected text in UTF-8, got the byte 0xff.",
        ),
        (
            {"a.jpg": b"", "a.png": b""},
            "photos.tar/a.png must be the only photograph of its key, got",
        ),
    ],
)
def test_invalid_members_are_reported(tmp_path, members, message):
    path = write_tar(tmp_path / "photos.tar", members)
    with pytest.raises(StorageError) as raised:
        scan_tar(str(path))
    assert message in str(raised.value)


def test_compressed_and_truncated_tar_files_are_reported(tmp_path):
    path = write_tar(tmp_path / "photos.tar", {"a.jpg": bytes(5000), "b.jpg": bytes(5000)})
    (record, _) = scan_tar(str(path))
    content = path.read_bytes()
    for damaged in (gzip.compress(content), content[:3000], b"text"):
        path.write_bytes(damaged)
        with pytest.raises(StorageError, match=r"photos\.tar must be a whole tar file that is not"):
            scan_tar(str(path))
    path.write_bytes(content[:3000])
    with pytest.raises(StorageError, match=r"photos\.tar/a\.jpg must have 5000 bytes, got 2488: "):
        read_source(record.source)


def test_long_descriptions_and_sparse_members_are_not_read(tmp_path):
    path = write_tar(tmp_path / "photos.tar", {"a.jpg": b"", "a.json": b" " * (MAX_TEXT + 1)})
    with pytest.raises(StorageError, match=r"a\.json must have at most 1048576 bytes, got 1048577"):
        scan_tar(str(path))
    with tarfile.open(path, "w") as archive:
        for name in ("a.jpg", "b.jpg"):
            member = tarfile.TarInfo(name)
            member.size = 1
            if name == "b.jpg":  # As GNU tar writes a file with holes.
                sparse = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1"}
                sparse |= {"GNU.sparse.map": "0,1", "GNU.sparse.size": "1000000000000"}
                member.pax_headers = sparse
            archive.addfile(member, io.BytesIO(b"x"))
    assert [member for member, *_ in found(path)] == ["a.jpg"]
