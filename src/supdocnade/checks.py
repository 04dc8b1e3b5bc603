"""Argument checks, and the legend of shape suffixes.

Names of arrays in `likelihood`, `model`, `corpus` and `training` end in their axes:

====== =============================================================
letter axis
====== =============================================================
B      documents of a batch
N      tokens of a batch, documents one after the other
D      tokens of one document
K      joint vocabulary: visual words first, then annotation words
H      topics (hidden units)
T      rows of the output layer: inner nodes of the tree, or words
L      depth of the tree
C      classes
A      annotation words
F      global features
====== =============================================================

`offsets_B1` has B + 1 entries: document `d` owns the tokens `offsets[d]:offsets[d + 1]`.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, field, fields
from difflib import get_close_matches
from inspect import cleandoc
from numbers import Integral, Real
from pathlib import Path
from textwrap import fill, indent
from types import NoneType
from typing import Any, TypeVar, get_args

from supdocnade.errors import InvalidArgument

MAX_SEED = 2**63 - 1

Settings = TypeVar("Settings")

GROUPS = {
    "": "Parameters",
    "model": "Parameters of the model",
    "training": "Parameters of the training",
    "stopping": "Parameters of stopping",
    "run": "Parameters of the run",
}
"""Headings of the groups of settings in a docstring, in their order."""


def available_memory() -> int:
    """Return the bytes of memory that are there, or a large number where that is unknown."""
    found = [2**40]
    with suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        found.append(1024 * int(text.partition("MemAvailable:")[2].split(maxsplit=1)[0]))
    with suppress(OSError, ValueError):  # Of a container, if it is limited.
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(found)


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


def check_known(name: str, value: str, known: Sequence[str]) -> None:
    """Raise `InvalidArgument`, with the nearest names, unless a model knows the value.

    >>> check_known("tag", "zebra", ("sea", "zebra"))
    >>> check_known("tag", "zebre", ("sea", "zebra"))
    Traceback (most recent call last):
    supdocnade.errors.InvalidArgument: the model has no tag 'zebre'; did you mean 'zebra'?
    """
    if value in known:
        return
    folded = {each.casefold(): each for each in known}
    near = [repr(folded[each]) for each in get_close_matches(value.casefold(), folded)]
    hint = f"; did you mean {' or '.join(near)}?" if near else "; `supdocnade info` lists them."
    raise InvalidArgument(f"the model has no {name} {value!r}{hint}")


def check_count(name: str, value: object, *, least: int = 0) -> int:
    """Return `value` as a plain int of at least `least`, or raise `InvalidArgument`.

    >>> check_count("batch_size", 2.5, least=1)
    Traceback (most recent call last):
    supdocnade.errors.InvalidArgument: batch_size must be a whole number of at least 1, got 2.5.
    """
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or int(value) < least:  # type: ignore[call-overload]
        raise InvalidArgument(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)  # type: ignore[call-overload,no-any-return]


def check_flag(name: str, value: object) -> bool:
    """Return `value` if it is True or False, or raise `InvalidArgument`.

    >>> check_flag("mirror", 1)
    Traceback (most recent call last):
    supdocnade.errors.InvalidArgument: mirror must be True or False, got 1.
    """
    if type(value) is not bool:
        raise InvalidArgument(f"{name} must be True or False, got {value!r}.")
    return value


def check_range(
    name: str,
    value: object,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> float:
    """Return `value` as a plain float within the given bounds, or raise `InvalidArgument`.

    >>> check_range("learning_rate", 0.0, above=0)
    Traceback (most recent call last):
    supdocnade.errors.InvalidArgument: learning_rate must be a finite number above 0, got 0.0.
    """
    number = float(value) if isinstance(value, Real) else math.nan
    limits = [
        (least, f"at least {least}", number >= (least or 0)),
        (above, f"above {above}", number > (above or 0)),
        (most, f"at most {most}", number <= (most or 0)),
        (below, f"below {below}", number < (below or 0)),
    ]
    limits = [each for each in limits if each[0] is not None]
    if not math.isfinite(number) or not all(holds for *_, holds in limits):
        bounds = " and ".join(text for _, text, _ in limits)
        expected = f"a finite number {bounds}".rstrip()
        raise InvalidArgument(f"{name} must be {expected}, got {value!r}.")
    return number


def setting(
    default: Any = MISSING,
    help: str = "",
    *,
    kind: str = "",
    group: str = "",
    choices: Sequence[str] = (),
    **limits: float,
) -> Any:
    """Return a field of settings: everything that is known about one of them.

    Parameters
    ----------
    help : what it does, for the docstring of the constructor.
    kind : its type in that docstring; by default, that of its annotation.
    group : in that docstring, one of `GROUPS`. A file has no settings of a run.
    choices : values that it may have.
    limits : `least`, `above`, `most` or `below`.
    """
    known = {"help": help, "kind": kind, "group": group, "choices": choices}
    return field(default=default, metadata={**known, "limits": limits})


def copy_settings(kind: type[Settings], source: Any, **changes: Any) -> Settings:
    """Return settings of a class with the values that another object has, some of them changed."""
    values = {each.name: getattr(source, each.name) for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{**values, **changes})


def plain_settings(settings: Any) -> dict[str, Any]:
    """Return the settings that determine a result, by name: all but those of a run."""
    return {
        each.name: getattr(settings, each.name)
        for each in fields(settings)
        if each.metadata["group"] != "run"
    }


def same_setting(owner: Any, name: str, default: Any = MISSING, *, group: str = "") -> Any:
    """Return a field with everything that is known about a setting of another class.

    Parameters
    ----------
    default : if it differs from that of the other class.
    group : as for `setting`.
    """
    (known,) = (each for each in fields(owner) if each.name == name)
    default = known.default if default is MISSING else default
    return field(default=default, metadata={**known.metadata, "group": group})


def check_settings(settings: Any) -> dict[str, Any]:
    """Return the plain values of the fields that have conditions, or raise `InvalidArgument`.

    A field may be None if its annotation says so.

    >>> from dataclasses import dataclass
    >>> @dataclass(kw_only=True)
    ... class Settings:
    ...     n_words: int | None = setting(None, least=2)
    ...     order: str = setting("natural", choices=("natural", "random"))
    >>> check_settings(Settings(order="random"))
    {'n_words': None, 'order': 'random'}
    >>> check_settings(Settings(n_words=1))
    Traceback (most recent call last):
    supdocnade.errors.InvalidArgument: n_words must be a whole number of at least 2, got 1.
    """
    checked = {}
    for each in fields(settings):
        name, value, kinds = each.name, getattr(settings, each.name), get_args(each.type)
        choices, limits = each.metadata.get("choices", ()), each.metadata.get("limits", {})
        if not choices and not limits:
            continue
        if value is not None or NoneType not in kinds:
            if choices:
                check_choice(name, value, choices)
            elif int in (each.type, *kinds):
                value = check_count(name, value, **limits)
            else:
                value = check_range(name, value, **limits)
        checked[name] = value
    return checked


def document_settings(cls: Any) -> Any:
    """Write the parameters into the docstring of a class, from its fields that are settings.

    >>> from dataclasses import dataclass
    >>> @document_settings
    ... @dataclass(kw_only=True)
    ... class Counter:
    ...     '''Counts words.
    ...
    ...     Attributes
    ...     ----------
    ...     counts_ : dict
    ...     '''
    ...
    ...     least: int = setting(2, "Words that are rarer are ignored.", least=1, group="model")
    >>> print(Counter.__doc__)
    Counts words.
    <BLANKLINE>
    Parameters of the model
    -----------------------
    least : int, default=2
        Words that are rarer are ignored.
    <BLANKLINE>
    Attributes
    ----------
    counts_ : dict
    """
    summary, rest = (*(cleandoc(cls.__doc__).split("\n\nAttributes\n", 1)), "")[:2]
    lines, order, title = [summary], list(GROUPS), ""
    for each in sorted(fields(cls), key=lambda each: order.index(each.metadata["group"])):
        if title != (title := GROUPS[each.metadata["group"]]):
            lines += ["", title, "-" * len(title)]
        kind = each.metadata.get("kind") or _name_kind(each)
        default = ", optional" if each.default is None else f", default={each.default!r}"
        lines.append(f"{each.name} : {kind}{default}".replace("'", '"'))
        lines.append(indent(fill(each.metadata.get("help", ""), 92), "    "))
    cls.__doc__ = "\n".join([*lines, "", f"Attributes\n{rest}"])
    return cls


def _name_kind(each: Field[Any]) -> str:
    """Return the type of a setting: its choices, or the name of its annotation."""
    kinds = [kind for kind in get_args(each.type) or (each.type,) if kind is not NoneType]
    choices = each.metadata.get("choices") or [kind for kind in kinds if isinstance(kind, str)]
    if choices:
        return f"{{{', '.join(map(repr, choices))}}}"
    names = [getattr(kind, "__name__", str(kind)) for kind in kinds]
    if NoneType in get_args(each.type) and each.default is not None:
        names.append("None")
    return " or ".join(names)


def check_seed(name: str, seed: object) -> int:
    """Return `seed` as a plain int in [0, 2**63), or raise `InvalidArgument`.

    >>> check_seed("random_state", -1)
    Traceback (most recent call last):
    supdocnade.errors.InvalidArgument: random_state must be between 0 and 2**63 - 1, got -1.
    """
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise InvalidArgument(f"{name} must be an integer, got {seed!r}.")
    if not 0 <= int(seed) <= MAX_SEED:
        raise InvalidArgument(f"{name} must be between 0 and 2**63 - 1, got {seed}.")
    return int(seed)
