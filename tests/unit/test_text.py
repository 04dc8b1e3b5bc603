import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supdocnade.errors import StorageError
from supdocnade.text import MAX_FILE_BYTES, line_error, read_file, read_lines, read_text


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_marks_and_line_ends_do_not_matter(tmp_path, mark, end):
    file = tmp_path / "file"
    file.write_bytes(mark + end.join(["Küste".encode(), b"", "\u2028\x0b".encode()]) + end)
    assert read_lines(file) == ["Küste", "", "\u2028\x0b"]


def test_the_last_line_needs_no_end(tmp_path):
    file = tmp_path / "file"
    for content, lines in ((b"", []), (b"\n", [""]), (b"a", ["a"]), (b"a\n\n", ["a", ""])):
        file.write_bytes(content)
        assert read_lines(file) == lines


@settings(deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"))))
def test_lines_are_read_back(tmp_path_factory, lines):
    file = tmp_path_factory.mktemp("lines") / "file"
    file.write_bytes("".join(f"{line}\n" for line in lines).encode())
    expected = [line.removeprefix("\ufeff") if i == 0 else line for i, line in enumerate(lines)]
    assert read_lines(file) == expected


def test_invalid_utf_8_is_named_by_its_line(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"one\ntwo\nK\xfcste\n")
    with pytest.raises(
        StorageError, match=r"file, line 3: expected text in UTF-8, got the byte 0x"
    ):
        read_text(file)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"none cannot be read: No such file"):
        read_lines(tmp_path / "none")


def test_a_long_line_is_shortened():
    error = line_error(Path("a"), 7, "less", "x" * 1000)
    assert str(error) == f"a, line 7: expected less, got {'x' * 80!r}."
    assert str(line_error(Path("a"), 7, "less", [1])) == "a, line 7: expected less, got '[1]'."


def test_pipes_devices_and_files_without_end_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", MAX_FILE_BYTES + 1)
    for name, message in (
        ("pipe", "must be a file"),
        ("device", "must be a file"),
        ("sparse", "is too large: 1073741825 bytes"),
        ("missing", "cannot be read: No such file"),
        (".", "cannot be read: Is a directory"),
    ):
        with pytest.raises(StorageError, match=f"{name} {message}"):
            read_text(tmp_path / name)
    assert read_file(tmp_path / "sparse", 8, 3, most=3) == bytes(3)
