"""VLFeat's dense SIFT with a flat window, by its shared library (Debian: libvlfeat1)."""

import ctypes
import ctypes.util

import numpy as np
from numpy.typing import NDArray

_INT, _POINTER = ctypes.c_int, ctypes.c_void_p


class _Filter(ctypes.Structure):
    """First fields of `VlDsiftFilter` in VLFeat's dsift.h."""

    _fields_ = (
        *((name, _INT) for name in ("width", "height", "step_x", "step_y")),
        *((name, _INT) for name in ("min_x", "min_y", "max_x", "max_y")),
        *((name, _INT) for name in ("bins_t", "bins_x", "bins_y", "bin_x", "bin_y")),
        ("flat", _INT),
        ("window", ctypes.c_double),
        ("n_frames", _INT),
        ("size", _INT),
        ("frames", _POINTER),
        ("descriptors", ctypes.POINTER(ctypes.c_float)),
    )


class FlatSIFT:
    """Descriptors of images of one size, in buffers that are reused.

    Raises OSError if the library is not installed.
    """

    def __init__(self, shape: tuple[int, int], step: int = 8, bin_size: int = 4):
        name = ctypes.util.find_library("vl")
        if name is None:
            raise OSError("VLFeat is not installed")
        self.library = ctypes.CDLL(name)
        self.library.vl_dsift_new_basic.restype = ctypes.POINTER(_Filter)
        self.library.vl_dsift_process.argtypes = (ctypes.POINTER(_Filter), _POINTER)
        height, width = shape
        self.filter = self.library.vl_dsift_new_basic(width, height, step, bin_size)
        self.filter.contents.flat = 1

    def describe(self, grey: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the descriptors in VLFeat's own buffer, which the next image overwrites."""
        self.library.vl_dsift_process(self.filter, grey.ctypes.data)
        found = self.filter.contents
        return np.ctypeslib.as_array(found.descriptors, (found.n_frames, found.size))
