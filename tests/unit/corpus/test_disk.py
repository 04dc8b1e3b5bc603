"""Corpora on disk: documents are read back; wrong, damaged and forged ones refused."""

import hashlib
import os
import pickle
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from supdocnade import Corpus
from supdocnade.corpus import disk
from supdocnade.corpus.disk import SHARD, shard_path
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.schema import save
from supdocnade.storage import lock_folder

WHOLE = np.array([[2, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 5, 0, 0]])
MORE = np.array([[1, 3, 0, 0], [0, 0, 0, 3]])


def fill(folder):
    corpus = Corpus.create(folder, n_words=4, encoder="sift")
    corpus.append(WHOLE, names=["a", "b", None, "Straße"], labels=["sea", None, "sea", "city"])
    corpus.append(MORE, tags=[["sand", "tide"], None])
    corpus.append(np.array([[1, 0, 0, 2], [0, 0, 0, 0]]), tags=[[], ("x",)])
    return corpus


def verified(folder):
    corpus = Corpus.open(folder)
    corpus.verify()
    return corpus


@pytest.fixture
def corpus(tmp_path):
    return fill(tmp_path / "corpus")


EVERYTHING = np.vstack([WHOLE, MORE, [[1, 0, 0, 2], [0, 0, 0, 0]]])


def test_documents_are_read_back(corpus):
    for one in (corpus, verified(corpus.folder)):
        assert len(one) == 8
        assert one.shape == (8, 4)
        assert one.n_tokens == 3 + 0 + 4 + 5 + 1 + 3 + 3 + 3
        assert one.names == ["a", "b", None, "Straße", None, None, None, None]
        assert one.labels == ["sea", None, "sea", "city", None, None, None, None]
        assert one.tags == [None] * 4 + [["sand", "tide"], None, [], ["x"]]
        assert one.counts().toarray().tolist() == EVERYTHING.tolist()
        assert one.counts().has_canonical_format
        assert (one.encoder, len(one.shards)) == ("sift", 3)
        assert "8 documents over 4 words" in repr(one)


def test_files_are_as_documented(corpus):
    names = {path.name for path in corpus.folder.iterdir()} - {".lock"}
    stems = [f"shard-{n:05d}" for n in range(3)]
    assert names == {
        "corpus.safetensors",
        *(f"{stem}.{part}" for stem in stems for part in ("ids", "safetensors")),
    }  # fmt: skip
    assert np.fromfile(corpus.folder / "shard-00001.ids", "<i4").tolist() == [0, 1, 1, 1, 3, 3, 3]


def test_rows_are_indexed_as_in_an_array(corpus):
    chosen = ([5, 0, 0], [-1], np.arange(8) % 2 == 0, slice(2, 7, 2), 3, [])
    for rows in chosen:
        expected = np.atleast_2d(EVERYTHING[rows if np.size(rows) else slice(0)])
        assert corpus.counts(rows).toarray().tolist() == expected.tolist()
    for rows in ([8], [-9], ["a"], [0.5], [True]):
        with pytest.raises(InvalidArgument, match="rows must be numbers of 8 documents"):
            corpus.counts(rows)


@pytest.mark.parametrize("n_tokens", [1, 4, 5, 9, 1000])
def test_blocks_are_bounded_and_complete(corpus, n_tokens, monkeypatch):
    monkeypatch.setattr(disk, "BLOCK_TOKENS", n_tokens)
    blocks = list(corpus.blocks())
    assert np.vstack([block.toarray() for block in blocks]).tolist() == EVERYTHING.tolist()
    for block in blocks:
        assert block.shape[0] == 1 or np.ceil(block.data).sum() + block.shape[0] <= n_tokens


def test_keys_are_stored_if_they_are_given(corpus):
    corpus.append(MORE, keys=["f00", None])
    for one in (corpus, verified(corpus.folder)):
        assert one.keys == [None] * 8 + ["f00", None]
    with pytest.raises(InvalidArgument, match="the length 1 of keys must be 2"):
        corpus.append(MORE, keys=["f00"])


def test_the_fingerprint_sees_contents_and_order(tmp_path):
    def fingerprint(*parts, **options):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        corpus = Corpus.create(folder, n_words=2, **options)
        for part in parts:
            corpus.append(np.array(part))
        return corpus.fingerprint()

    first, second = [[1, 0]], [[0, 1]]
    different = [
        (first,), (second,), (first, second), (second, first), ([[1, 0], [0, 1]],),
    ]  # fmt: skip
    assert len({fingerprint(*parts) for parts in different}) == len(different)
    assert fingerprint(first, second) == fingerprint(first, second, encoder="sift")


