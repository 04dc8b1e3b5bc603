import csv

import pytest

from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.folders.texts import Texts, read_texts


def write(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_sub_folders_are_labels_if_there_are_several(tmp_path):
    folder = write(tmp_path, b__10="ten", b__2="two", a__deep__x="été", top="no label")
    write(folder, **{".hidden": "no", "a__.hidden": "no", ".git__x": "no"})
    found = read_texts(folder)
    assert found == Texts(
        ["a/deep/x", "b/2", "b/10", "top"], ["été", "two", "ten", "no label"], ["a", "b", "b", None]
    )
    assert found.select([2, 0]) == Texts(["b/10", "a/deep/x"], ["ten", "été"], ["b", "a"])


def test_a_single_sub_folder_is_no_label(tmp_path):
    assert read_texts(write(tmp_path, all__1="a", all__2="b")).labels == [None, None]


def test_a_label_may_be_a_whole_number(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": 3}\n')
    assert read_texts(path).labels == ["3"]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv_with_any_separator_and_long_texts(tmp_path, separator):
    path = tmp_path / "a.csv"
    long = "word " * 40_000  # More than a cell of Python's reader has by default.
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerows([["id", "text", "label"], [1, "two\nlines", "x"], [2, long, ""]])
    before = csv.field_size_limit()
    assert read_texts(path) == Texts(["line 2", "line 4"], ["two\nlines", long], ["x", None])
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"text": "a"}\n[1]', "line 2: expected a JSON object, got '[1]'"),
        ("a.jsonl", b'{"body": "a"}', "line 1: expected a text in 'text', got 'null'"),
        ("a.jsonl", b'{"text": 3}', "line 1: expected a text in 'text', got '3'"),
        ("a.jsonl", b'{"text": "a", "label": [1]}', "expected a string in 'label', got '[1]'"),
        ("a.jsonl", b'{"text": "a"}\n\xff', "line 2: expected text in UTF-8, got the byte 0xff"),
        ("a.csv", b"id,body\n1,a", "one of them text, got 'id,body'"),
    ],
)
def test_errors_name_file_and_line(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(StorageError) as caught:
        read_texts(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_a_file_of_a_folder_must_be_text(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"fine\n\x80")
    with pytest.raises(StorageError, match=r"a\.txt, line 2: expected text in UTF-8"):
        read_texts(tmp_path)


def test_a_label_field_that_is_asked_for_must_exist(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n')
    with pytest.raises(StorageError, match="must have a field 'section', got none"):
        read_texts(path, label_field="section")


def test_other_places_are_refused(tmp_path):
    (tmp_path / "a.pdf").write_bytes(b"")
    with pytest.raises(InvalidArgument, match="must be a folder of text files"):
        read_texts(tmp_path / "a.pdf")
    for name in ("none.jsonl", "none"):
        with pytest.raises(StorageError, match="cannot be read: No such file"):
            read_texts(tmp_path / name)
