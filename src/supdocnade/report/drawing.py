"""Pictures inside a page, as data URIs, so that the page needs no other file."""

from base64 import b64encode

import numpy as np
from numpy.typing import NDArray

from supdocnade.images.decode import encode

COLUMNS = 4
EMPTY = 128
"""Grey level of a cell without a patch."""


def jpeg_uri(content: bytes) -> str:
    """Return a JPEG file as a data URI."""
    return f"data:image/jpeg;base64,{b64encode(content).decode('ascii')}"


def mosaic(patches: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return patches side by side, four in a row and as many rows, (4 · side, 4 · side, 3).

    Parameters
    ----------
    patches : (up to 16, side, side, 3).
    """
    side = patches.shape[1]
    full = np.full((COLUMNS * COLUMNS, side, side, 3), EMPTY, np.uint8)
    full[: len(patches)] = patches[: len(full)]
    grid = full.reshape(COLUMNS, COLUMNS, side, side, 3)
    return grid.transpose(0, 2, 1, 3, 4).reshape(COLUMNS * side, COLUMNS * side, 3)


def mosaic_uri(patches: NDArray[np.uint8]) -> str:
    """Return the mosaic of some patches as a data URI."""
    return jpeg_uri(encode(mosaic(patches), "JPEG", quality=85))
