"""Adam on some rows in plain torch, on any device."""

from torch import Tensor

from supdocnade.ops.row_adam import AdamRates


def row_adam(
    table_KH: Tensor,
    mean_KH: Tensor,
    square_KH: Tensor,
    rows_R: Tensor,
    gradient_RH: Tensor,
    rates: AdamRates,
) -> None:
    """See `supdocnade.ops.row_adam`."""
    learning_rate, beta1, beta2, epsilon, step = rates
    if isinstance(step, Tensor):
        step = step.double()  # Near 1 a float32 would lose what is left of it.
    mean_RH = mean_KH[rows_R].lerp_(gradient_RH, 1 - beta1)
    square_RH = square_KH[rows_R].mul_(beta2).addcmul_(gradient_RH, gradient_RH, value=1 - beta2)
    mean_KH[rows_R] = mean_RH
    square_KH[rows_R] = square_RH
    spread_RH = (square_RH / (1 - beta2**step)).sqrt_().add_(epsilon)
    size = learning_rate / (1 - beta1**step)
    table_KH.index_add_(0, rows_R, mean_RH.div_(spread_RH).mul_(-size))
