import io
import os
import threading
from pathlib import Path

import pytest

from supdocnade.cli.path_stream import arriving_lines, listed_names
from supdocnade.errors import StorageError


@pytest.fixture
def pipe():
    """Both ends of a pipe: a file to read, and the number of the other end."""
    reading, writing = os.pipe()
    return open(reading, "rb", buffering=0), writing


def test_a_line_is_handed_on_before_the_next_is_written(pipe):
    file, end = pipe
    parts = arriving_lines(file)
    for number in range(3):
        os.write(end, b"name %d\n" % number)
        assert next(parts) == [b"name %d" % number]
    os.close(end)
    assert list(parts) == []


def test_half_a_line_waits_for_its_other_half(pipe):
    file, end = pipe
    parts = arriving_lines(file)
    os.write(end, b"one\r\n\n  \ntw")
    assert next(parts) == [b"one"]
    os.write(end, b"o")
    os.close(end)  # The last line needs no end.
    assert list(parts) == [[b"two"]]


def test_many_lines_come_in_large_parts_and_few_wait(pipe):
    file, end = pipe
    lines = [b"%06d" % number for number in range(50_000)]
    written = []

    def write():
        with open(end, "wb", buffering=0) as out:
            for start in range(0, len(lines), 1000):
                out.write(b"".join(line + b"\n" for line in lines[start : start + 1000]))
                written.append(start)

    writer = threading.Thread(target=write)
    writer.start()
    parts = arriving_lines(file, at_once=100)
    found = next(parts)
    # A pipe holds 64 KiB, the reader as much, the queue 100 lines: far from all is read.
    assert len(written) < 25
    largest = 0
    for part in parts:
        found += part
        largest = max(largest, len(part))
    writer.join()
    assert found == lines
    assert 50 < largest <= 100


def test_what_goes_wrong_comes_after_what_came_before():
    chunks = iter([b"a\nb\n"])

    class Broken(io.RawIOBase):
        def read(self, size):
            for chunk in chunks:
                return chunk
            raise OSError(5, "Input/output error")

    found = []
    with pytest.raises(OSError, match="Input/output"):
        found.extend(line for part in arriving_lines(Broken()) for line in part)
    assert found == [b"a", b"b"]


def test_an_ordinary_file_is_known_as_a_whole(tmp_path):
    (tmp_path / "list").write_bytes(b"a b.jpg\r\n\n\xff.jpg")
    names = listed_names(str(tmp_path / "list"))
    assert names == [[Path("a b.jpg"), Path(os.fsdecode(b"\xff.jpg"))]]


def test_a_named_pipe_is_not(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    end = os.open(tmp_path / "pipe", os.O_RDWR)  # Waits for nobody.
    names = listed_names(str(tmp_path / "pipe"))
    assert not isinstance(names, list)
    os.write(end, b"one.jpg\n")
    assert next(names) == [Path("one.jpg")]
    os.close(end)
    assert list(names) == []


def test_what_cannot_be_read_is_named(tmp_path, monkeypatch):
    with pytest.raises(StorageError, match="none cannot be read: No such file"):
        listed_names(str(tmp_path / "none"))
    with pytest.raises(StorageError, match="cannot be read: Is a directory"):
        listed_names(str(tmp_path))
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(StorageError, match="standard input is closed"):
        listed_names("-")
