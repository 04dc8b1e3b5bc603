from collections import Counter

import numpy as np
from tests.textures import as_png, stripes

from supdocnade.scene.dataset import Photographs
from supdocnade.scene.held_out import hold_out


def made(labels, sources=None):
    sources = sources or [as_png(stripes(number, (16, 16))) for number in range(len(labels))]
    return Photographs(
        sources=sources,
        names=[f"image {number}" for number in range(len(labels))],
        labels=labels,
        tags=[None] * len(labels),
    )


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
