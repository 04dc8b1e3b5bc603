from dataclasses import replace

import numpy as np
from scipy import sparse

from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.scene.dataset import Photographs
from supdocnade.scene.training_set import TrainingSet

PHOTOGRAPHS = Photographs(
    sources=[b"a", b"b", b"c"],
    names=["a", "b", "c"],
    labels=["coast", None, "street"],
    tags=[["sea"], None, ["car", "sea"]],
)
COUNTS = sparse.csr_array([[4, 0, 9], [0, 1, 0], [0, 0, 16]])
MIRRORED = sparse.csr_array([[9, 0, 4], [0, 1, 0], [16, 0, 0]])


def documents(mirrored=MIRRORED):
    return TrainingSet(PHOTOGRAPHS, COUNTS, np.ones(3, np.bool_), mirrored).damp(1.0)


def test_mirror_images_follow_with_the_labels_and_tags_of_their_photographs():
    both = documents()
    assert both.document_counts.toarray().tolist() == [
        [2, 0, 3],
        [0, 1, 0],
        [0, 0, 4],
        [3, 0, 2],
        [0, 1, 0],
        [4, 0, 0],
    ]
    assert both.document_labels == ["coast", None, "street", "coast", None, "street"]
    tags = both.document_tags(AnnotationVocabulary(("car", "sea")))
    assert tags["annotations"].toarray().tolist() == 2 * [[0, 1], [0, 0], [1, 1]]
    assert tags["annotation_mask"].tolist() == 2 * [True, False, True]


def test_a_photograph_is_taken_with_its_mirror_image():
    some = documents().take(np.array([2, 0]))
    assert some.photographs.names == ["c", "a"]
    assert some.document_counts.toarray().tolist() == [[0, 0, 4], [2, 0, 3], [4, 0, 0], [3, 0, 2]]


def test_without_mirror_images_there_are_photographs_alone():
    one = documents(None)
    assert one.document_counts.toarray().tolist() == [[2, 0, 3], [0, 1, 0], [0, 0, 4]]
    assert one.document_labels == PHOTOGRAPHS.labels
    assert one.document_tags(AnnotationVocabulary(())) == {}


def test_names_stay_different_when_photographs_are_added_again():
    joined = documents()
    for keys in ("def", "ghi"):
        joined = joined.join(replace(documents(), photographs=replace(PHOTOGRAPHS, keys=[*keys])))
    assert joined.photographs.names == [
        *("a (before)", "b (before)", "c (before)"),
        *("a (before) (before)", "b (before) (before)", "c (before) (before)"),
        *("a", "b", "c"),
    ]
