"""Encoders whose process fails, to see what becomes of the run on a cluster."""

import ctypes
import errno
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from supdocnade.schema import unstored
from supdocnade.visual_words.encoder import EncodedImage, ImageEncoder

NEW_MOUNTS = 0x20000
"""CLONE_NEWNS of unshare(2)."""
PRIVATE = 1 << 18 | 1 << 14
"""MS_PRIVATE and MS_REC of mount(2)."""

N_BEFORE_STUCK, STUCK_SECONDS, SLOW_SECONDS = 3, 600.0, 1.5
"""Photographs that a node encodes before it is stuck, how long it is, and the seconds that the
others take per photograph until the node that takes its place works."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Killed(ImageEncoder):
    """An encoder that kills its process.

    Parameters
    ----------
    marker : a file that exists from then on, so that only one process is killed; optional.
    """

    marker: Path | None = unstored(default=None)

    def encode(self, source: Any, name: str = "", device: str = "cpu") -> EncodedImage:
        if self.marker is None or _is_first(self.marker):
            os.kill(os.getpid(), signal.SIGKILL)
        return ImageEncoder.encode(self, source, name, device)


@dataclass(frozen=True, eq=False, kw_only=True)
class FullDisk(ImageEncoder):
    """An encoder that leaves no space in a folder, for its process alone.

    Parameters
    ----------
    marker : a file that exists from then on, so that only one process has a full disk, and only
        for the first `n_images` that it encodes; by default, for all.
    """

    folder: Path = unstored(default=Path())
    marker: Path | None = unstored(default=None)
    n_images: int = unstored(default=0)

    def encode(self, source: Any, name: str = "", device: str = "cpu") -> EncodedImage:
        if self.marker is None or _is_first(self.marker):
            fill_disk(self.folder)
            _encoded.clear()
        elif len(_encoded) == self.n_images:
            empty_disk(self.folder)
        _encoded.append(name)
        return ImageEncoder.encode(self, source, name, device)


_encoded: list[str] = []
"""Images that this process has encoded since its disk is full."""


@dataclass(frozen=True, eq=False, kw_only=True)
class StuckNode(ImageEncoder):
    """An encoder that one Ray node never finishes, until another node takes its place.

    The other nodes are slow meanwhile, so that there is work left for the new one.

    Parameters
    ----------
    folder : gets a file for each photograph and node, and the file `stuck`.
    stuck, new : addresses of the node that is stuck, and of the one that joins.
    """

    folder: Path = unstored(default=Path())
    stuck: str = unstored(default="")
    new: str = unstored(default="")

    def encode(self, source: Any, name: str = "", device: str = "cpu") -> EncodedImage:
        import ray

        node_address: Any = ray.util.get_node_ip_address
        here = str(node_address())
        if here == self.stuck and len(photographs_of(self.folder, here)) >= N_BEFORE_STUCK:
            (self.folder / "stuck").touch()
            time.sleep(STUCK_SECONDS)
        is_new_missing = not photographs_of(self.folder, self.new)
        if here != self.new and is_new_missing and (self.folder / "stuck").exists():
            time.sleep(SLOW_SECONDS)
        (self.folder / f"{here} {Path(name).name}").touch()
        return ImageEncoder.encode(self, source, name, device)


def photographs_of(folder: Path, node: str) -> list[Path]:
    """Return the files that `StuckNode` wrote for the photographs of a node."""
    return list(folder.glob(f"{node} *"))


def faulty(kind: type[ImageEncoder], encoder: ImageEncoder, **extra: Any) -> ImageEncoder:
    """Return an encoder with the words of another one, and with its faults."""
    known = {field.name: getattr(encoder, field.name) for field in fields(encoder)}
    return kind(**known, **extra)


def _is_first(marker: Path) -> bool:
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def fill_disk(folder: Path) -> None:
    """Mount a disk without space over a folder, which other processes do not see."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_MOUNTS) or libc.mount(None, b"/", None, PRIVATE, None):
        raise OSError(ctypes.get_errno(), "no disk can be mounted here")
    empty_disk(folder)
    if libc.mount(b"none", os.fsencode(folder), b"tmpfs", 0, b"size=4k"):
        raise OSError(ctypes.get_errno(), "no disk can be mounted here")
    with suppress(OSError):
        (Path(folder) / "full").write_bytes(bytes(4096))


def empty_disk(folder: Path) -> None:
    """Remove the disk of `fill_disk`."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(os.fsencode(folder), 2) and ctypes.get_errno() != errno.EINVAL:
        raise OSError(ctypes.get_errno(), f"{folder} cannot be unmounted")
