"""What all tests share."""

import importlib.util
import os

# One thread of BLAS: the matrices are so small that several would mostly wait for each other,
# busily. Tests of the number of threads set their own. It must be known before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
import torch

# Scripts that made golden arrays need the programs that are compared with.
collect_ignore_glob = ["golden/*.py"]

if not torch.cuda.is_available():
    # The GPU's kernels are then run by Triton's interpreter, number by number. It must be known
    # before they are imported.
    os.environ.setdefault("TRITON_INTERPRET", "1")

# onnxruntime reports its use to its makers otherwise, from its import on.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

has_triton = importlib.util.find_spec("triton") is not None


@pytest.fixture(scope="module")
def careful_interpreter():
    """Fill uninitialised memory with NaN or the largest integer, where kernels are interpreted.

    Small tiles save time in the interpreter, and prefixes soon span several of them.
    """
    if torch.cuda.is_available() or not has_triton:
        yield
        return
    from supdocnade.cuda import tree_bands

    torch.use_deterministic_algorithms(True)
    with pytest.MonkeyPatch.context() as patch:
        for options in tree_bands.WALK_OPTIONS.values():
            patch.setitem(options, "TILE", 16)
        patch.setattr(tree_bands, "MIXED_TILE", 16)
        yield
    torch.use_deterministic_algorithms(False)
