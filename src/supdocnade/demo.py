"""Drawn scenes of eight classes, with the visible objects as tags: an archive of small pictures.

In a clone, `python -m tools.draw_scenes` draws them and writes the archive.
"""

import json
import os
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_choice, check_count
from supdocnade.errors import InvalidArgument
from supdocnade.images.decode import DecodeConfig, decode, encode
from supdocnade.storage import write_atomically

ARCHIVE = Path(__file__).with_name("scenes.zip")
METADATA = "metadata.jsonl"

CLASSES = ("coast", "dunes", "field", "forest", "mountain", "skyline", "street", "village")
N_PER_CLASS = 50


class DrawnScene(NamedTuple):
    """Picture with its class and its tags."""

    image: NDArray[np.uint8]
    """(height, width, 3)."""
    label: str
    tags: tuple[str, ...]
    """The visible objects, sorted."""


def scene_name(label: str, number: int) -> str:
    """Return the name of the file of a scene, which is the number-th of its class, from 0.

    >>> scene_name("coast", 0)
    'coast/coast_0001.webp'
    """
    return f"{label}/{label}_{number + 1:04d}.webp"


def drawn_scenes(
    n_per_class: int,
    *,
    first: int = 0,
    classes: Sequence[str] = CLASSES,
    max_side: int | None = None,
) -> list[DrawnScene]:
    """Return drawn scenes of several classes, class by class.

    Parameters
    ----------
    n_per_class, first : this many scenes of every class, from number `first` of its 50.
    classes : some of CLASSES.
    max_side : longest side in pixels; by default 256, as they are stored.
    """
    config = DecodeConfig(max_side=max_side, color=True)
    return [
        DrawnScene(decode(content, config), line["label"], tuple(line["tags"]))
        for line, content in _read_archive(n_per_class, first, classes)
    ]


def write_scenes(
    folder: str | os.PathLike[str],
    n_per_class: int,
    *,
    first: int = 0,
    classes: Sequence[str] = CLASSES,
    max_side: int | None = None,
) -> list[Path]:
    """Write drawn scenes as `folder/coast/coast_0001.webp` and so on; return their paths.

    `metadata.jsonl` has one JSON object per line with `file_name`, `label` and `tags`; it is
    written last. Repeating a call, also an interrupted one, gives the same files.

    Parameters
    ----------
    folder : created if it does not exist.
    n_per_class, first, classes : see `drawn_scenes`.
    max_side : longest side in pixels of smaller copies, as JPEG files; by default the files are
        those of the archive.
    """
    root, files, lines = Path(folder), {}, []
    for index, (line, content) in enumerate(_read_archive(n_per_class, first, classes)):
        name = scene_name(line["label"], index % n_per_class)
        if max_side is not None:
            small = decode(content, DecodeConfig(max_side=max_side, color=True))
            name, content = f"{name.removesuffix('.webp')}.jpg", encode(small, "JPEG")
        files[name] = content
        lines.append(json.dumps({**line, "file_name": name}) + "\n")
    paths = [root / name for name in files]
    files[METADATA] = "".join(lines).encode()
    for name, content in files.items():
        write_atomically(root / name, content)
    return paths


def _read_archive(
    n_per_class: int, first: int, classes: Sequence[str]
) -> Iterator[tuple[dict[str, str], bytes]]:
    """Yield the metadata and the file of every scene."""
    check_count("first", first)
    if check_count("n_per_class", n_per_class, least=1) + first > N_PER_CLASS:
        raise InvalidArgument(
            f"first + n_per_class must be at most {N_PER_CLASS}, got {first} + {n_per_class}."
        )
    for label in classes:
        check_choice("classes", label, CLASSES)
    with zipfile.ZipFile(ARCHIVE) as archive:
        lines = [json.loads(line) for line in archive.read(METADATA).splitlines()]
        by_name = {line["file_name"]: line for line in lines}
        for label in classes:
            for number in range(first, first + n_per_class):
                name = scene_name(label, number)
                yield by_name[name], archive.read(name)
