"""Encoders whose process fails, for tests of clusters."""

import ctypes
import errno
import os
import signal
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

from supdocnade.visual_words.encoder import ImageEncoder

NEW_MOUNTS = 0x20000
"""CLONE_NEWNS of unshare(2)."""
PRIVATE = 1 << 18 | 1 << 14
"""MS_PRIVATE and MS_REC of mount(2)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Killed(ImageEncoder):
    """An encoder that kills its process.

    Parameters
    ----------
    marker : a file that exists from then on, so that only one process is killed; None: all are.
    """

    marker: Path | None = None

    def encode(self, source, name="", device="cpu"):
        if self.marker is None or _is_first(self.marker):
            os.kill(os.getpid(), signal.SIGKILL)
        return ImageEncoder.encode(self, source, name, device)


@dataclass(frozen=True, eq=False, kw_only=True)
class FullDisk(ImageEncoder):
    """An encoder that leaves no space in a folder, for its process alone.

    Parameters
    ----------
    marker : a file that exists from then on, so that only one process has a full disk, and only
        for the first `n_images` that it encodes; None: all have one for ever.
    """

    folder: Path
    marker: Path | None = None
    n_images: int = 0

    def encode(self, source, name="", device="cpu"):
        if self.marker is None or _is_first(self.marker):
            fill_disk(self.folder)
            _encoded.clear()
        elif len(_encoded) == self.n_images:
            empty_disk(self.folder)
        _encoded.append(name)
        return ImageEncoder.encode(self, source, name, device)


_encoded = []
"""Images that this process has encoded since its disk is full."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Mended(ImageEncoder):
    """An encoder that makes space in a folder that `FullDisk` left without."""

    folder: Path

    def encode(self, source, name="", device="cpu"):
        empty_disk(self.folder)
        return ImageEncoder.encode(self, source, name, device)


def faulty(kind, encoder, **extra):
    """Return an encoder with the words of another one, and with its faults."""
    known = {field.name: getattr(encoder, field.name) for field in fields(encoder)}
    return kind(**known, **extra)


def _is_first(marker):
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def fill_disk(folder):
    """Mount a disk without space over a folder, which other processes do not see."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_MOUNTS) or libc.mount(None, b"/", None, PRIVATE, None):
        raise OSError(ctypes.get_errno(), "no disk can be mounted here")
    empty_disk(folder)
    if libc.mount(b"none", os.fsencode(folder), b"tmpfs", 0, b"size=4k"):
        raise OSError(ctypes.get_errno(), "no disk can be mounted here")
    with suppress(OSError):
        (Path(folder) / "full").write_bytes(bytes(4096))


def empty_disk(folder):
    """Remove the disk of `fill_disk`."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(os.fsencode(folder), 2) and ctypes.get_errno() != errno.EINVAL:
        raise OSError(ctypes.get_errno(), f"{folder} cannot be unmounted")
