import json

import pytest

from supdocnade.errors import StorageError
from supdocnade.folders.metadata import (
    MetadataEntry,
    find_metadata,
    parse_rows,
    read_rows,
    summarize_errors,
)
from supdocnade.folders.photo_folder import scan_folder


def write(folder, name, text, encoding="utf-8"):
    (folder / name).write_bytes(text.encode(encoding))
    return folder / name


def read_metadata(path):
    errors = {}
    entries, _ = parse_rows(str(path), read_rows(path), errors)
    if errors:
        raise summarize_errors(errors)
    return entries


def test_json_lines(tmp_path):
    rows = [
        {"file_name": "a.jpg", "label": " sea ", "tags": ["sky", "sky", " sand "]},
        {"file_name": "./b/c.jpg", "label": None, "tags": []},
        {"file_name": "d.jpg", "label": "", "tags": None, "width": 3},
        {"file_name": "e.jpg", "label": 7, "tags": "sea|sky|"},
        {"file_name": "f.jpg", "tags": ""},
    ]
    text = "\r\n\r\n".join(json.dumps(row) for row in rows)
    entries = read_metadata(write(tmp_path, "metadata.jsonl", text, "utf-8-sig"))
    assert entries == {
        "a.jpg": MetadataEntry(1, True, "sea", ("sky", "sand")),
        "b/c.jpg": MetadataEntry(3, True, None, ()),
        "d.jpg": MetadataEntry(5, True, None, None),
        "e.jpg": MetadataEntry(7, True, "7", ("sea", "sky")),
        "f.jpg": MetadataEntry(9, False, None, ()),
    }


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_csv(tmp_path, end, encoding):
    lines = [
        "file_name,label,tags,note",
        'a.jpg,coast,sea|sky,"two',
        'lines, one cell"',
        "",
        '"b,c.jpg",,,',
        "Küste/d.jpg,Küste, sea ,",
    ]
    file = write(tmp_path, "metadata.csv", end.join(lines), encoding)
    assert read_metadata(file) == {
        "a.jpg": MetadataEntry(2, True, "coast", ("sea", "sky")),
        "b,c.jpg": MetadataEntry(5, True, None, ()),
        "Küste/d.jpg": MetadataEntry(6, True, "Küste", ("sea",)),
    }


@pytest.mark.parametrize("separator", [";", "\t"])
@pytest.mark.parametrize("name", ["file_name", '"file_name"', "File_Name"])
def test_csv_with_other_separators(tmp_path, separator, name):
    rows = [(name, "label", "tags"), ("a.jpg", "coast", "sea, calm|sky")]
    text = "".join(separator.join(row) + "\r\n" for row in rows)
    file = write(tmp_path, "metadata.csv", text, "utf-8-sig")
    assert read_metadata(file) == {"a.jpg": MetadataEntry(2, True, "coast", ("sea, calm", "sky"))}
    rows = [("file_name", "tags"), ("a.jpg", "b", "c")]
    file = write(tmp_path, "metadata.csv", "\n".join(map(separator.join, rows)))
    with pytest.raises(StorageError, match=r"line 2: expected 2 cells, got 'a\.jpg"):
        read_metadata(file)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("metadata.jsonl", "{}", "line 1: expected the name of a file as file_name, got 'None'"),
        ("metadata.jsonl", '\n["a.jpg"]', "line 2: expected a JSON object, got '[\"a.jpg\"]'"),
        ("metadata.jsonl", "a.jpg", "line 1: expected a JSON object, got 'a.jpg'"),
        ("metadata.jsonl", "[" * 100_000, "line 1: expected a JSON object"),
        ("metadata.jsonl", '{"file_name": 3}', "expected the name of a file as file_name, got '3'"),
        (
            "metadata.jsonl",
            '{"file_name": "a.jpg", "label": {"sea": 1}}',
            "line 1: expected a string as label, got \"{'sea': 1}\"",
        ),
        (
            "metadata.jsonl",
            '{"file_name": "a.jpg", "label": true}',
            "line 1: expected a string as label, got 'True'",
        ),
        (
            "metadata.jsonl",
            '{"file_name": "a.jpg", "tags": [1]}',
            "line 1: expected a list of strings, or one separated by |, as tags, got '[1]'",
        ),
        ("metadata.csv", "name,label\na.jpg,b\n", "line 1: expected different names of columns"),
        ("metadata.csv", "name;tags\na.jpg;b\n", "line 1: expected different names of"),
        ("metadata.csv", "file_name,tags,tags\n", "line 1: expected different names of columns"),
        ("metadata.csv", "file_name,tags\na.jpg\n", "line 2: expected 2 cells, got 'a.jpg'"),
        (
            "metadata.csv",
            f"file_name,tags\na.jpg,{1001 * 'x'}\n",
            "line 2: expected tags of at most 1000 characters",
        ),
        (
            "metadata.csv",
            f"file_name,label\na.jpg,{1001 * 'x'}\n",
            "line 2: expected a label of at most 1000 characters",
        ),
        ("metadata.csv", "file_name,tags\na.jpg,b,c\n", "line 2: expected 2 cells, got 'a.jpg,b"),
        ("metadata.csv", "file_name,tags\n,sea\n", "line 2: expected the name of a file"),
        ("metadata.csv", 'file_name\na.jpg\n"b.jpg\n', "line 3: expected a line of CSV, got"),
        ("metadata.csv", "file_name\na.jpg\nb.jpg\n./a.jpg\n", "line 4: expected each file once"),
    ],
)
def test_invalid_lines_are_reported(tmp_path, name, text, message):
    file = write(tmp_path, name, text)
    with pytest.raises(StorageError) as raised:
        read_metadata(file)
    assert str(file) in str(raised.value)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "name", ["../x.jpg", "a/../../x.jpg", "/etc/x.jpg", "C:\\x.jpg", "c:x.jpg", "\\\\host\\x.jpg"]
)
def test_paths_outside_the_folder_are_errors(tmp_path, name):
    file = write(tmp_path, "metadata.jsonl", json.dumps({"file_name": name}))
    with pytest.raises(StorageError, match="line 1: expected a path below"):
        read_metadata(file)


def test_only_one_metadata_file_is_allowed(tmp_path):
    assert find_metadata(tmp_path, []) is None
    assert find_metadata(tmp_path, ["metadata.csv"]) == str(tmp_path / "metadata.csv")
    with pytest.raises(StorageError, match=r"got metadata\.jsonl, metadata\.csv\."):
        find_metadata(tmp_path, ["metadata.jsonl", "metadata.csv"])


def test_other_invalid_lines_are_counted(tmp_path):
    text = "file_name,tags\nno comma\na.jpg,sky\nb.jpg,sky\nc.jpg,sky\n"
    metadata = write(tmp_path, "metadata.csv", text)
    write(tmp_path, "a.jpg", "")
    first = "line 2: expected 2 cells, got 'no comma'"
    lists = "wrong, too: supdocnade check lists them."
    with pytest.raises(StorageError) as error:
        scan_folder(tmp_path)
    assert str(error.value) == f"{metadata}, {first}; 2 other lines are {lists}"
    metadata.write_text("file_name,tags\nno comma\nno comma\n")
    with pytest.raises(StorageError) as error:
        read_metadata(metadata)
    assert str(error.value) == f"{metadata}, {first}; another line is {lists}"
