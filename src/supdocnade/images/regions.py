"""Where in the image a patch lies: the cell of a grid, or one cell of each grid of a pyramid."""

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
    """One grid of cells over the image, or several, numbered one after the other.

    Parameters
    ----------
    grids : rows and columns of every grid, the paper's is ((2, 2),); a pyramid has several, as
        ((1, 1), (2, 2), (4, 4)), and every patch then lies in one cell of each.
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
        """R, the number of cells of all grids together."""
        return sum(rows * columns for rows, columns in self.grids)

    def cells(
        self,
        centres_S2: NDArray[np.floating],
        size: tuple[int, int],
        *,
        both_sides: bool = False,
    ) -> NDArray[np.int64]:
        """Return the cell of every patch in every grid, (patches, grids).

        A cell is floor(rows · y / height) and floor(columns · x / width) of a patch's centre, row
        by row; the cells of a second grid are numbered after those of the first.

        Parameters
        ----------
        centres_S2 : (patches, 2) y and x of the centres, in pixels, within the image.
        size : height and width of the image.
        both_sides : whether the same patches of the mirror image follow, their cells numbered after
            all others.

        >>> Regions.of((2, 2)).cells(np.array([[1.0, 1.0], [1.0, 9.0], [9.0, 9.0]]), (10, 10))
        array([[0],
               [1],
               [3]])
        """
        if both_sides:
            mirrored_S2 = np.stack([centres_S2[:, 0], size[1] - 1 - centres_S2[:, 1]], axis=1)
            cells_SG, mirrored_SG = self.cells(centres_S2, size), self.cells(mirrored_S2, size)
            return np.concatenate([cells_SG, self.n_regions + mirrored_SG])
        places, first = [], 0
        for rows, columns in self.grids:
            cells = np.floor(centres_S2 * (rows, columns) / size).astype(np.int64)
            if cells.size and not ((cells >= 0) & (cells < (rows, columns))).all():
                raise InvalidArgument(f"centres must lie within an image of {size}.")
            places.append(first + cells[:, 0] * columns + cells[:, 1])
            first += rows * columns
        return np.stack(places, axis=1)

    def words(
        self, words_S: NDArray[np.integer], cells_SG: NDArray[np.int64], n_words: int
    ) -> NDArray[np.int64]:
        """Return (word, region) pairs as words of their own, in 0 .. n_words · R - 1.

        >>> regions = Regions.of((2, 2))
        >>> regions.words(np.array([7, 7]), np.array([[0], [3]]), 240).tolist()
        [7, 727]
        """
        if words_S.size and not (words_S.min() >= 0 and words_S.max() < n_words):
            raise InvalidArgument(
                f"words must lie in 0 .. {n_words - 1}, got {words_S.min()} .. {words_S.max()}."
            )
        return (cells_SG * n_words + words_S[:, None]).reshape(-1)
