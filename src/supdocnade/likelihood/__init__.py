"""Likelihood of documents and its gradients, by several backends behind one contract."""

from collections.abc import Callable
from typing import Any

ACTIVATIONS = ("relu", "tanh", "sigmoid")

Activation = str | Callable[[Any], Any]
"""g: one of `ACTIVATIONS`, or a differentiable function of a tensor, element by element."""
