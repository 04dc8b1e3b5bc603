from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from supdocnade.errors import InvalidArgument
from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.scene.dataset import Photographs
from supdocnade.scene.training_set import (
    TrainingSet,
    training_set_from_storage,
    training_set_to_storage,
)

PHOTOGRAPHS = Photographs(
    sources=[b"a", b"b", b"c"],
    names=["a", "b", "c"],
    labels=["coast", None, "street"],
    tags=[["sea"], None, ["car", "sea"]],
)
COUNTS = sparse.csr_array([[4, 0, 9], [0, 1, 0], [0, 0, 16]])


def documents():
    return TrainingSet(PHOTOGRAPHS, COUNTS, np.ones(3, np.bool_)).damp(1.0)


def test_counts_are_damped_and_taken():
    assert documents().counts.toarray().tolist() == [[2, 0, 3], [0, 1, 0], [0, 0, 4]]
    some = documents().take(np.array([2, 0]))
    assert some.photographs.names == ["c", "a"]
    assert some.counts.toarray().tolist() == [[0, 0, 4], [2, 0, 3]]


def test_tags_are_annotations_and_unknown_ones_are_masked():
    tags = documents().encode_tags(AnnotationVocabulary(("car", "sea")))
    assert tags["annotations"].toarray().tolist() == [[0, 1], [0, 0], [1, 1]]
    assert tags["annotation_mask"].tolist() == [True, False, True]
    assert documents().encode_tags(AnnotationVocabulary(())) == {}


def test_names_stay_different_when_photographs_are_added_again():
    joined = documents()
    for keys in ("def", "ghi"):
        joined = joined.join(replace(documents(), photographs=replace(PHOTOGRAPHS, keys=[*keys])))
    assert joined.photographs.names == [
        *("a (before)", "b (before)", "c (before)"),
        *("a (before) (before)", "b (before) (before)", "c (before) (before)"),
        *("a", "b", "c"),
    ]


@pytest.mark.parametrize(
    "ends", [np.array([0, 99, 3, 4], np.uint64), np.array([0, 2**63 - 1, -1, 4])]
)
def test_ends_whose_differences_overflow_are_refused(ends):
    arrays = training_set_to_storage(documents())
    arrays["ends"] = ends
    with pytest.raises(InvalidArgument, match="out of range"):
        training_set_from_storage(arrays, 3, 0)
