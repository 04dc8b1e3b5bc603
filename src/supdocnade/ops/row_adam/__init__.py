"""Adam's update of some rows of a table, in place."""

from typing import NamedTuple

from torch import Tensor

from supdocnade.ops.dispatch import FLOATS, TENSOR_CORES, Backend, Operation

OPERATION = Operation(
    "row_adam",
    (
        Backend("vectorized", f"{__name__}.vectorized", ("cpu", "cuda"), FLOATS),
        Backend("cpu", f"{__name__}.cpu", ("cpu",), FLOATS[:1], requires="numba"),
        Backend(
            "cuda", f"{__name__}.cuda", ("cuda",), FLOATS[:1], "triton", capability=TENSOR_CORES
        ),
    ),
    automatic=("cpu", "cuda", "vectorized"),
)


class AdamRates(NamedTuple):
    """The numbers of Adam (Kingma and Ba 2015); those that change lie where the table is."""

    learning_rate: float | Tensor
    beta1: float
    beta2: float
    epsilon: float
    step: int | Tensor
    """Updates of the whole table so far, this one included: it corrects the moments' bias."""


def row_adam(
    table_KH: Tensor,
    mean_KH: Tensor,
    square_KH: Tensor,
    rows_R: Tensor,
    gradient_RH: Tensor,
    rates: AdamRates,
    *,
    backend: str = "auto",
) -> None:
    """Update the given rows of a table and of its two moments; leave all other rows alone.

    Dense Adam also moves rows without a gradient, by their decaying moments. This does not: a row's
    moments decay only when it is touched, and the bias correction counts updates of the table.

    Parameters
    ----------
    rows_R : the rows to update, none of them twice. `cuda` passes over those that repeat the one
        before them, and over -1: recorded calls of the fused operations fill up their lists so.
    gradient_RH : their gradients.
    """
    name = OPERATION.choose(backend, table_KH.device, table_KH.dtype)
    OPERATION.load(name)(table_KH, mean_KH, square_KH, rows_R, gradient_RH, rates)
