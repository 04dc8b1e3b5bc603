import gzip
import io
import pickle
import tarfile

import pytest
from tests.packed_photos import copy_to_memory, write_tar
from tests.textures import plain_packet

from supdocnade.errors import StorageError
from supdocnade.folders.photo_sources import (
    MAX_TEXT,
    expand_pattern,
    find_sources,
    scan_photographs,
    scan_tar,
)
from supdocnade.images.source import read_source, source_name

NAMES = ("sea/a.jpg", "sea/deep/b.jpg", "forest/c.jpg", "d.jpg", "_unlabelled/e.jpg")


@pytest.fixture
def folder(tmp_path):
    for name in (*NAMES, "sea/f.mov", ".hidden/g.jpg", "__MACOSX/sea/h.jpg", "table.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "metadata.jsonl").write_text('{"file_name": "d.jpg", "label": "x", "tags": "y"}\n')
    (tmp_path / "sea" / "a.jpg.xmp").write_bytes(plain_packet("keyword"))
    (tmp_path / "forest" / "c.XMP").write_bytes(plain_packet("tree"))
    return tmp_path


def described(found, root):
    return [
        (source_name(record.source).removeprefix(f"{root}/"), record.label, record.tags)
        for record in found.records
    ]


def test_a_folder_on_another_file_system_is_read_as_one_here(folder):
    address = copy_to_memory(folder, "test_photo_sources")
    here, there = scan_photographs(folder), scan_photographs(f"{address}/")
    assert (
        described(there, address)
        == described(here, folder)
        == [
            ("_unlabelled/e.jpg", None, None),
            ("d.jpg", "x", ("y",)),
            ("forest/c.jpg", "forest", ("tree",)),
            ("sea/a.jpg", "sea", ("keyword",)),
            ("sea/deep/b.jpg", "sea", None),
        ]
    )
    assert [note.replace(address, str(folder)) for note in there.notes] == list(here.notes)
    assert [read_source(record.source) for record in there.records] == [
        read_source(record.source) for record in here.records
    ]


def test_a_list_names_photographs_relative_to_its_folder(folder):
    lines = ["sea/deep/b.jpg", "", "./d.jpg", f"  {folder}/forest/c.jpg"]
    (folder / "some.txt").write_text("\r\n".join(lines))
    found = scan_photographs(folder / "some.txt")
    assert described(found, folder) == [
        ("sea/deep/b.jpg", "sea", None),
        ("d.jpg", "x", ("y",)),
        ("forest/c.jpg", "forest", ("tree",)),
    ]
    sources = find_sources(folder / "some.txt")
    assert [source for _, source in sources] == [record.source for record in found.records]
    assert [name for name, _ in sources][1:3] == ["d.jpg", "forest/c.jpg"]


def test_a_list_on_this_machine_finds_sidecars(folder):
    (folder / "some.txt").write_text("sea/a.jpg\nforest/c.jpg\n")
    assert [record.tags for record in scan_photographs(folder / "some.txt").records] == [
        ("keyword",),
        ("tree",),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n \n", r"some\.txt must list photographs, got none\.$"),
        ("d.jpg\n./d.jpg\n", r"some\.txt must name each photograph once, got .*d\.jpg twice\.$"),
        (
            "d.jpg\nftp://host/d.jpg\n",
            r"some\.txt must list paths of files, got 'ftp://host/d\.jpg'",
        ),
    ],
)
def test_bad_lists_are_reported(folder, text, message):
    (folder / "some.txt").write_text(text)
    with pytest.raises(StorageError, match=message):
        scan_photographs(folder / "some.txt")


def test_several_tar_files_are_read_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(9, 12):
        write_tar(tmp_path / f"p-{number:02}.tar", {f"{number}.jpg": b"", f"{number}.cls": b"sea"})
    names = ["p-09.tar/9.jpg", "p-10.tar/10.jpg", "p-11.tar/11.jpg"]
    for pattern in ("p-{09..11}.tar", "p-*.tar"):
        records = scan_photographs(pattern).records
        assert [source_name(record.source) for record in records] == names
        assert [name for name, _ in find_sources(pattern)] == names
    address = copy_to_memory(tmp_path, "test_pattern")
    records = scan_photographs(f"{address}/p-{{10..11}}.tar").records
    assert [source_name(record.source) for record in records] == [
        "memory://test_pattern/p-10.tar/10.jpg",
        "memory://test_pattern/p-11.tar/11.jpg",
    ]


def test_a_pattern_must_stand_for_files(tmp_path):
    with pytest.raises(StorageError, match=r"\*\.tar must stand for files, got none\."):
        expand_pattern(f"{tmp_path}/*.tar")
    with pytest.raises(StorageError, match=r"must have a range that rises, got \{3\.\.1\}\."):
        expand_pattern("p-{3..1}.tar")
    with pytest.raises(StorageError, match=r"p-1\.tar cannot be read: No such file"):
        scan_photographs(f"{tmp_path}/p-{{1..2}}.tar")
    (tmp_path / "p-{1..2}.tar").touch()
    assert expand_pattern(f"{tmp_path}/p-{{1..2}}.tar") == [f"{tmp_path}/p-{{1..2}}.tar"]


def test_names_of_a_folder_are_relative_to_it(folder):
    found = dict(find_sources(folder))
    assert sorted(found) == sorted(NAMES)
    assert found["sea/a.jpg"] == str(folder / "sea" / "a.jpg")
    assert find_sources(folder / "d.jpg") == [(str(folder / "d.jpg"), folder / "d.jpg")]


def test_a_list_on_another_file_system_names_photographs_there(folder):
    (folder / "some.txt").write_text("sea/a.jpg\n")
    address = copy_to_memory(folder, "test_remote_list")
    found = scan_photographs(f"{address}/some.txt")
    assert described(found, address) == [("sea/a.jpg", "sea", None)]
    assert read_source(found.records[0].source) == b"sea/a.jpg"


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
        ({"a.txt": b"text"}, "photos.tar contains no photographs."),
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
