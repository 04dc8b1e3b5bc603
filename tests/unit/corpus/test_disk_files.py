"""Damaged and forged corpora are refused with an error that names the file."""

import os
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from supdocnade import Corpus
from supdocnade.corpus import manifest
from supdocnade.corpus.manifest import read_manifest, write_manifest
from supdocnade.errors import StorageError


@pytest.fixture
def corpus(tmp_path):
    corpus = Corpus.create(tmp_path / "corpus", n_words=4, encoder="sift")
    counts = np.array([[2, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 5, 0, 0]])
    corpus.append(counts, names=["a", "b", None, "Straße"], labels=["sea", None, "sea", "city"])
    corpus.append(np.array([[0.5, 2.25, 0, 0], [0, 0, 0, 3]]), tags=[["sand", "tide"], None])
    corpus.append([np.array([3, 0, 3]), np.array([], np.int8)], tags=[[], ("x",)])
    return corpus


FILES = [f"shard-00001.{part}" for part in ("ids.npy", "offsets.npy", "counts.npy", "json")]


@pytest.mark.parametrize("name", FILES)
def test_damage_to_any_file_is_found(corpus, name):
    """`verify` finds every change; reading without it gives an error or ids in range."""
    path = corpus.folder / name
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(400):
        damaged = bytearray(content)
        place = int(rng.integers(len(content)))
        match rng.integers(4):
            case 0:
                damaged[place] ^= 1 << int(rng.integers(8))
            case 1:
                damaged[place:] = b""
            case 2:
                damaged[place:place] = rng.bytes(int(rng.integers(1, 9)))
            case _:
                del damaged[place : place + int(rng.integers(1, 99))]
        if damaged == content:
            continue
        path.write_bytes(damaged)
        with pytest.raises(StorageError, match=name):
            Corpus.open(corpus.folder, verify=True)
        with suppress(StorageError):
            counts = Corpus.open(corpus.folder).counts()
            assert counts.shape == (8, 4)
            assert np.isfinite(counts.data).all()
            assert counts.indices.max() < 4


def forge(corpus, part, content):
    """Replace a file of the second shard, and its checksum."""
    path = corpus.shards[1].path(part)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with open(path, "wb") as file:
            np.save(file, content, allow_pickle=content.dtype == object)
    stored = read_manifest(corpus.folder)
    checksum = manifest.checksum(path.read_bytes())
    stored.shards[1] = replace(stored.shards[1], **{part: checksum})
    write_manifest(corpus.folder, stored)
    return path


IDS = [0, 1, 1, 1, 3, 3, 3]
COUNTS = [0.5, 2.25, 2.25, 2.25, 3, 3, 3]


@pytest.mark.parametrize(
    ("part", "content", "message"),
    [
        ("ids", np.array(IDS, np.int64), "must be a .npy array of 7 <i4"),
        ("ids", np.array(IDS, ">i4"), "must be a .npy array of 7 <i4"),
        ("ids", np.array(IDS[:-1], np.int32), "must be a .npy array of 7 <i4"),
        ("ids", np.array([IDS], np.int32), "must be a .npy array of 7 <i4"),
        ("ids", np.array(IDS, object), "must be a .npy array of 7 <i4"),
        ("ids", b"", "must be a .npy array of 7 <i4"),
        ("ids", b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535, "must be a .npy array of 7 <i4"),
        ("ids", np.array([*IDS[:-1], 4], np.int32), r"ids must lie in 0 .. 3, got 0 .. 4"),
        ("ids", np.array([-1, *IDS[1:]], np.int32), r"ids must lie in 0 .. 3, got -1 .. 3"),
        ("ids", np.array([1, 0, 1, 1, 3, 3, 3], np.int32), "ids must rise within a document"),
        ("offsets", np.array([0, 4, 8]), "offsets must rise from 0 to 7"),
        ("offsets", np.array([0, 8, 7]), "offsets must rise from 0 to 7"),
        ("offsets", np.array([1, 4, 7]), "offsets must rise from 0 to 7"),
        ("offsets", np.array([0, -4, 7]), "offsets must rise from 0 to 7"),
        ("offsets", np.array([0, 2**63 - 1, 7]), "offsets must rise from 0 to 7"),
        ("offsets", np.array([0, 7]), "must be a .npy array of 3 <i8"),
        ("counts", np.array([np.nan, *COUNTS[1:]]), "counts must be finite and above 0"),
        ("counts", np.array([*COUNTS[:-1], np.inf]), "counts must be finite and above 0"),
        ("counts", np.array([0, *COUNTS[1:]]), "counts must be finite and above 0"),
        ("counts", np.array(COUNTS, np.float32), "must be a .npy array of 7 <f8"),
        ("counts", np.array([1.5, *COUNTS[1:]]), r"a count x must have ceil\(x\) tokens"),
        ("counts", np.array([0.5, 2.25, 2.5, 2.25, 3, 3, 3]), "a count x must have"),
        ("records", b"", "Expecting value"),
        ("records", b"[]", "no attribute"),
        ("records", b'{"names": []}', "it has the entries"),
        ("records", b'{"names": [1, 2], "labels": [], "tags": []}', "names must be str or None"),
        ("records", b'{"names": null, "labels": [], "tags": []}', "names must be a list of 2"),
        ("records", b"[" * 100_000, "is damaged"),
        ("records", b"\xff\xfe", "is damaged"),
    ],
)
def test_forged_files_are_refused(corpus, part, content, message):
    path = forge(corpus, part, content)
    with pytest.raises(StorageError, match=message) as caught:
        Corpus.open(corpus.folder, verify=True)
    assert str(path) in str(caught.value)
    # What only `verify` checks may be read, but gives no values out of range.
    with suppress(StorageError):
        opened = Corpus.open(corpus.folder)
        assert np.isfinite(opened.counts().data).all()
        assert len(opened.names) == len(opened.labels) == len(opened.tags) == 8


def test_missing_and_irregular_files_are_named(corpus):
    path = corpus.shards[0].path("ids")
    path.unlink()
    with pytest.raises(StorageError, match=r"shard-00000.ids.npy cannot be read: No such file"):
        Corpus.open(corpus.folder)
    os.mkfifo(path)
    with pytest.raises(StorageError, match=r"shard-00000.ids.npy is not a regular file"):
        Corpus.open(corpus.folder)
    with pytest.raises(StorageError, match=r"shard-00000.ids.npy is not a regular file"):
        corpus.counts()
