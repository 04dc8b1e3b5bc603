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
    assert len(EXAMPLES.arrays()["examples_bytes"]) * 10 < sum(each.nbytes for each in GIVEN)


def test_arrays_hold_the_examples_bit_for_bit():
    loaded = PatchExamples.from_arrays(EXAMPLES.arrays(), n_words=4, most=16, side=48)
    assert loaded.pictures == EXAMPLES.pictures
    np.testing.assert_array_equal(loaded.patches(3), EXAMPLES.patches(3))


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("n_examples", np.array([16, 1, 1, 5], np.int32)),
        ("n_examples", np.array([17, 0, 1, 5], np.int32)),
        ("n_examples", np.array([16, 0, 1], np.int32)),
        ("n_examples", np.array([16, 0, 1, 5])),
        ("examples_offsets", np.arange(5)),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name, array):
    with pytest.raises(InvalidArgument, match="examples"):
        PatchExamples.from_arrays({**EXAMPLES.arrays(), name: array}, 4, 16, 48)


def test_a_picture_of_another_size_is_refused():
    swapped = PatchExamples(EXAMPLES.pictures[::-1], EXAMPLES.n_examples_K, 48)
    with pytest.raises(InvalidArgument, match="picture must have shape"):
        swapped.patches(0)
