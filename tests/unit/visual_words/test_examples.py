import numpy as np
import pytest

from supdocnade.errors import InvalidArgument
from supdocnade.visual_words.examples import PatchExamples


def smooth_patches(n_examples, side=48):
    """Patches whose colours change slowly."""
    rng = np.random.default_rng(n_examples)
    corners = rng.integers(0, 256, (n_examples, 2, 1, 3))
    part = np.linspace(0, 1, side)[:, None, None, None]
    rows = corners[:, 0] * (1 - part) + corners[:, 1] * part
    return np.repeat(rows.transpose(1, 0, 2, 3), side, axis=2).round().astype(np.uint8)


GIVEN = [smooth_patches(n) for n in (16, 0, 1, 5)]
EXAMPLES = PatchExamples.of(GIVEN, 48)


def test_patches_are_nearly_those_that_were_given():
    for word, given in enumerate(GIVEN):
        found = EXAMPLES.patches(word)
        assert found.shape == given.shape
        assert len(given) == 0 or np.abs(found.astype(int) - given).mean() < 4


def test_pictures_are_far_smaller_than_their_pixels():
    assert sum(map(len, EXAMPLES.pictures)) * 10 < sum(each.nbytes for each in GIVEN)


def test_a_word_with_examples_must_have_a_picture():
    with pytest.raises(InvalidArgument, match="a picture of each word with examples"):
        PatchExamples(EXAMPLES.pictures, np.array([16, 1, 1, 5], np.int32), 48)


def test_a_picture_of_another_size_is_refused():
    swapped = PatchExamples(EXAMPLES.pictures, EXAMPLES.n_examples_K[[3, 1, 2, 0]], 48)
    with pytest.raises(InvalidArgument, match="picture must have shape"):
        swapped.patches(0)
