import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from supdocnade import Corpus
from supdocnade.corpus import Documents
from supdocnade.corpus import tokens as tokens_module
from supdocnade.corpus.tokens import MemoryTokens, canonical_counts, check_indices
from supdocnade.errors import InvalidArgument

CODE = """
import tempfile, warnings
import numpy as np
from pathlib import Path
from scipy import sparse
from supdocnade import Corpus, DampCounts, DocNADE, SupDocNADE, make_annotation_scorer
from supdocnade.errors import InvalidArgument

warnings.simplefilter("ignore")
folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
X = sparse.csr_array(rng.poisson(1.0, (12, 7)).astype(float))
y, A = [0, 1] * 6, sparse.csr_array(np.eye(12, 3))
mask = np.arange(12) > 2
fast = {"n_topics": 4, "max_epochs": 1, "random_state": 0}
model = SupDocNADE(**fast).fit(X, y, annotations=A)
corpus = Corpus.create(folder / "corpus", n_words=7)

def damaged(kind, width):
    matrix = sparse.csr_array(rng.poisson(1.0, (12, width)) + 1.0).asformat(kind)
    place = matrix.coords[1] if kind == "coo" else matrix.indices
    place[3] = 2**30
    if kind == "coo":
        return matrix  # SciPy checks these when it reads them.
    sparse.save_npz(folder / "file.npz", matrix)
    return sparse.load_npz(folder / "file.npz")

def calls(kind):
    bad, tags = damaged(kind, 7), damaged(kind, 3)
    yield "fit", lambda: SupDocNADE(**fast).fit(bad, y)
    yield "DocNADE.fit", lambda: DocNADE(**fast).fit(bad)
    yield "partial_fit", lambda: SupDocNADE(**fast).partial_fit(bad, y, classes=[0, 1])
    yield "annotations", lambda: SupDocNADE(**fast).fit(X, y, annotations=tags)
    yield "masked", lambda: SupDocNADE(**fast).fit(X, y, annotations=tags, annotation_mask=mask)
    for name in ("predict", "predict_proba", "transform", "log_prob", "perplexity", "annotate",
                 "annotation_proba", "coherence", "completion_perplexity"):
        yield name, lambda name=name: getattr(model, name)(bad)
    yield "score", lambda: model.score(bad, y)
    yield "top_words", lambda: model.top_words(documents=bad)
    yield "scorer", lambda: make_annotation_scorer().score(model, X, annotations=tags)
    yield "DampCounts.fit", lambda: DampCounts().fit(bad)
    yield "DampCounts", lambda: DampCounts().fit(X).transform(bad)
    yield "Corpus.append", lambda: corpus.append(bad)

for kind in ("csr", "csc", "coo", "bsr"):
    for name, call in calls(kind):
        print(kind, name, end=" ", flush=True)
        try:
            call()
        except InvalidArgument as error:
            assert "lie within its shape" in str(error), error
            print("refused", flush=True)
        else:
            print("accepted", flush=True)
"""


def test_every_call_refuses_indices_outside_the_matrix():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    lines = done.stdout.splitlines()
    assert len(lines) == 4 * 20
    assert all(line.endswith(" refused") for line in lines), done.stdout


def small(**changes):
    matrix = sparse.csr_array(np.array([[1.0, 0, 2], [0, 3, 0]]))
    for name, value in changes.items():
        setattr(matrix, name, np.array(value))
    return matrix


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indices": [0, -1, 1]}, r"X .* shape \(2, 3\): got indices -1 .. 1 on an axis of 3"),
        ({"indices": [0, 2, 3]}, "got indices 0 .. 3 on an axis of 3"),
        ({"indices": [0.0, 2.0, 1.0]}, "indices must be a row of whole numbers"),
        ({"indices": [0, 2]}, "3 values have 2 indices"),
        ({"data": [1.0]}, "3 values have 3 indices"),
        ({"indptr": [0, 5, 0]}, "must be 3 numbers that rise from 0"),
        ({"indptr": [0, 2, 9]}, "9 values have 3 indices"),
        ({"indptr": [1, 2, 3]}, "must be 3 numbers that rise from 0"),
        ({"indptr": [0, 3]}, "must be 3 numbers that rise from 0"),
    ],
)
def test_each_fault_of_a_matrix_is_named(changes, message):
    with pytest.raises(InvalidArgument, match=message):
        check_indices("X", small(**changes))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
