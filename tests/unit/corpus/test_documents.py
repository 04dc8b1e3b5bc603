import numpy as np
import pytest
from scipy import sparse

from supdocnade.corpus import Documents
from supdocnade.corpus.documents import NO_LABEL
from supdocnade.errors import InvalidArgument


@pytest.fixture
def corpus():
    return Documents.from_counts(
        [[2, 0, 1], [0, 0, 0], [0, 3, 0.5]],
        annotations=[[1, 0], [0, 2], [1, 1]],
        labels=[1, NO_LABEL, 0],
        n_classes=2,
        document_weight=[1, 2, 0.5],
    )


def test_tokens_by_hand(corpus):
    assert corpus.tokens.ids_N.tolist() == [0, 0, 2, 3, 4, 4, 1, 1, 1, 2, 3, 4]
    assert corpus.tokens.offsets_B1.tolist() == [0, 4, 6, 12]
    assert corpus.tokens.weight_N.tolist() == [1] * 9 + [0.5, 1, 1]
    assert corpus.size_B.tolist() == [4.0, 2.0, 5.5]
    assert (len(corpus), corpus.n_words) == (3, 5)
    # Documents count by their weights 1, 2 and 0.5.
    assert corpus.word_counts().tolist() == [2, 1.5, 1 + 0.25, 1 + 0.5, 4 + 0.5]
    assert corpus.class_counts().tolist() == [0.5, 1]


def test_whole_counts_need_no_weights():
    assert Documents.from_counts([[1, 2]]).tokens.weight_N is None


@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array, np.array])
@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.uint8])
def test_every_kind_of_matrix_gives_the_same_documents(make, dtype):
    counts = np.array([[2, 0, 1], [0, 4, 0]], dtype)
    expected = Documents.from_counts(counts.tolist())
    assert Documents.from_counts(make(counts)).fingerprint() == expected.fingerprint()


def test_unknown_annotations_leave_no_tokens():
    corpus = Documents.from_counts(
        [[1], [1]], annotations=[[1], [1]], annotation_mask=[True, False]
    )
    assert corpus.tokens.ids_N.tolist() == [0, 1, 0]


def test_global_features_follow_their_documents():
    features = np.arange(6).reshape(3, 2)
    corpus = Documents.from_counts([[1], [2], [3]], global_features=features)
    assert corpus.n_global_features == 2
    taken = corpus.take([2, 0]).without_annotations()
    assert taken.global_features_BF.tolist() == [[4, 5], [0, 1]]
    assert Documents.from_counts([[1]]).n_global_features == 0


def test_annotations_that_are_no_words():
    corpus = Documents.from_counts(
        [[1, 1], [2, 0], [0, 1]],
        annotations=[[0, 2], [5, 5], [0, 0]],
        annotation_mask=[True, False, True],
        document_weight=[1, 2, 3],
        annotations_are_words=False,
    )
    assert (corpus.n_words, corpus.n_annotation_words) == (2, 2)
    assert corpus.tokens.ids_N.tolist() == [0, 1, 0, 0, 1]
    assert corpus.tag_BA.tolist() == [[0, 1], [-1, -1], [0, 0]]
    assert corpus.annotation_presence().tolist() == [[False, True], [False, False], [False, False]]
    assert [counts.tolist() for counts in corpus.presence_counts(corpus.tag_BA)] == [[0, 1], [4, 3]]
    taken = corpus.take([2, 1])
    assert taken.tag_BA.tolist() == [[0, 0], [-1, -1]]
    assert corpus.fingerprint() != corpus.take([0, 1, 1]).fingerprint()
    none = Documents.from_counts([[1]], annotations=[[]], annotations_are_words=False)
    assert none.tag_BA is None


def test_several_labels_per_document():
    labels = [[0, 1], [-1, -1], [1, -1]]
    corpus = Documents.from_counts(
        [[1], [2], [3]], labels=labels, n_classes=2, document_weight=[1, 2, 3]
    )
    assert corpus.label_BC.tolist() == labels
    assert corpus.label_B.tolist() == [-1, -1, -1]
    assert [counts.tolist() for counts in corpus.presence_counts(corpus.label_BC)] == [
        [3, 1],
        [1, 0],
    ]
    assert corpus.take([2, 0]).label_BC.tolist() == [[1, -1], [0, 1]]
    assert corpus.fingerprint() != corpus.take([0, 1, 1]).fingerprint()
    assert Documents.from_counts([[1]]).label_BC is None


def test_visual_words_alone(corpus):
    visual = corpus.without_annotations()
    assert visual.tokens.ids_N.tolist() == [0, 0, 2, 1, 1, 1, 2]
    assert visual.tokens.offsets_B1.tolist() == [0, 3, 3, 7]
    assert visual.n_annotation_words == 2


def test_the_fingerprint_sees_every_part(corpus):
    others = [
        Documents.from_counts([[1, 0]]),
        Documents.from_counts([[0, 1]]),
        Documents.from_counts([[0.5, 0]]),
        Documents.from_counts([[1, 0, 0]]),
        Documents.from_counts([[1, 0]], labels=[0], n_classes=1),
        Documents.from_counts([[1, 0]], labels=[[0]], n_classes=1),
        Documents.from_counts([[1, 0]], document_weight=[2]),
        Documents.from_counts([[1]], annotations=[[0]]),
        Documents.from_counts([[1, 0]], global_features=[[1, 2]]),
        Documents.from_counts([[1, 0]], global_features=[[2, 1]]),
        corpus,
    ]
    assert len({other.fingerprint() for other in others}) == len(others)


@pytest.mark.parametrize(
    ("counts", "options", "message"),
    [
        ([[1, -2]], {}, r"counts must not be negative, got -2.0"),
        ([[1, np.nan]], {}, "counts must be finite"),
        ([[np.inf]], {}, "counts must be finite"),
        ([1, 2], {}, "counts must have two dimensions, got 1"),
        ([["a"]], {}, "counts must be a matrix of numbers"),
        ([[1]], {"annotations": [[1], [2]]}, r"annotations must have shape \(1,\), got \(2,\)"),
        ([[1]], {"annotations": [[-1]]}, "annotations must not be negative"),
        (
            [[1]],
            {"annotations": [[1]], "annotation_mask": [True, True]},
            "annotation_mask must have",
        ),
        (
            [[1]],
            {"global_features": [1]},
            r"global_features must have a row for .* got shape \(1,\)",
        ),
        ([[1]], {"global_features": [[1], [2]]}, r"each of the 1 documents .* got shape \(2, 1\)"),
        ([[1]], {"global_features": [[]]}, "global_features .* at least one column"),
        ([[1]], {"global_features": [[np.nan]]}, "global_features must be finite"),
        ([[1]], {"global_features": [["a"]]}, "global_features must be a table of numbers"),
        ([[1]], {"global_features": sparse.eye_array(1)}, "global_features must be a dense array"),
    ],
)
def test_wrong_input_is_refused(counts, options, message):
    with pytest.raises(InvalidArgument, match=message):
        Documents.from_counts(counts, **options)
