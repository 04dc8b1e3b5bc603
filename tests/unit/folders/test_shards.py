import gzip
import pickle
import sys

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.packed_photos import copy_to_memory, write_parquet, write_tar

from supdocnade.errors import StorageError
from supdocnade.folders.photo_folder import ImageRecord
from supdocnade.folders.shards import scan_shard
from supdocnade.images.source import read_source, source_name


def found(path):
    """Return name within the shard, contents, class and tags of its photographs."""
    return [
        (record.source.member, read_source(record.source), record.label, record.tags)
        for record in scan_shard(str(path))
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
    address = copy_to_memory(tmp_path, "test_shards")
    assert found(f"{address}/photos.tar") == EXPECTED


def test_the_name_has_the_shard_and_the_source_can_be_pickled(tmp_path):
    path = write_tar(tmp_path / "photos.tar", MEMBERS)
    source = pickle.loads(pickle.dumps(scan_shard(str(path))[0].source))
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
            "photos.tar/a.json: expected a list of strings, or one separated by |, as tags, "
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
        scan_shard(str(path))
    assert message in str(raised.value)


def test_compressed_and_truncated_tar_files_are_reported(tmp_path):
    path = write_tar(tmp_path / "photos.tar", {"a.jpg": bytes(5000), "b.jpg": bytes(5000)})
    (record, _) = scan_shard(str(path))
    content = path.read_bytes()
    for damaged in (gzip.compress(content), content[:3000], b"text"):
        path.write_bytes(damaged)
        with pytest.raises(StorageError, match=r"photos\.tar must be a whole tar file that is not"):
            scan_shard(str(path))
    path.write_bytes(content[:3000])
    with pytest.raises(StorageError, match=r"photos\.tar/a\.jpg must have 5000 bytes, got 2488: "):
        read_source(record.source)


@pytest.fixture
def records(tmp_path):
    given = [("sea", ("sky",)), ("forest", ()), ("sea", None), ("forest", ("a", "b")), ("sea", ())]
    records = []
    for number, (label, tags) in enumerate(given):
        (tmp_path / f"{number}.jpg").write_bytes(f"photograph {number}".encode())
        records.append(ImageRecord(tmp_path / f"{number}.jpg", label, tags))
    return records


@pytest.mark.parametrize("with_names", [True, False])
def test_a_parquet_file_has_names_of_classes_and_tags(tmp_path, records, with_names):
    path = tmp_path / "photos.parquet"
    write_parquet(path, records, with_names=with_names, row_group_size=2)
    names = [f"{record.label}-{record.path.name}" for record in records]
    assert found(path) == [
        (name if with_names else str(number), record.path.read_bytes(), record.label, record.tags)
        for number, (name, record) in enumerate(zip(names, records, strict=True))
    ]


def test_a_parquet_file_on_another_file_system_is_the_same(tmp_path, records):
    path = write_parquet(tmp_path / "remote.parquet", records)
    address = copy_to_memory(tmp_path, "test_shards")
    assert found(f"{address}/remote.parquet") == found(path)


def write_table(path, **columns):
    parquet.write_table(pa.table(columns), path)
    return path


def test_images_may_be_plain_bytes_and_classes_strings(tmp_path):
    path = write_table(
        tmp_path / "plain.parquet", image=[b"a", b"b", None], label=["sea", None, " sky "]
    )
    first, second, third = scan_shard(str(path))
    assert [record.label for record in (first, second, third)] == ["sea", None, "sky"]
    assert [read_source(record.source) for record in (first, second)] == [b"a", b"b"]
    with pytest.raises(StorageError, match=r"plain\.parquet/2 must have the bytes of an image"):
        read_source(third.source)
    path = write_table(tmp_path / "bytes.parquet", image=[b"a"])
    assert found(path) == [("0", b"a", None, None)]


def test_a_file_that_was_replaced_is_read_again(tmp_path):
    for content in (b"before", b"after"):
        path = write_table(tmp_path / "replaced.parquet", image=[content])
        assert found(path) == [("0", content, None, None)]


def test_repeated_names_become_numbers(tmp_path):
    images = [{"bytes": b"a", "path": "1.jpg"}, {"bytes": b"b", "path": "1.jpg"}]
    path = write_table(tmp_path / "repeated.parquet", image=images)
    assert [name for name, *_ in found(path)] == ["0", "1"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"picture": [b"a"]},
            "bad.parquet must have a column image with bytes, got picture (binary).",
        ),
        ({"image": ["a.jpg"]}, "must have a column image with bytes, got image (string)."),
        (
            {"image": [b"a"], "label": [0.5]},
            "bad.parquet/0: expected a string or a list of strings as label, got '0.5'",
        ),
        (
            {"image": [b"a"], "tags": [[1]]},
            "bad.parquet/0: expected a list of strings, or one separated by |, as tags, got '[1]'",
        ),
        ({"image": pa.array([], pa.binary())}, "bad.parquet must hold photographs, got none."),
    ],
)
def test_invalid_columns_are_reported(tmp_path, columns, message):
    path = write_table(tmp_path / "bad.parquet", **columns)
    with pytest.raises(StorageError) as raised:
        scan_shard(str(path))
    assert message in str(raised.value)


def test_damaged_parquet_files_are_reported(tmp_path, records):
    path = write_parquet(tmp_path / "damaged.parquet", records)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(StorageError, match=r"damaged\.parquet cannot be read: "):
        scan_shard(str(path))


def test_labels_outside_the_names_of_classes_are_reported(tmp_path, records):
    path = tmp_path / "labels.parquet"
    table = parquet.read_table(write_parquet(path, records))
    for label, expected in ((-1, None), (1, "sea")):
        labels = pa.array([label] * len(records), pa.int64())
        parquet.write_table(table.set_column(1, "label", labels), path)
        assert {record.label for record in scan_shard(str(path))} == {expected}
    parquet.write_table(table.set_column(1, "label", pa.array([7] * len(records))), path)
    with pytest.raises(StorageError, match=r"sea-0\.jpg: expected a label below 2, got 7\."):
        scan_shard(str(path))


def test_without_pyarrow_the_extra_is_named(tmp_path, records, monkeypatch):
    path = write_parquet(tmp_path / "photos.parquet", records)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(StorageError, match=r"photos\.parquet needs an extra: .*\[parquet\]"):
        scan_shard(str(path))
