"""The legend of shape suffixes, and the checks that quote it.

Names of arrays in `ops`, `models` and `training` end in their axes, one letter each:

====== =============================================================
letter axis
====== =============================================================
B      documents of a batch
N      tokens of a batch, documents one after the other
D      word slots of one document
K      joint vocabulary: visual words first, then annotation words
H      topics (hidden units)
T      rows of the output layer: inner nodes of the tree, or words
L      depth of the tree
C      classes
A      annotation words
====== =============================================================

`offsets_B1` has B + 1 entries: document `d` owns the tokens `offsets[d]:offsets[d + 1]`.
"""

from collections.abc import Sequence

from supdocnade.errors import InvalidArgument


def check_shape(name: str, shape: Sequence[int], expected: Sequence[int]) -> None:
    """Raise `InvalidArgument` unless `shape` equals `expected`.

    >>> check_shape("hidden_bias", (200,), (200,))
    >>> check_shape("hidden_bias", (3,), (200,))
    Traceback (most recent call last):
    supdocnade.errors.InvalidArgument: hidden_bias must have shape (200,), got (3,).
    """
    if tuple(shape) != tuple(expected):
        raise InvalidArgument(f"{name} must have shape {tuple(expected)}, got {tuple(shape)}.")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise `InvalidArgument` unless `value` is one of `choices`.

    >>> check_choice("activation", "gelu", ("relu", "tanh", "sigmoid"))
    Traceback (most recent call last):
    supdocnade.errors.InvalidArgument: activation must be one of 'relu', 'tanh', 'sigmoid', got 'gelu'.
    """  # noqa: E501
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise InvalidArgument(f"{name} must be one of {listed}, got {value!r}.")


def check_range(
    name: str,
    value: float,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
) -> None:
    """Raise `InvalidArgument` unless `value` is a finite number within the given bounds.

    >>> check_range("learning_rate", 0.0, above=0)
    Traceback (most recent call last):
    supdocnade.errors.InvalidArgument: learning_rate must be a finite number above 0, got 0.0.
    """
    bounds = [
        (f"at least {least}", least is None or value >= least),
        (f"above {above}", above is None or value > above),
        (f"at most {most}", most is None or value <= most),
    ]
    finite = value == value and abs(value) != float("inf")
    if not (finite and all(holds for _, holds in bounds)):
        limits = (least, above, most)
        wanted = " and ".join(
            text for (text, _), limit in zip(bounds, limits, strict=True) if limit is not None
        )
        expected = f"a finite number {wanted}".rstrip()
        raise InvalidArgument(f"{name} must be {expected}, got {value!r}.")
