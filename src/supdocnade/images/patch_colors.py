"""Colours of the patches of an image: mean and deviation of lightness and two colour differences.

The channels are R + G + B, R - G and R + G - 2B. All sums are sums of integers, so the result has
the same bits everywhere.
"""

import numpy as np
from numpy.typing import NDArray

N_CHANNELS = 3
"""Channels; the columns are their means, and then their standard deviations."""

_CHANNELS = np.array([[1, 1, 1], [1, -1, 0], [1, 1, -2]], np.int64)
_SCALES = np.float32(1 / 255) / np.array([3, np.sqrt(2), np.sqrt(6)], np.float32)


def patch_colors(
    colors_HW3: NDArray[np.uint8],
    centres_S2: NDArray[np.floating],
    patch_size_S: NDArray[np.integer],
) -> NDArray[np.float32]:
    """Return the colours of patches, (patches, 6).

    Parameters
    ----------
    colors_HW3 : red, green and blue.
    centres_S2, patch_size_S : y and x of the centre of each patch, and its side, in pixels. All
        pixels within half a side of the centre count, so a mirrored patch has the same colours.
    """
    channels = colors_HW3.astype(np.int64) @ _CHANNELS.T
    sums = np.zeros((channels.shape[0] + 1, channels.shape[1] + 1, 2 * N_CHANNELS), np.int64)
    np.concatenate([channels, channels * channels], axis=2, out=sums[1:, 1:])
    np.cumsum(sums, axis=0, out=sums)
    np.cumsum(sums, axis=1, out=sums)
    half_S1 = patch_size_S[:, None] / 2
    edges = np.ceil(centres_S2 - half_S1), np.floor(centres_S2 + half_S1) + 1
    (top, left), (bottom, right) = (
        np.clip(each_S2.astype(np.int64), 0, colors_HW3.shape[:2]).T for each_S2 in edges
    )
    total_SC = sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left]
    moments_SC = total_SC / ((bottom - top) * (right - left))[:, None]
    means_SC, squares_SC = np.split(moments_SC, 2, axis=1)
    deviations_SC = np.sqrt(np.maximum(squares_SC - means_SC * means_SC, 0))
    return (np.hstack([means_SC, deviations_SC]) * np.tile(_SCALES, 2)).astype(np.float32)