@pytest.mark.parametrize(
    ("documents", "options", "message"),
    [
        (np.ones((1, 3)), {}, "documents must have 4 columns, got 3"),
        (np.array([[1, -2, 0, 0]]), {}, r"documents must not be negative, got -2"),
        (np.array([[np.nan, 0, 0, 0]]), {}, "documents must be finite"),
        (np.array([[0.5, 0, 0, 0]]), {}, "must have whole counts, got fractions"),
        (np.array([["a"] * 4]), {}, "documents must be a matrix of numbers"),
        (
            np.full((1, 4), 1e12),
            {},
            r"documents must add up to at most \d+ words, which .* got 4e\+12",
        ),
        (np.ones(4), {}, "documents must have two dimensions, got 1"),
        (np.ones((0, 4)), {}, "documents must be at least one, got none"),
        (WHOLE, {"names": ["a"]}, "names must be of 4 documents, got 1"),
        (WHOLE, {"names": "abcd"}, "names must be a list, got 'abcd'"),
        (WHOLE, {"labels": 3}, "labels must be a list, got 3"),
        (WHOLE, {"labels": [1, 2, 3, 4]}, r"labels\[0\] must be of type str, got 1"),
        (WHOLE, {"labels": [None, np.nan, "", ""]}, r"labels\[1\] must be of type str, got nan"),
        (WHOLE, {"tags": ["a"] * 4}, r"tags\[0\] must be a list, got 'a'"),
        (WHOLE, {"tags": [[], [], [], [3]]}, r"tags\[3\]\[0\] must be of type str, got 3"),
    ],
)
def test_wrong_documents_are_refused_and_nothing_is_stored(corpus, documents, options, message):
    before = {path.name for path in corpus.folder.iterdir()}
    with pytest.raises(InvalidArgument, match=message) as caught:
        corpus.append(documents, **options)
    assert "\n" not in str(caught.value)
    assert {path.name for path in corpus.folder.iterdir()} == before
    assert len(verified(corpus.folder)) == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_words": 0}, "n_words must be a whole number of at least 1, got 0"),
        ({"n_words": 2**31}, "n_words must be at most 2147483647"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, options, message):
    with pytest.raises(InvalidArgument, match=message):
        Corpus.create(tmp_path / "corpus", **options)
    assert not (tmp_path / "corpus").exists()


def test_folders_with_other_contents_are_refused(tmp_path, corpus):
    with pytest.raises(StorageError, match="holds a corpus already; open it"):
        Corpus.create(corpus.folder, n_words=4)
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(StorageError, match=r"must be empty for a new corpus, got"):
        Corpus.create(tmp_path, n_words=4)
    with pytest.raises(StorageError, match=r"photo.jpg cannot be written: File exists"):
        Corpus.create(tmp_path / "photo.jpg", n_words=4)
    with pytest.raises(StorageError, match=r"is not a corpus: it has no corpus.safetensors"):
        Corpus.open(tmp_path)
    with pytest.raises(StorageError, match=r"photo.jpg is not a corpus"):
        Corpus.open(tmp_path / "photo.jpg")


def test_one_of_two_appenders_is_refused(corpus):
    other = Corpus.open(corpus.folder)
    corpus.append(WHOLE)
    with pytest.raises(StorageError, match="has changed since it was opened; open it again"):
        other.append(MORE)
    assert other.counts().toarray().tolist() == EVERYTHING.tolist()  # Reading still works.
    with (
        lock_folder(corpus.folder),
        pytest.raises(StorageError, match="another process is writing to it"),
    ):
        corpus.append(MORE)
    corpus.append(MORE)
    again = verified(corpus.folder)
    assert again.counts().toarray().tolist() == np.vstack([EVERYTHING, WHOLE, MORE]).tolist()


