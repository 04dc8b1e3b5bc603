"""Manifests of corpora: damaged and forged ones are refused, interrupted lines are ignored."""

import json

import numpy as np
import pytest

from supdocnade import Corpus
from supdocnade.corpus import manifest
from supdocnade.corpus.manifest import read_manifest, write_manifest
from supdocnade.errors import StorageError


@pytest.fixture
def corpus(tmp_path):
    corpus = Corpus.create(tmp_path / "corpus", n_words=4, encoder="sift")
    corpus.append(np.array([[2, 0, 1, 0], [0, 0, 0, 0]]), names=["a", "Straße"])
    corpus.append(np.array([[0.5, 2.25, 0, 0], [0, 0, 0, 3]]), tags=[["sand", "tide"], None])
    corpus.append([np.array([3, 0, 3]), np.array([], np.int8)], tags=[[], ("x",)])
    return corpus


def test_lines_are_as_documented(corpus):
    lines = (corpus.folder / "manifest.jsonl").read_bytes().splitlines()
    first, *shards = map(json.loads, lines)
    assert first == {"format": 2, "n_words": 4, "encoder": "sift", "checksum": first["checksum"]}
    assert [each["documents"] for each in shards] == [2, 2, 2]
    assert len({each["checksum"] for each in (first, *shards)}) == 4


def test_a_manifest_that_is_written_at_once_is_that_of_the_appends(corpus):
    path = corpus.folder / "manifest.jsonl"
    content = path.read_bytes()
    assert write_manifest(corpus.folder, read_manifest(corpus.folder)) == corpus._manifest
    assert path.read_bytes() == content


def test_every_flipped_byte_of_the_manifest_is_refused(corpus):
    path = corpus.folder / "manifest.jsonl"
    content = path.read_bytes()
    for place in range(len(content)):
        for bit in (place % 8, 5):  # The latter changes the case of letters.
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            path.write_bytes(flipped)
            with pytest.raises(StorageError, match=r"manifest.jsonl is damaged"):
                Corpus.open(corpus.folder)
    path.write_bytes(content)
    Corpus.open(corpus.folder, verify=True)


def test_a_truncated_manifest_is_refused_or_an_interrupted_append(corpus):
    """If only the last line is not whole, its shard is not there, and it can be appended."""
    path = corpus.folder / "manifest.jsonl"
    content = path.read_bytes()
    whole = content[:-1].rfind(b"\n") + 1
    for length in range(whole):
        path.write_bytes(content[:length])
        with pytest.raises(StorageError, match=r"manifest.jsonl is damaged"):
            Corpus.open(corpus.folder)
    for length in range(whole, len(content)):
        path.write_bytes(content[:length])
        opened = Corpus.open(corpus.folder)
        assert len(opened) == 4
    opened.append([np.array([3, 0, 3]), np.array([], np.int8)], tags=[[], ("x",)])
    assert path.read_bytes() == content
    assert Corpus.open(corpus.folder, verify=True).fingerprint() == corpus.fingerprint()


ODD = [None, -1, 0, 3, 2**60, 10**30, 0.5, "x", [], {}, [[]], True, "\u0000", "f" * 32]


def test_forged_manifests_are_refused_or_harmless(corpus):
    """With forged checksums as well, there is an error or a working corpus."""
    path = corpus.folder / "manifest.jsonl"
    stored = [json.loads(line) for line in path.read_bytes().splitlines()]
    for each in stored:
        del each["checksum"]
    messages = []
    places = [(line, name) for line in (0, 1, 2) for name in [*stored[line], "new"]]
    for line, name in places:
        for odd in ODD:
            forge(
                path, [{**each, name: odd} if n == line else each for n, each in enumerate(stored)]
            )
            try:
                opened = Corpus.open(corpus.folder, verify=True)
                assert (opened.n_words >= 4 and len(opened) == 6) or name == "encoder"
            except StorageError as error:
                messages.append(str(error))
    for odd in ([], [[]], ["x"]):
        forge(path, [*stored, odd])
        with pytest.raises(StorageError, match=r"manifest.jsonl is damaged"):
            Corpus.open(corpus.folder)
    assert len(messages) > 150
    assert all(str(corpus.folder) in each and "\n" not in each for each in messages)
    forge(path, [{**stored[0], "format": 3}, *stored[1:]])
    with pytest.raises(StorageError, match=r"manifest.jsonl has format 3, this version reads 2"):
        Corpus.open(corpus.folder)


def forge(path, lines):
    last, content = "", b""
    for each in lines:
        line, last = manifest._encode_line(each, last)
        content += line
    path.write_bytes(content)
