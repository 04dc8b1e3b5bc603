import numpy as np
import pytest

from supdocnade.errors import InvalidArgument
from supdocnade.images.regions import Regions


def test_cells_by_the_definition():
    rng = np.random.default_rng(0)
    for rows, columns in ((1, 1), (2, 2), (3, 5), (7, 1)):
        height, width = 97, 211
        centres = rng.random((300, 2)) * (height, width)
        cells = Regions.of((rows, columns)).cells(centres, (height, width))
        expected = [
            int(rows * y // height) * columns + int(columns * x // width) for y, x in centres
        ]
        assert cells[:, 0].tolist() == expected
        assert set(expected) == set(range(rows * columns))


def test_a_centre_on_a_border_belongs_to_the_later_cell():
    cells = Regions.of((2, 2)).cells(np.array([[4.999, 4.999], [5.0, 5.0]]), (10, 10))
    assert cells[:, 0].tolist() == [0, 3]


def test_a_pyramid_puts_every_patch_into_one_cell_of_each_grid():
    pyramid = Regions.of([(1, 1), (2, 2), (4, 4)])
    cells = pyramid.cells(np.array([[0.0, 0.0], [9.9, 9.9]]), (10, 10))
    assert cells.tolist() == [[0, 1, 5], [0, 4, 20]]
    words = pyramid.words(np.array([[3], [0]]), cells, 10)
    assert words.tolist() == [3, 13, 53, 0, 40, 200]
    assert words.max() < 10 * pyramid.n_regions


def test_word_and_region_can_be_told_from_the_joint_word():
    regions = Regions.of((2, 3))
    words, cells = np.array([[0], [239], [17]]), np.array([[0], [5], [2]])
    joint = regions.words(words, cells, 240)
    assert (joint % 240).tolist() == [0, 239, 17]
    assert (joint // 240).tolist() == [0, 5, 2]
    with pytest.raises(InvalidArgument, match=r"words must lie in 0 \.\. 239, got 0 \.\. 240"):
        regions.words(np.array([[0], [240]]), cells[:2], 240)


@pytest.mark.parametrize("grid", [(), (0, 2), (2, 2, 2), [(1, 1), (2, 0)], (1.5, 2)])
def test_odd_grids_are_refused(grid):
    with pytest.raises(InvalidArgument, match="grid must"):
        Regions.of(grid)


def test_centres_outside_are_refused():
    with pytest.raises(InvalidArgument, match=r"centres must lie within an image of \(10, 10\)"):
        Regions.of((2, 2)).cells(np.array([[10.0, 1.0]]), (10, 10))


def test_cells_of_the_mirror_image_follow():
    centres = np.array([[1.0, 1.0], [9.0, 1.0], [9.0, 8.0]])
    cells = Regions.of([(1, 1), (2, 2)]).cells(centres, (10, 10), mirror=True)
    assert cells.tolist() == [[0, 1], [0, 3], [0, 4], [0, 2], [0, 4], [0, 3]]
