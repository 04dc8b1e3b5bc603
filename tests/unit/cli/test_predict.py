import io
import os
import threading

import pytest

from supdocnade.cli.predict import read_paths, stream_lines
from supdocnade.errors import StorageError


@pytest.fixture
def pipe():
    """Read end of a pipe as a file, and descriptor of its write end."""
    reading, writing = os.pipe()
    return open(reading, "rb", buffering=0), writing


def test_a_line_is_yielded_before_the_next_is_written(pipe):
    file, end = pipe
    batches = stream_lines(file)
    for number in range(3):
        os.write(end, b"name %d\n" % number)
        assert next(batches) == [b"name %d" % number]
    os.close(end)
    assert list(batches) == []


def test_incomplete_lines_wait_for_their_end(pipe):
    file, end = pipe
    batches = stream_lines(file)
    os.write(end, b"one\r\n\n  \ntw")
    assert next(batches) == [b"one"]
    os.write(end, b"o")
    os.close(end)  # The last line needs no end.
    assert list(batches) == [[b"two"]]


def test_many_lines_come_in_large_batches_and_few_are_read_ahead(pipe):
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
    batches = stream_lines(file, max_lines=100)
    found = next(batches)
    # A pipe holds 64 KiB, the reader as much, the queue 100 lines: far from all is read.
    assert len(written) < 25
    largest = 0
    for batch in batches:
        found += batch
        largest = max(largest, len(batch))
    writer.join()
    assert found == lines
    assert 50 < largest <= 100


def test_an_error_comes_after_the_lines_before_it():
    chunks = iter([b"a\nb\n"])

    class Broken(io.RawIOBase):
        def read(self, size):
            for chunk in chunks:
                return chunk
            raise OSError(5, "Input/output error")

    found = []
    with pytest.raises(OSError, match="Input/output"):
        found.extend(line for batch in stream_lines(Broken()) for line in batch)
    assert found == [b"a", b"b"]


def test_a_regular_file_is_one_batch(tmp_path):
    (tmp_path / "list").write_bytes(b"a b.jpg\r\n\n\xff.jpg")
    names = read_paths(str(tmp_path / "list"))
    assert names == [["a b.jpg", os.fsdecode(b"\xff.jpg")]]


def test_unreadable_lists_are_errors(tmp_path, monkeypatch):
    with pytest.raises(StorageError, match="none cannot be read: No such file"):
        read_paths(str(tmp_path / "none"))
    with pytest.raises(StorageError, match="cannot be read: Is a directory"):
        read_paths(str(tmp_path))
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(StorageError, match="standard input is closed"):
        read_paths("-")
