"""Descriptions of pretrained networks, in a JSON file beside the ONNX file of each."""

import json
import re
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from supdocnade.checks import check_range, check_settings, setting
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.schema import from_json
from supdocnade.text import read_text

MAX_INPUT_SIDE = 2048
"""Largest side of an input image, in pixels."""

_NAME = re.compile(r"(?!.*\.onnx$)[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, kw_only=True)
class NetworkDescription:
    """Preparation of the pixels for a network, and meaning of its output."""

    name: str
    """Letters, digits, dots, hyphens and underscores."""
    side: int = setting(least=1)
    """Width and height of an input image, in pixels."""
    mean: float | tuple[float, ...]
    """The input is (level − mean) / scale, of levels from 0 to 255: one number, or one for each
    channel, in the order of the network's channels."""
    scale: float | tuple[float, ...]
    """Above 0; see `mean`."""
    color_order: str = setting("rgb", choices=("rgb", "bgr"))
    """"rgb" or "bgr"."""
    licence: str = "unknown"
    """Name of the licence of the weights."""
    outputs: tuple[str, ...] | None = None
    """Names of the outputs to take, the output for visual words first. By default, the only one."""
    class_tokens: int = setting(0, least=0)
    """Number of tokens before the tokens of patches. The first of them describes the image."""
    rows: int | None = setting(None, least=1)
    """Rows of patches, if the network gives tokens. By default, the patches form a square."""
    columns: int | None = setting(None, least=1)
    """Columns of patches; see `rows`."""
    digest: str | None = None
    """Digest of the file and its external data, if it was recorded."""

    def __post_init__(self) -> None:
        if not is_network_name(self.name):
            raise InvalidArgument(
                "name must consist of letters, digits, dots, hyphens and underscores, and must "
                f"not end in .onnx, got {self.name!r}."
            )
        check_settings(self)
        if self.side > MAX_INPUT_SIDE:
            raise InvalidArgument(f"side must be at most {MAX_INPUT_SIDE}, got {self.side}.")
        for name in ("mean", "scale"):
            object.__setattr__(self, name, _check_levels(name, getattr(self, name)))
        if self.outputs is not None and len({*self.outputs}) < max(len(self.outputs), 1):
            raise InvalidArgument(
                f"outputs must be a list of different names, got {self.outputs!r}."
            )
        if (self.rows is None) != (self.columns is None):
            raise InvalidArgument("rows and columns must both be given, or neither of them.")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the description of a network from the JSON file beside it.

        Parameters
        ----------
        path : of the ONNX file.
        """
        path = path.with_suffix(".json")
        if not path.exists():
            raise StorageError(f"{path} is missing: it must describe the network beside it.")
        text = read_text(path)
        defaults = {each.name: each.default for each in fields(cls) if each.default is not MISSING}
        try:
            return from_json(cls, {**defaults, **json.loads(text)})
        except (ValueError, TypeError, RecursionError) as error:
            raise StorageError(f"{path} does not describe a network: {error}") from error

    def write(self, path: Path) -> None:
        """Write the description to the JSON file beside an ONNX file."""
        values = {name: value for name, value in asdict(self).items() if value is not None}
        path.with_suffix(".json").write_text(f"{json.dumps(values, indent=2)}\n", "utf-8")


def is_network_name(name: str) -> bool:
    """Return whether a text can be the name of a network; a path cannot.

    >>> [is_network_name(each) for each in ("dinov2", "dinov2.onnx", "../dinov2")]
    [True, False, False]
    """
    return _NAME.fullmatch(name) is not None


def _check_levels(name: str, value: Any) -> tuple[float, ...]:
    """Return a mean or a scale as one number for each channel."""
    levels = [value] * 3 if not isinstance(value, list | tuple) else value
    if len(levels) != 3:
        raise InvalidArgument(f"{name} must be one number or three, got {len(levels)}.")
    above = 0 if name == "scale" else None
    return tuple(check_range(name, level, above=above) for level in levels)
