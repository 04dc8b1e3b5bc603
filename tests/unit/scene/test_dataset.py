from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from tests.textures import as_png, stripes, write_images

from supdocnade.errors import InvalidArgument
from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.images.reading import read_with_key
from supdocnade.scene.dataset import (
    Photographs,
    TrainingSet,
    read_photographs,
)


def made(labels, sources=None):
    sources = sources or [as_png(stripes(number, (16, 16))) for number in range(len(labels))]
    return Photographs(
        sources=sources,
        names=[f"image {number}" for number in range(len(labels))],
        labels=labels,
        tags=[None] * len(labels),
    )


def test_a_folder_has_its_own_labels_and_tags(tmp_path):
    write_images(tmp_path / "sea", 2)
    write_images(tmp_path / "wood", 1)
    (tmp_path / "metadata.csv").write_text("file_name,tags\nsea/000.png,Boat|sun\n")
    found = read_photographs(tmp_path)
    assert found.labels == ["sea", "sea", "wood"]
    assert [None if tags is None else list(tags) for tags in found.tags] == [
        ["Boat", "sun"],
        None,
        None,
    ]
    assert found.classes == ["sea", "wood"]
    assert found.label_numbers(["wood", "sea"]).tolist() == [1, 1, 0]
    with pytest.raises(InvalidArgument, match="labels and tags must be None with a folder"):
        read_photographs(tmp_path, labels=["a"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": ["a"]}, "labels must have an entry for each of the 2 images, got 1"),
        ({"tags": [None]}, "tags must have an entry for each of the 2 images, got 1"),
        ({"labels": ["a", 3]}, "labels must be strings"),
        ({"labels": ["a", ""]}, "labels must be strings"),
        ({"labels": ["a", ["a", "b"]]}, "several names of a photograph are its tags"),
        ({"labels": ["a", "a|b"]}, "several names of a photograph are its tags"),
        ({"tags": ["sea", "sun"]}, "tags must be lists of strings"),
        ({"tags": [3, None]}, "tags must be lists of strings"),
    ],
)
def test_invalid_labels_and_tags_are_refused(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        read_photographs([stripes(0), stripes(1)], **arguments)


def with_keys(*arguments):
    found = read_photographs(*arguments)
    return replace(found, keys=[read_with_key(source)[1] for source in found.sources])


def test_fingerprints_depend_on_contents_and_not_on_names(tmp_path):
    paths = write_images(tmp_path, 3)
    one = with_keys(paths, ["a", "b", None], [["x", "y"], None, []])
    moved = [path.rename(path.with_stem(f"z{path.stem}")) for path in paths][::-1]
    other = with_keys(moved, [None, "b", "a"], [[], None, ["y", "x"]])
    assert one.fingerprint() == other.fingerprint()
    assert one.fingerprint() != with_keys(moved, [None, "b", "b"]).fingerprint()
    assert one.take([0]).fingerprint() != one.fingerprint()


def test_taking_some():
    some = made(["a", "b", None]).take(np.array([2, 0]))
    assert some.labels == [None, "a"]
    assert len(some) == 2


PHOTOGRAPHS = Photographs(
    sources=[b"a", b"b", b"c"],
    names=["a", "b", "c"],
    labels=["coast", None, "street"],
    tags=[["sea"], None, ["car", "sea"]],
    keys=[*"abc"],
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
    vocabulary = AnnotationVocabulary(("car", "sea"))
    photographs = documents()
    classes = photographs.photographs.classes
    found = photographs.documents(vocabulary, classes, annotations_are_words=False)
    assert found.tag_BA.tolist() == [[0, 1], [-1, -1], [1, 1]]
    assert (found.n_classes, found.label_B.tolist()) == (2, [0, -1, 1])
    none = photographs.documents(AnnotationVocabulary(()), [], annotations_are_words=True)
    assert none.n_annotation_words == none.n_classes == 0


def test_names_stay_different_when_photographs_are_added_again():
    joined = documents()
    for keys in ("def", "ghi"):
        joined = joined.join(replace(documents(), photographs=replace(PHOTOGRAPHS, keys=[*keys])))
    assert joined.photographs.names == [
        *("a (before)", "b (before)", "c (before)"),
        *("a (before) (before)", "b (before) (before)", "c (before) (before)"),
        *("a", "b", "c"),
    ]


def test_what_a_folder_passes_over_is_a_warning(tmp_path):
    write_images(tmp_path / "sea", 1)
    (tmp_path / "sea" / "film.mov").touch()
    with pytest.warns(UserWarning, match=r"ignored: 1 \.mov"):
        found = read_photographs(tmp_path)
    assert found.labels == ["sea"]