@pytest.mark.parametrize("broken", ["write_atomically", "save"])
def test_a_failed_append_leaves_the_old_corpus(corpus, monkeypatch, broken):
    def fail(*arguments):
        raise StorageError("disk full")

    before = {path.name for path in corpus.folder.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(disk, broken, fail)
        with pytest.raises(StorageError, match="disk full"):
            corpus.append(MORE)
    assert {path.name for path in corpus.folder.iterdir()} == before
    assert len(verified(corpus.folder)) == len(corpus) == 8
    corpus.append(WHOLE)
    assert len(verified(corpus.folder)) == 12


def test_leftovers_of_a_killed_append_are_replaced(corpus):
    (corpus.folder / "shard-00003.ids").write_bytes(b"half of")
    assert len(verified(corpus.folder)) == 8
    corpus.append(WHOLE)
    assert len(verified(corpus.folder)) == 12


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_missing_shard_is_named(corpus, number):
    (corpus.folder / f"shard-0000{number}.safetensors").unlink()
    if number == 2:  # As after an append that was killed.
        assert len(Corpus.open(corpus.folder)) == 6
        (corpus.folder / "shard-00001.safetensors").unlink()
    with pytest.raises(StorageError, match="is damaged: "):
        Corpus.open(corpus.folder)


def test_a_full_disk_or_a_missing_folder_is_named(corpus, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match=r"shard-00003\S* cannot be written: No space left"):
            corpus.append(WHOLE)
    shutil.rmtree(corpus.folder)
    with pytest.raises(StorageError, match="cannot be written: No such file"):
        corpus.append(WHOLE)


GOLDEN = Path(__file__).parents[2] / "golden"


def test_a_corpus_of_an_earlier_version_is_read_and_appended_to(tmp_path):
    folder = tmp_path / "corpus"
    shutil.copytree(GOLDEN / "corpus_format_7", folder)
    corpus = verified(folder)
    assert corpus.fingerprint() == "9b27a357d9a32b112cfbb3988718c925"
    counts = [[2, 0, 1, 0], [0, 0, 0, 0], [1, 2, 0, 3]]
    assert corpus.counts().toarray().tolist() == counts
    assert corpus.names == ["a", "Straße", None]
    assert corpus.labels == ["sea", None, None]
    assert corpus.tags == [None, None, ["sand", "tide"]]
    other = Corpus.open(folder)
    corpus.append(WHOLE)
    with pytest.raises(StorageError, match="has changed since it was opened"):
        other.append(WHOLE)
    for one in (corpus, verified(folder)):
        assert one.counts().toarray().tolist() == [*counts, *WHOLE.tolist()]


def test_a_truncated_file_is_refused_while_it_is_read(corpus):
    assert corpus.counts([0]).toarray().tolist() == [[2, 0, 1, 0]]
    path = corpus.shards[0].path
    os.truncate(path, path.stat().st_size - 4)
    with pytest.raises(StorageError, match=r"shard-00000.ids is damaged: it has 44 bytes"):
        corpus.counts([3])


def test_a_corpus_can_be_pickled(corpus):
    copy = pickle.loads(pickle.dumps(corpus))
    assert copy.fingerprint() == corpus.fingerprint()
    assert (copy.counts() != corpus.counts()).nnz == 0


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
            verified(corpus.folder)
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
    save(shard_path(corpus.folder, 1), SHARD, replace(shard.record(), ids=checksum))


IDS = [0, 1, 1, 1, 3, 3, 3]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.array(IDS, np.int64), "has 56 bytes, not 28"),
        (np.array([*IDS[:-1], 4], np.int32), r"ids must lie in 0 .. 3, got 0 .. 4"),
        (np.array([-1, *IDS[1:]], np.int32), r"ids must lie in 0 .. 3, got -1 .. 3"),
        (np.array([1, 0, 1, 1, 3, 3, 3], np.int32), "ids must rise within a document"),
    ],
)
def test_forged_ids_are_refused(corpus, ids, message):
    forge(corpus, ids)
    with pytest.raises(StorageError, match=message) as caught:
        Corpus.open(corpus.folder).counts()
    assert str(corpus.folder) in str(caught.value)


def test_missing_and_irregular_files_are_named(corpus):
    path = corpus.shards[0].path
    path.unlink()
    with pytest.raises(StorageError, match=r"shard-00000.ids cannot be read: No such file"):
        Corpus.open(corpus.folder)
    os.mkfifo(path)
    with pytest.raises(StorageError, match=r"shard-00000.ids must be a file"):
        Corpus.open(corpus.folder)
    with pytest.raises(StorageError, match=r"shard-00000.ids must be a file"):
        corpus.counts()
