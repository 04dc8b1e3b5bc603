"""How a gradient is shared out over the orientations."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.imaging.dense_sift.bins import N_ORIENTATIONS


def share_out(
    slopes_y: NDArray[Any], slopes_x: NDArray[Any]
) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Return what gradients give to which orientations.

    Returns
    -------
    (..., 2) a gradient's length, shared out between the lower and the upper of its two nearest
    orientations; (...) the lower of them.
    """
    length = np.hypot(slopes_y, slopes_x)
    turn = np.arctan2(slopes_y, slopes_x) * (N_ORIENTATIONS / (2 * math.pi))
    turn = np.where(turn < 0, turn + N_ORIENTATIONS, turn)
    lower = np.floor(turn)
    upper_share = length * (turn - lower)
    shares = np.stack([length - upper_share, upper_share], axis=-1)
    return shares.astype(np.float32), (lower % N_ORIENTATIONS).astype(np.uint8)
