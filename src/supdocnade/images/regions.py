"""Regions of an image: the cells of a grid, or of each grid of a spatial pyramid."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_count
from supdocnade.errors import InvalidArgument

Grid = tuple[int, int]
"""Rows and columns of cells."""


@dataclass(frozen=True)
class Regions:
    """Cells of one or several grids over the image, numbered consecutively.

    Parameters
    ----------
    grids : rows and columns of each grid. The paper has ((2, 2),); a pyramid has several, such as
        ((1, 1), (2, 2), (4, 4)), and each patch lies in one cell of each.
    """

    grids: tuple[Grid, ...]

    def __post_init__(self) -> None:
        if not self.grids:
            raise InvalidArgument("grid must have at least one grid, got none.")
        for grid in self.grids:
            if len(grid) != 2:
                raise InvalidArgument(f"grid must be rows and columns, got {grid!r}.")
            for side in grid:
                check_count("grid", side, least=1)

    @classmethod
    def of(cls, given: Grid | Sequence[Grid]) -> "Regions":
        """Return the regions for one grid (rows, columns), or for a list of grids.

        >>> Regions.of((2, 2)).n_regions, Regions.of([(1, 1), (2, 2), (4, 4)]).n_regions
        (4, 21)
        """
        if not isinstance(given, Iterable):
            raise InvalidArgument(f"grid must be rows and columns, got {given!r}.")
        parts: list[Any] = list(given)
        several = all(isinstance(part, Iterable) for part in parts)
        grids: list[Any] = [tuple(part) for part in parts] if several else [tuple(parts)]
        return cls(tuple(grids))

    @property
    def n_regions(self) -> int:
        """R, the number of cells of all grids."""
        return sum(rows * columns for rows, columns in self.grids)

    def cells(
        self,
        centres_S2: NDArray[np.floating],
        size: tuple[int, int],
        *,
        mirror: bool = False,
    ) -> NDArray[np.int64]:
        """Return the cell of each patch in each grid, (patches, grids).

        The cell of a patch with centre (y, x) is row floor(rows · y / height) and column
        floor(columns · x / width); cells are numbered row by row, grid after grid.

        Parameters
        ----------
        centres_S2 : (patches, 2) y and x of the centres, in pixels, within the image.
        size : height and width of the image.
        mirror : whether the patches of the mirror image follow.

        >>> Regions.of((2, 2)).cells(np.array([[1.0, 1.0], [1.0, 9.0], [9.0, 9.0]]), (10, 10))
        array([[0],
               [1],
               [3]])
        """
        if mirror:
            mirrored_S2 = np.stack([centres_S2[:, 0], size[1] - 1 - centres_S2[:, 1]], axis=1)
            return self.cells(np.concatenate([centres_S2, mirrored_S2]), size)
        places, first = [], 0
        for rows, columns in self.grids:
            cells = np.floor(centres_S2 * (rows, columns) / size).astype(np.int64)
            if cells.size and not ((cells >= 0) & (cells < (rows, columns))).all():
                raise InvalidArgument(f"centres must lie within an image of {size}.")
            places.append(first + cells[:, 0] * columns + cells[:, 1])
            first += rows * columns
        return np.stack(places, axis=1)

    def words(
        self, words_SM: NDArray[np.integer], cells_SG: NDArray[np.int64], n_words: int
    ) -> NDArray[np.int64]:
        """Return the column of each pair of word and region, in 0 .. n_words · R - 1.

        Parameters
        ----------
        words_SM : (patches, words per patch).
        cells_SG : (patches, grids).

        >>> regions = Regions.of((2, 2))
        >>> regions.words(np.array([[7], [7]]), np.array([[0], [3]]), 240).tolist()
        [7, 727]
        """
        if words_SM.size and not (words_SM.min() >= 0 and words_SM.max() < n_words):
            raise InvalidArgument(
                f"words must lie in 0 .. {n_words - 1}, got {words_SM.min()} .. {words_SM.max()}."
            )
        return (cells_SG[:, None, :] * n_words + words_SM[:, :, None]).reshape(-1)
