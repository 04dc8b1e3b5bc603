"""Dense SIFT on one thread of a CPU: Numba kernels that skip all weights of zero."""

import math

import numpy as np

from supdocnade.jit import kernel

_ZERO, _ONE = np.float32(0), np.float32(1)
_EPS = np.float32(np.finfo(np.float32).eps)
_EIGHTHS = 8 / (2 * math.pi)
_ROWS = 8  # Rows whose planes exist at a time: 64 KiB at 256 pixels, which stay in the cache.


@kernel
def sum_along_rows(grey_YX, part_GG2, lower_GG, first_P, count_P, weight_PJ, half_YPO):
    """Write Σ_x weight[p, x] · plane[y, x, o] for each row y of the image and each bin p."""
    height, width = grey_YX.shape
    planes_RXO = np.zeros((_ROWS, width, 8), np.float32)
    for start in range(0, height, _ROWS):
        stop = min(start + _ROWS, height)
        for y in range(start, stop):
            _fill_planes_of_row(grey_YX, y, part_GG2, lower_GG, planes_RXO[y - start])
        for y in range(start, stop):
            _sum_row(planes_RXO[y - start], first_P, count_P, weight_PJ, half_YPO[y])


@kernel
def _fill_planes_of_row(grey_YX, y, part_GG2, lower_GG, plane_XO):
    """Split the gradients of one row of the image between their two nearest orientations."""
    height, width = grey_YX.shape
    plane_XO[:] = _ZERO
    if y == 0 or y == height - 1:
        for x in range(width):
            _split_border_gradient(grey_YX, y, x, plane_XO[x])
        return
    _split_border_gradient(grey_YX, y, 0, plane_XO[0])
    _split_border_gradient(grey_YX, y, width - 1, plane_XO[width - 1])
    for x in range(1, width - 1):
        i = np.int64(grey_YX[y + 1, x]) - np.int64(grey_YX[y - 1, x]) + 255
        j = np.int64(grey_YX[y, x + 1]) - np.int64(grey_YX[y, x - 1]) + 255
        lower = np.int64(lower_GG[i, j])
        plane_XO[x, lower] = part_GG2[i, j, 0]
        plane_XO[x, (lower + 1) & 7] = part_GG2[i, j, 1]


@kernel
def _split_border_gradient(grey_YX, y, x, plane_O):
    """Split the gradient of one pixel of the border, where the table does not apply."""
    height, width = grey_YX.shape
    above, below = max(y - 1, 0), min(y + 1, height - 1)
    left, right = max(x - 1, 0), min(x + 1, width - 1)
    slope_y = (np.float64(grey_YX[below, x]) - np.float64(grey_YX[above, x])) / (below - above)
    slope_x = (np.float64(grey_YX[y, right]) - np.float64(grey_YX[y, left])) / (right - left)
    length = math.hypot(slope_y, slope_x)
    turn = math.atan2(slope_y, slope_x) * _EIGHTHS
    if turn < 0:
        turn += 8
    lower = math.floor(turn)
    upper = length * (turn - lower)
    plane_O[int(lower) & 7] = np.float32(length - upper)
    plane_O[(int(lower) + 1) & 7] = np.float32(upper)


@kernel
def _sum_row(plane_XO, first_P, count_P, weight_PJ, half_PO):
    for p in range(first_P.size):
        first = first_P[p]
        for o in range(8):
            half_PO[p, o] = _ZERO
        for j in range(count_P[p]):
            weight = weight_PJ[p, j]
            for o in range(8):
                half_PO[p, o] += weight * plane_XO[first + j, o]


@kernel
def sum_along_columns(half_YPO, first_P, count_P, weight_PJ, before, clamp, units_SD, norm_S):
    """Write the descriptors of the patches of one size, normalised, clipped and normalised again.

    Parameters
    ----------
    first_P, count_P, weight_PJ : windows of the bins along y.
    before : number of bins along x of the sizes before this one.
    """
    n_rows = first_P.size // 4
    n_columns = norm_S.size // n_rows
    width = n_columns * 32
    sums_BC = np.empty((4, width), np.float32)  # Sums of one row of patches.
    for row in range(n_rows):
        for i in range(4):
            p = 4 * row + i
            sums_C = sums_BC[i]
            sums_C[:] = _ZERO
            for j in range(count_P[p]):
                weight = weight_PJ[p, j]
                half_C = half_YPO[first_P[p] + j, before : before + n_columns * 4].reshape(-1)
                for c in range(width):
                    sums_C[c] += weight * half_C[c]
        patches = slice(row * n_columns, (row + 1) * n_columns)
        _finish_row(sums_BC, clamp, units_SD[patches], norm_S[patches])


@kernel
def _finish_row(sums_BC, clamp, units_SD, norm_S):
    # The compiler vectorises short loops that do one thing each.
    for s in range(norm_S.size):
        for i in range(4):
            for c in range(32):
                units_SD[s, 32 * i + c] = sums_BC[i, 32 * s + c]
    _lengths(units_SD, norm_S)
    length_S = np.empty_like(norm_S)
    for s in range(norm_S.size):
        scale = _ONE / max(norm_S[s], _EPS)
        for d in range(128):
            value = units_SD[s, d] * scale
            units_SD[s, d] = clamp if value > clamp else value
    _lengths(units_SD, length_S)
    for s in range(norm_S.size):
        scale = _ONE / max(length_S[s], _EPS)
        for d in range(128):
            units_SD[s, d] *= scale


@kernel
def _lengths(values_SD, length_S):
    for s in range(length_S.size):
        square = _ZERO
        for d in range(128):
            square += values_SD[s, d] * values_SD[s, d]
        length_S[s] = math.sqrt(square)