def test_counts_of_every_format_are_read(kind):
    matrix = small().asformat(kind)
    assert canonical_counts("X", matrix).toarray().tolist() == [[1, 0, 2], [0, 3, 0]]
    if kind in ("csr", "csc"):
        assert check_indices("X", matrix) is matrix


def test_coordinates_and_values_are_as_many():
    matrix = small().tocoo()
    matrix.coords = (matrix.coords[0][:2], matrix.coords[1])
    with pytest.raises(InvalidArgument, match="3 values have 2 indices"):
        check_indices("X", matrix)


RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(0.7, (40, 12)) * (RNG.random((40, 1)) < 0.9)
TAGS = RNG.poisson(0.3, (40, 5))


@pytest.fixture(params=[1.0, 0.3], ids=["whole", "fractions"])
def pair(request, tmp_path, monkeypatch):
    """The same documents in memory and on disk."""
    monkeypatch.setattr(tokens_module, "BLOCK_TOKENS", 30)
    corpus = Corpus.create(tmp_path / "corpus", n_words=12)
    for rows in np.array_split(np.arange(40), 4):
        corpus.append(sparse.csr_array(COUNTS[rows]))
    options = {"annotations": TAGS * request.param, "labels": np.arange(40) % 3, "n_classes": 3,
               "document_weight": RNG.random(40)}  # fmt: skip
    return Documents.from_counts(COUNTS, **options), Documents.from_counts(corpus, **options)


def assert_same_tokens(ours, theirs):
    np.testing.assert_array_equal(ours.ids_N, theirs.ids_N)
    assert ours.ids_N.dtype == theirs.ids_N.dtype
    assert (ours.weight_N is None) == (theirs.weight_N is None)
    if ours.weight_N is not None:
        np.testing.assert_array_equal(ours.weight_N, theirs.weight_N)
        assert ours.weight_N.dtype == theirs.weight_N.dtype


def assert_same_documents(ours, theirs):
    n = len(theirs)
    assert isinstance(theirs.tokens, MemoryTokens) != isinstance(ours.tokens, MemoryTokens)
    assert (len(ours), ours.tokens.weighted) == (n, theirs.tokens.weighted)
    np.testing.assert_array_equal(ours.length_B, theirs.length_B)
    np.testing.assert_array_equal(ours.size_B, theirs.size_B)
    np.testing.assert_array_equal(ours.word_counts(), theirs.word_counts())
    np.testing.assert_array_equal(ours.class_counts(), theirs.class_counts())
    np.testing.assert_array_equal(ours.annotation_presence(), theirs.annotation_presence())
    rng = np.random.default_rng(1)
    for rows in (np.arange(n), np.arange(0), rng.permutation(n), rng.integers(0, n, 7)):
        assert_same_tokens(ours.tokens.gather(rows), theirs.tokens.gather(rows))
        order = rng.permutation(int(theirs.length_B[rows].sum()))
        assert_same_tokens(ours.tokens.gather(rows, order), theirs.tokens.gather(rows, order))
    blocks = list(ours.tokens.blocks())
    assert np.concatenate([rows for rows, _ in blocks]).tolist() == list(range(n))
    whole = theirs.tokens.gather(np.arange(n)).ids_N
    np.testing.assert_array_equal(np.concatenate([each.ids_N for _, each in blocks]), whole)


def test_documents_on_disk_are_those_in_memory(pair):
    theirs, ours = pair
    assert_same_documents(ours, theirs)
    assert_same_documents(ours.without_annotations(), theirs.without_annotations())
    chosen = np.random.default_rng(2).permutation(40)[:25]
    assert_same_documents(ours.take(chosen), theirs.take(chosen))
    twice = ours.take(chosen).take([3, 3, 0]).without_annotations()
    assert_same_documents(twice, theirs.take(chosen).take([3, 3, 0]).without_annotations())


def test_the_fingerprint_sees_every_part(pair):
    _, ours = pair
    others = [
        ours,
        ours.take(np.arange(40)[::-1]),
        ours.take(np.arange(39)),
        ours.without_annotations(),
        Documents.from_counts(ours.tokens.words.corpus, annotations=2 * TAGS),
        Documents.from_counts(ours.tokens.words.corpus),
    ]
    assert len({other.fingerprint() for other in others}) == len(others)
    assert ours.take(np.arange(40)).fingerprint() == ours.fingerprint()
