import hashlib
import io
import json
import os
import threading

import pytest
from tests.commands import draw, supdocnade
from tests.scene_model import small_model

from supdocnade.cli.predict import read_paths, stream_lines, write_predictions
from supdocnade.errors import StorageError
from supdocnade.runs import RunOptions
from supdocnade.visual_words.encoder import ImageEncoder

SKIP = RunOptions(on_error="skip")


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


@pytest.fixture(scope="module")
def fitted():
    return small_model().fitted_


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("photos"), n_per_class=3)


@pytest.fixture
def paths(photos):
    return sorted(photos.rglob("*.jpg"))


def test_files_have_the_lines_of_the_command(photos, paths, tmp_path):
    model = tmp_path / "scenes"
    small_model().save(model)
    printed = supdocnade("predict", model, photos, "--json", "--top", "2")
    done = supdocnade(
        "predict", model, photos, "-o", tmp_path / "out", "--top", "2", "--shard-size", "4"
    )
    assert (done.code, done.err) == (0, "")
    assert done.out == f"predictions of 9 photographs written to {tmp_path / 'out'}\n"
    manifest = json.loads((tmp_path / "out/manifest.json").read_bytes())
    assert (manifest["n_images"], manifest["n_errors"]) == (9, 0)
    assert [each["n_images"] for each in manifest["files"]] == [4, 4, 1]
    text = b""
    for each in manifest["files"]:
        content = (tmp_path / "out" / each["file"]).read_bytes()
        assert each["checksum"] == hashlib.blake2b(content, digest_size=16).hexdigest()
        text += content
    assert text.decode() == printed.out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "manifest.json",
        *(each["file"] for each in manifest["files"]),
    }
    assert not (tmp_path / "out.partial").exists()


def test_an_interrupted_run_resumes(fitted, paths, tmp_path, monkeypatch):
    write_predictions(fitted, paths, tmp_path / "whole", SKIP, shard_size=2)
    encode, seen = ImageEncoder.encode, []

    def killed(self, source, name="", device="cpu"):
        if len(seen) == 5:
            raise KeyboardInterrupt
        seen.append(name)
        return encode(self, source, name, device)

    monkeypatch.setattr(ImageEncoder, "encode", killed)
    with pytest.raises(KeyboardInterrupt):
        write_predictions(fitted, paths, tmp_path / "out", SKIP, shard_size=2)
    assert not (tmp_path / "out").exists()
    with pytest.raises(StorageError, match="other settings"):
        write_predictions(fitted, paths, tmp_path / "out", SKIP, top=1, shard_size=2)
    seen.clear()
    assert write_predictions(fitted, paths, tmp_path / "out", SKIP, shard_size=2) == []
    assert len(seen) == 5  # Two files of two were finished.
    for path in (tmp_path / "whole").iterdir():
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--cluster", "local"), "--cluster needs --output"),
        (("-o", "out", "--csv"), "--csv must not be given with --output"),
        (("-o", "out", "--write-xmp"), "--write-xmp must not be given with --output"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message, tmp_path):
    done = supdocnade("predict", tmp_path, tmp_path / "a.jpg", *options)
    assert done.code == 2
    assert message in done.err


def test_an_existing_folder_is_not_overwritten(fitted, paths, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letter.txt").write_text("keep")
    with pytest.raises(StorageError, match="must be a new or an empty folder"):
        write_predictions(fitted, paths, tmp_path / "out", SKIP)
