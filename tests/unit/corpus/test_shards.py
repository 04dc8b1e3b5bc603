"""Damaged and forged corpora are refused with an error that names the file."""

import hashlib
import os
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from supdocnade import Corpus
from supdocnade.corpus.shards import KIND, shard_path
from supdocnade.errors import StorageError
from supdocnade.schema import save


@pytest.fixture
def corpus(tmp_path):
    corpus = Corpus.create(tmp_path / "corpus", n_words=4, encoder="sift")
    counts = np.array([[2, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 5, 0, 0]])
    corpus.append(counts, names=["a", "b", None, "Straße"], labels=["sea", None, "sea", "city"])
    corpus.append(np.array([[1, 3, 0, 0], [0, 0, 0, 3]]), tags=[["sand", "tide"], None])
    corpus.append([np.array([3, 0, 3]), np.array([], np.int8)], tags=[[], ("x",)])
    return corpus


@pytest.mark.parametrize("part", ["ids", "safetensors"])
def test_damage_to_any_file_is_found(corpus, part):
    """`verify` finds every change; reading without it gives an error or ids in range."""
    path = shard_path(corpus.folder, 1, part)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(100):
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
        with pytest.raises(StorageError, match=path.name):
            Corpus.open(corpus.folder, verify=True)
        with suppress(StorageError):
            counts = Corpus.open(corpus.folder).counts()
            assert counts.shape == (8, 4)
            assert np.isfinite(counts.data).all()
            assert counts.indices.max() < 4


def forge(corpus, ids):
    """Replace the ids of the second shard, and their checksum."""
    shard, content = corpus.shards[1], ids.tobytes()
    shard.path.write_bytes(content)
    checksum = hashlib.blake2b(content, digest_size=16).hexdigest()
    save(shard_path(corpus.folder, 1), KIND, replace(shard.record(), ids=checksum))
    return shard.path


IDS = [0, 1, 1, 1, 3, 3, 3]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.array(IDS, np.int64), "has 56 bytes, expected 28"),
        (np.array([*IDS[:-1], 4], np.int32), r"ids must lie in 0 .. 3, got 0 .. 4"),
        (np.array([-1, *IDS[1:]], np.int32), r"ids must lie in 0 .. 3, got -1 .. 3"),
        (np.array([1, 0, 1, 1, 3, 3, 3], np.int32), "ids must rise within a document"),
    ],
)
def test_forged_ids_are_refused(corpus, ids, message):
    path = forge(corpus, ids)
    with pytest.raises(StorageError, match=message) as caught:
        Corpus.open(corpus.folder, verify=True)
    assert str(path) in str(caught.value)
    # What only `verify` checks may be read, but gives no values out of range.
    with suppress(StorageError):
        opened = Corpus.open(corpus.folder)
        assert np.isfinite(opened.counts().data).all()


def test_missing_and_irregular_files_are_named(corpus):
    path = corpus.shards[0].path
    path.unlink()
    with pytest.raises(StorageError, match=r"shard-00000.ids cannot be read: No such file"):
        Corpus.open(corpus.folder)
    os.mkfifo(path)
    with pytest.raises(StorageError, match=r"shard-00000.ids is not a regular file"):
        Corpus.open(corpus.folder)
    with pytest.raises(StorageError, match=r"shard-00000.ids is not a regular file"):
        corpus.counts()
