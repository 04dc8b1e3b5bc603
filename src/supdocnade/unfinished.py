"""The folder of a run that is not finished, from which it can be resumed.

`OutputParts` is the folder of an output that is made part by part.
"""

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from supdocnade.errors import StorageError, UnwritableFile
from supdocnade.images.reading import content_key
from supdocnade.images.source import absolute_address, is_source, source_name, stamp_sources
from supdocnade.runs import RunOptions
from supdocnade.storage import (
    LOCK,
    lock_folder,
    remove_leftovers,
    sync_folder,
    temporary_target,
    write_atomically,
)
from supdocnade.text import read_file

PART_SIZE = 1000
"""Images of a part: about 4 MB of words at 961 per image."""

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

    def choose_plan(self, *, resume: bool) -> dict[str, Any] | None:
        """Return the plan of the run to resume, None for a new run; raise if it is the other."""
        plan = self.read_plan()
        if resume and plan is None:
            raise StorageError(f"there is no run to resume: {self.folder} does not exist.")
        if plan is not None and not resume:
            raise StorageError(
                f"{self.folder} holds an interrupted run: continue it with --resume, or remove it."
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
            if path.name not in (LOCK, DISCARDED):
                _remove(path)

    def _remove_folder(self) -> None:
        """Remove the folder if it has no work, the lock last."""
        remove_leftovers(self.folder)
        with suppress(OSError):
            if {path.name for path in self.folder.iterdir()} <= {LOCK, DISCARDED}:
                (self.folder / DISCARDED).unlink(missing_ok=True)
                (self.folder / LOCK).unlink()
                self.folder.rmdir()


def _remove(path: Path) -> None:
    """Remove a file, a folder, or a link, as far as possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _read_plan(path: Path) -> tuple[str, dict[str, Any]] | None:
    """Return the command and the plan in a file that `write_plan` wrote, None for any other."""
    try:
        found = json.loads(read_file(path))
        command, plan = found[_OURS], found["plan"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return (command, plan) if isinstance(command, str) and isinstance(plan, dict) else None


class OutputParts(PartialFolder):
    """The parts of an unfinished output in `OUTPUT.partial`, one file per `PART_SIZE` images.

    A part is written atomically, so a run that was killed resumes with the parts that are missing,
    and with those whose images have changed. The words of the images of a part that is not finished
    are kept, too.

    Parameters
    ----------
    output, command : as for `PartialFolder`.
    plan : JSON values that determine, with the images, the contents of all parts.
    images : in the order of the output.
    suffix : ending of the parts.
    in_output : whether the parts are files of the output.
    """

    def __init__(
        self,
        output: Path,
        command: str,
        plan: dict[str, Any],
        images: Sequence[Any],
        suffix: str,
        *,
        in_output: bool = False,
    ):
        super().__init__(output, command)
        self.output, self.suffix, self.in_output = Path(output), suffix, in_output
        self.result = self.folder / "output"
        """The output until it is complete."""
        self._parts = [images[n : n + PART_SIZE] for n in range(0, len(images), PART_SIZE)]
        self._words = self.folder / "words"  # Those of the images of a part (`RunOptions.cache`).
        self._plan = {**plan, "images": digest([_absolute_names(part) for part in self._parts])}
        self._stamps = [digest(_stamps(part)) for part in self._parts]

    @contextmanager
    def open(self) -> Iterator[None]:
        """Hold the folder for a run, which removes it if it fails before it has read an image.

        `StorageError` is raised if there is an output already, or the folder of another run.
        """
        with self.lock():
            before = self.read_plan()
            if before is not None:
                self._resume(before)
            if self.output.is_symlink():
                raise StorageError(f"{self.output} must be a new or an empty folder, got a link.")
            if self.output.exists() and (not self.output.is_dir() or any(self.output.iterdir())):
                raise StorageError(f"{self.output} must be a new or an empty folder.")
            self._write_state()
            if self.in_output:
                self.result.mkdir(exist_ok=True)
            else:
                _remove(self.result)  # It is made again from the parts.
            try:
                yield
            except BaseException:
                has_parts = any(self.path(0).parent.glob("part-*"))
                if not has_parts and not any(path.is_file() for path in self._words.rglob("*")):
                    self.discard()
                raise

    def _resume(self, before: dict[str, Any]) -> None:
        """Take over the parts of an interrupted run, which must be the same.

        A warning says how many parts are made again because their images have changed.
        """
        if before["run"] != self._plan:
            raise StorageError(
                f"{self.folder} holds an interrupted run with another model, other photographs or "
                "other settings: repeat that run to finish it, or remove the folder."
            )
        if self.result.is_symlink():
            raise StorageError(f"{self.result} must be a folder of this run, got a link.")
        self._take_back(before["complete"])
        pairs = zip(before["stamps"], self._stamps, strict=True)
        paths = [self.path(number) for number, (old, new) in enumerate(pairs) if old != new]
        changed = [path for path in paths if path.exists()]
        for path in changed:
            path.unlink()
        if changed:
            warnings.warn(
                f"photographs have changed since the run was interrupted: {len(changed)} of "
                f"{len(self._parts)} parts that were finished are made again.",
                stacklevel=4,
            )

    def _take_back(self, complete: list[str] | None) -> None:
        """Move a complete output back to its place in the folder: a kill came before `discard`."""
        if complete is None or self.result.exists():
            return
        # A folder of somebody else may have taken its place.
        is_ours = not self.output.is_symlink() and self.output.is_dir()
        if is_ours and sorted(os.listdir(self.output)) == complete:
            move_folder(self.output, self.result)

    def _write_state(self, complete: list[str] | None = None) -> None:
        """Write the plan, with the names of the files of the output once it is complete."""
        self.write_plan({"run": self._plan, "stamps": self._stamps, "complete": complete})

    def path(self, number: int) -> Path:
        """Return the path of a part."""
        folder = self.result if self.in_output else self.folder
        return folder / f"part-{number:05d}{self.suffix}"

    def write(
        self,
        write_part: Callable[[Path, Sequence[Any], RunOptions], object],
        options: RunOptions,
        stage: str,
    ) -> Iterator[tuple[Path, slice]]:
        """Write the parts that are missing; yield the path of each, and which images it has.

        Parameters
        ----------
        write_part : called with the path of a part, its images and the options of its work; it
            writes the part atomically.
        stage : reported to `options.progress`.
        """
        done, n_images = 0, sum(map(len, self._parts))

        def report(_stage: str, n_done: int, _total: int | None) -> None:
            options.progress(stage, done + n_done, n_images)

        of_part = replace(options, progress=report, cache=self._words)
        for number, images in enumerate(self._parts):
            path = self.path(number)
            if not path.exists():
                write_part(path, images, of_part)
                _remove(self._words)
            done += len(images)
            options.progress(stage, done, n_images)
            yield path, slice(done - len(images), done)

    def publish(self) -> None:
        """Make the result the output, and remove the folder."""
        remove_leftovers(self.result)
        self._write_state(sorted(os.listdir(self.result)))
        move_folder(self.result, self.output)
        self.discard()


def move_folder(source: Path, target: Path) -> None:
    """Move a folder in one step; the target must not exist or be an empty folder."""
    try:
        os.replace(source, target)
        sync_folder(target.parent)
    except OSError as error:
        raise UnwritableFile(f"{target} cannot be written: {error.strerror or error}.") from error


def digest(value: Any) -> str:
    """Return a digest of a JSON value."""
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=16).hexdigest()


def _absolute_names(images: Sequence[Any]) -> list[str | None]:
    """Return absolute paths or addresses; None for an image that is not a source."""
    return [absolute_address(source_name(each)) if is_source(each) else None for each in images]


def _stamps(images: Sequence[Any]) -> list[Any]:
    """Return what changes with each image: size and time of its file, or a digest of the image."""
    stamps = iter(stamp_sources(each for each in images if is_source(each)))
    return [next(stamps) if is_source(each) else content_key(each) for each in images]
