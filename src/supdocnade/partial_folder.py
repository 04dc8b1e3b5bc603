"""The folder of a run that is not finished, from which it can be resumed."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from supdocnade.errors import StorageError, UnwritableFile
from supdocnade.storage import (
    LOCK,
    lock_folder,
    remove_leftovers,
    temporary_target,
    write_atomically,
)

PLAN = "run.json"
"""File in the folder by which it is recognised; it says what the run does."""

DISCARDED = "discarded.json"
"""Name of that file while the folder is removed."""

_OURS = "supdocnade"
"""Entry of the file: the command that made it."""


class PartialFolder:
    """The folder `OUTPUT.partial`, which keeps the work of an unfinished run.

    A run locks the folder, writes its plan, and then whole files, by `storage.write_atomically`. It
    discards them when its output is complete. Nothing is written to a folder or removed from it
    that has files but no plan of ours, or that is a link: it belongs to somebody else.

    Parameters
    ----------
    output : of the run.
    command : which makes the output, such as "train".
    """

    def __init__(self, output: Path, command: str):
        output = Path(os.path.abspath(output))
        self.folder = output.with_name(f"{output.name}.partial")
        self.command = command

    @property
    def exists(self) -> bool:
        """True if an earlier run left its work."""
        return not self.folder.is_symlink() and _read_plan(self.folder / PLAN) is not None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder, which is created; if there is no plan at the end, it is removed.

        `StorageError` is raised if another process holds it, or if it is not ours. The lock ends
        with the process.
        """
        self._check_ours()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnwritableFile(f"{self.folder} cannot be created: {error.strerror}.") from error
        with lock_folder(self.folder):
            self._check_ours()
            if not self.exists:
                self._remove_work()  # A kill interrupted `discard`.
            try:
                yield
            finally:
                if not self.exists:
                    self._remove_folder()

    def _check_ours(self) -> None:
        """Raise if the folder belongs to somebody else."""
        if not os.path.lexists(self.folder):
            return
        if not self.folder.is_symlink() and self.folder.is_dir():
            if self.exists or _read_plan(self.folder / DISCARDED) is not None:
                return
            # A kill before there is a plan leaves the lock, and the beginning of the plan.
            sizes = {path.name: path.lstat().st_size for path in self.folder.iterdir()}
            ours = {temporary_target(name) for name in sizes} <= {LOCK, PLAN}
            if ours and PLAN not in sizes and not sizes.get(LOCK):
                return
        raise StorageError(
            f"{self.folder} is in the way: it is not a folder of an unfinished run of supdocnade."
        )

    def read_plan(self) -> dict[str, Any] | None:
        """Return the plan of the interrupted run, None if there is no such run."""
        found = _read_plan(self.folder / PLAN) if self.exists else None
        if found is None:
            return None
        command, plan = found
        if command != self.command:
            raise StorageError(
                f"{self.folder} holds an interrupted run of supdocnade {command}: finish it, or "
                "remove the folder."
            )
        return plan

    def write_plan(self, plan: dict[str, Any]) -> None:
        """Write the plan of a new or a resumed run: JSON values."""
        content = json.dumps({_OURS: self.command, "plan": plan}, indent=1, sort_keys=True)
        path = self.folder / PLAN
        if not path.exists() or path.read_bytes() != content.encode():
            write_atomically(path, content.encode())
        (self.folder / DISCARDED).unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove the work; a kill meanwhile leaves nothing to resume. The lock must be held."""
        try:
            if self.exists:
                os.replace(self.folder / PLAN, self.folder / DISCARDED)
        except OSError as error:
            raise UnwritableFile(f"{self.folder} cannot be removed: {error.strerror}.") from error
        self._remove_work()

    def _remove_work(self) -> None:
        """Remove everything but the lock from a folder that was discarded."""
        if _read_plan(self.folder / DISCARDED) is None:
            return
        for path in self.folder.iterdir():
            if path.name in (LOCK, DISCARDED):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(OSError):
                    path.unlink()

    def _remove_folder(self) -> None:
        """Remove the folder if it has no work, the lock last."""
        remove_leftovers(self.folder)
        with suppress(OSError):
            if {path.name for path in self.folder.iterdir()} <= {LOCK, DISCARDED}:
                (self.folder / DISCARDED).unlink(missing_ok=True)
                (self.folder / LOCK).unlink()
                self.folder.rmdir()


def _read_plan(path: Path) -> tuple[str, dict[str, Any]] | None:
    """Return the command and the plan in a file that `write_plan` wrote, None for any other."""
    try:
        found = json.loads(path.read_bytes())
        command, plan = found[_OURS], found["plan"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return (command, plan) if isinstance(command, str) and isinstance(plan, dict) else None
