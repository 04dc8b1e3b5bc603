"""Inspection of photographs: near-duplicates, unreadable files, photographs in two classes."""

import pickle
from collections import Counter

import numpy as np
import pytest
from tests.textures import as_png, stripes, write_images

from supdocnade.cli.demo import drawn_scenes
from supdocnade.errors import UnreadableImages
from supdocnade.estimators.bag_of_visual_words import BagOfVisualWords
from supdocnade.images.decode import encode
from supdocnade.runs import RunOptions
from supdocnade.scene.dataset import Photographs, read_photographs
from supdocnade.scene.inspection import (
    MIN_CORRELATION,
    _correlated_pairs,
    _standardize,
    comparison_thumbnail,
    describe_class_conflicts,
    describe_rare_tags,
    describe_similar_names,
    describe_small_classes,
    find_class_conflicts,
    group_near_duplicates,
    hold_out,
    inspect_photographs,
)


def grouped(images, keys=None):
    thumbnails = [comparison_thumbnail(image) for image in images]
    return group_near_duplicates(thumbnails, keys or [str(n) for n in range(len(images))]).tolist()


def test_grey_and_recompressed_copies_are_one_picture():
    scenes = [scene.image for scene in drawn_scenes(2, max_side=128)]
    grey = [image.mean(axis=2).astype(np.uint8) for image in scenes[:3]]
    poor = [encode(image, "JPEG", quality=40) for image in scenes[4:6]]
    assert grouped([*scenes, *grey, *poor]) == [*range(16), 0, 1, 2, 4, 5]


def test_equal_contents_are_one_picture_whatever_they_show():
    flat = np.full((40, 60), 128, np.uint8)
    # Pictures of one level are like no other: only the key joins them.
    assert grouped([flat, flat, flat + 1], ["a", "b", "a"]) == [0, 1, 0]


def test_other_shapes_are_other_pictures():
    ramp = np.tile(np.arange(60, dtype=np.uint8), (60, 1))
    assert grouped([ramp, ramp[:40]]) == [0, 1]


def test_pairs_are_those_of_all_comparisons(monkeypatch):
    monkeypatch.setattr("supdocnade.scene.inspection._BLOCK", 7)
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (20, 48))
    noisy = [np.clip(each + rng.normal(0, s, 48), 0, 255) for each in pictures for s in (0, 6, 9)]
    values = _standardize(rng.permutation(noisy).astype(np.uint8))
    first, second = _correlated_pairs(values)
    found = {(max(i, j), min(i, j)) for i, j in zip(first.tolist(), second.tolist(), strict=True)}
    expected = np.argwhere(np.tril(values @ values.T) >= MIN_CORRELATION)
    assert found == {(i, j) for i, j in expected.tolist()}
    assert 60 < len(found) < 120


def test_all_unreadable_photographs_are_named_at_once(tmp_path):
    paths = write_images(tmp_path, 4)
    paths[1].write_bytes(b"")
    paths[3].write_bytes(b"no image")
    narrow = np.zeros((5, 60), np.uint8)
    photographs = read_photographs([*paths, narrow, narrow])
    describer = BagOfVisualWords(max_side=60).sift()
    picture_B, skipped = inspect_photographs(photographs, describer, RunOptions(on_error="skip"))
    assert [each.number for each in skipped] == [1, 3, 4, 5]
    assert picture_B.tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(UnreadableImages) as refused:
        inspect_photographs(photographs, describer)
    assert refused.value.reasons == tuple(each.reason for each in skipped)
    assert str(refused.value).startswith(f"4 photographs cannot be read: {paths[1]} is empty. ")
    assert pickle.loads(pickle.dumps(refused.value)).reasons == refused.value.reasons
    # Without a describer any size is right.
    picture_B, skipped = inspect_photographs(photographs, None, RunOptions(on_error="skip"))
    assert [each.number for each in skipped] == [1, 3]
    assert picture_B.tolist() == [0, 1, 2, 3, 4, 4]


def test_photographs_in_two_classes_are_named():
    sources = [as_png(stripes(number)) for number in (0, 1, 0, 1, 2, 2, 0)]
    photographs = read_photographs(sources, ["a", "a", "b", "b", "c", None, "c"])
    picture_B = np.array([0, 1, 0, 1, 2, 2, 0])
    found = describe_class_conflicts(find_class_conflicts(photographs, picture_B))
    assert found == "2 photographs are in two classes, such as image 0 and image 2."
    some = photographs.take([0, 2, 4])
    found = describe_class_conflicts(find_class_conflicts(some, picture_B[[0, 2, 4]]))
    assert found == "a photograph is in two classes: image 0 and image 2."
    assert find_class_conflicts(photographs.take([0, 4, 5]), picture_B[[0, 4, 5]]) == []
    assert describe_class_conflicts([]) == ""


def test_small_classes_rare_tags_and_similar_names_are_described():
    counts = {"building": 30, "buiding": 2, "sky": 1, "sea": 5}
    assert describe_small_classes(counts) == (
        "classes of fewer than 5 photographs, too few to hold any out: buiding (2), sky (1)."
    )
    assert describe_rare_tags(counts, 3, limit=1) == (
        "2 tags on fewer than 3 photographs, too few to be learned (--set min_tag_count): "
        "buiding and 1 more."
    )
    similar = "tags that look alike: building (30) and buiding (2)."
    assert describe_similar_names(counts, "tags") == similar
    large = {"sea": 5}
    assert describe_small_classes(large) == describe_rare_tags(large, 5) == ""
    assert describe_similar_names(large, "tags") == ""


def held_out(labels, fraction, seed, picture_B=None, *masks):
    n = len(labels)
    photographs = Photographs(
        sources=[b""] * n, names=[""] * n, labels=list(labels), tags=[None] * n
    )
    picture_B = np.arange(n) if picture_B is None else picture_B
    return hold_out(photographs, fraction, seed, picture_B, *masks)


def test_a_share_of_every_class_is_held_out():
    labels = ["a"] * 40 + ["b"] * 20 + ["c"] * 4 + [None] * 20
    held = held_out(labels, 0.15, 0)
    counts = Counter(label for label, out in zip(labels, held, strict=True) if out)
    assert counts == {"a": 6, "b": 3, None: 3}
    assert (held_out(labels, 0.15, 0) == held).all()
    assert (held_out(labels, 0.15, 1) != held).any()


def test_copies_are_on_one_side():
    # Twice in a class, and once in a class that is too small to be split.
    picture = np.array([0, 0, *range(1, 11), 0])
    for seed in range(20):
        held = held_out(["a"] * 12 + ["b"], 0.3, seed, picture)
        assert not held[[0, 1, 12]].any()
        assert held.any()
        assert not held_out(["a"] * 8, 0.5, seed, np.zeros(8, int)).any()


def test_some_are_held_out_in_addition_to_the_share():
    labels = ["a"] * 20 + ["b"] * 3
    always, never = np.zeros((2, 23), np.bool_)
    always[[0, 1, 20]] = True
    never[2:10] = True
    picture = np.arange(23)
    picture[22], picture[1] = 20, 2  # Near-duplicates of one that is held out, and of one not.
    for seed in range(5):
        held = held_out(labels, 0.2, seed, picture, never, always)
        assert np.flatnonzero(held[:3]).tolist() == [0]
        assert np.flatnonzero(held[20:]).tolist() == [0, 2]
        assert held[10:20].sum() == 2
    assert not held_out(labels, 0, 0, picture, never, always).any()
