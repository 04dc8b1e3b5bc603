from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.textures import as_png, stripes, write_images

from supdocnade.errors import InvalidArgument
from supdocnade.scene.dataset import Photographs, expand_folders, hold_out, read_photographs


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
    (tmp_path / "tags.tsv").write_text("sea/000.png\tBoat|sun\n")
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


def test_lists_may_miss_labels_and_tags():
    images = [stripes(0), stripes(1), stripes(2)]
    found = read_photographs(images, ["a", None, float("nan")], [["x"], [], None])
    assert found.labels == ["a", None, None]
    assert found.tags == [["x"], [], None]
    assert found.label_numbers(["a"]).tolist() == [0, -1, -1]
    assert read_photographs(images).labels == [None] * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": ["a"]}, "labels must have an entry for each of the 2 images, got 1"),
        ({"tags": [None]}, "tags must have an entry for each of the 2 images, got 1"),
        ({"labels": ["a", 3]}, "labels must be strings"),
        ({"labels": ["a", ""]}, "labels must be strings"),
        ({"labels": [["a", 3], ["a"]]}, "or lists of strings for several labels"),
        ({"tags": ["sea", "sun"]}, "tags must be lists of strings"),
        ({"tags": [3, None]}, "tags must be lists of strings"),
    ],
)
def test_invalid_labels_and_tags_are_refused(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        read_photographs([stripes(0), stripes(1)], **arguments)


def test_several_labels():
    some = ["b|a", ("b",), {"a"}, [], None, "b"]
    photographs = read_photographs([stripes(n) for n in range(6)], some)
    assert photographs.labels == ["a|b", "b", "a", "|", None, "b"]
    assert photographs.classes == ["a", "b"]
    assert photographs.count_classes() == {"a": 2, "b": 3}
    known, members = photographs.class_members(["a", "b", "c"])
    assert known.tolist() == [0, 1, 2, 3, 5]
    assert members[:, :2].astype(int).tolist() == [[1, 1], [0, 1], [1, 0], [0, 0], [0, 1]]
    assert not members[:, 2].any()
    # The rarest label; one with too few photographs only if there is no other.
    assert photographs.main_labels() == ["a", "b", "a", "|", None, "b"]
    assert photographs.take([1, 5]).several_labels
    assert not read_photographs([stripes(0)], ["a"]).several_labels


def test_a_share_of_several_labels_is_held_out():
    labels = [["a", "b"] if n % 2 else ["b"] for n in range(40)]
    labels[1] = ["a", "rare"]
    photographs = read_photographs([stripes(n) for n in range(40)], labels)
    assert photographs.main_labels()[:3] == ["b", "a", "b"]
    held = hold_out(photographs, 0.25, seed=0)
    assert held.sum() == 10


def test_folders_are_expanded(tmp_path):
    paths = [str(path) for path in write_images(tmp_path / "a", 2)]
    image = stripes(0)
    assert expand_folders(tmp_path) == paths
    found = expand_folders([image, tmp_path / "a", paths[0]])
    assert found[0] is image
    assert found[1:] == [*paths, paths[0]]
    assert expand_folders(paths[0]) == [paths[0]]


def test_a_share_of_every_class_is_held_out():
    labels = ["a"] * 40 + ["b"] * 20 + ["c"] * 4 + [None] * 20
    held = hold_out(made(labels), 0.15, seed=0)
    counts = Counter(label for label, out in zip(labels, held, strict=True) if out)
    assert counts == {"a": 6, "b": 3, None: 3}
    assert (hold_out(made(labels), 0.15, seed=0) == held).all()
    assert (hold_out(made(labels), 0.15, seed=1) != held).any()


def test_copies_are_on_one_side():
    image = as_png(stripes(0, (16, 16)))
    others = [as_png(stripes(number, (16, 16))) for number in range(1, 11)]
    # Twice in a class, and once in a class that is too small to be split.
    sources = [image, image, *others, image]
    labels = ["a"] * 12 + ["b"]
    for seed in range(20):
        held = hold_out(made(labels, sources), 0.3, seed)
        assert not held[[0, 1, 12]].any()
        assert held.any()


def test_some_are_held_out_in_addition_to_the_share():
    labels = ["a"] * 20 + ["b"] * 3
    always, never = np.zeros((2, 23), np.bool_)
    always[[0, 1, 20]] = True
    never[2:10] = True
    picture = np.arange(23)
    picture[22], picture[1] = 20, 2  # Near-duplicates of one that is held out, and of one not.
    for seed in range(5):
        held = hold_out(made(labels), 0.2, seed, never, picture, always)
        assert np.flatnonzero(held[:3]).tolist() == [0]
        assert np.flatnonzero(held[20:]).tolist() == [0, 2]
        assert held[10:20].sum() == 2
    assert not hold_out(made(labels), 0, 0, never, picture, always).any()


def test_the_training_part_is_never_empty():
    same = [as_png(stripes(0, (16, 16)))] * 8
    for seed in range(10):
        assert not hold_out(made(["a"] * 8, same), 0.5, seed).any()


def test_files_that_cannot_be_read_are_no_copies(tmp_path):
    sources = [tmp_path / f"{number}.png" for number in range(10)]
    held = hold_out(made(["a"] * 10, sources), 0.3, 0)
    assert held.sum() == 3


def test_fingerprints_depend_on_contents_and_not_on_names(tmp_path):
    paths = write_images(tmp_path, 3)
    one = read_photographs(paths, ["a", "b", None], [["x", "y"], None, []])
    one = replace(one, keys=one.content_keys())
    moved = [path.rename(path.with_stem(f"z{path.stem}")) for path in paths][::-1]
    other = read_photographs(moved, [None, "b", "a"], [[], None, ["y", "x"]])
    assert one.fingerprint() == other.fingerprint()
    assert one.fingerprint() != read_photographs(moved, [None, "b", "b"]).fingerprint()
    assert one.take([0]).fingerprint() != one.fingerprint()


def test_taking_some():
    some = made(["a", "b", None]).take(np.array([2, 0]))
    assert some.labels == [None, "a"]
    assert len(some) == 2


def test_what_a_folder_passes_over_is_a_warning(tmp_path):
    write_images(tmp_path / "sea", 1)
    (tmp_path / "sea" / "film.mov").touch()
    with pytest.warns(UserWarning, match=r"passed over: 1 \.mov"):
        read_photographs(tmp_path)
