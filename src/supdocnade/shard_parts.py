"""Files of an output that is made shard by shard, by this process or by a cluster."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from supdocnade.cluster import map_shards
from supdocnade.errors import ClusterError, StorageError, UnwritableFile
from supdocnade.partial_folder import LOCK, PartialFolder
from supdocnade.run_options import RunOptions
from supdocnade.storage import read_file, remove_leftovers, write_atomically

PLAN = "plan.json"

Shard = TypeVar("Shard")


class ShardParts(PartialFolder):
    """The parts of an unfinished output in `OUTPUT.partial`, one file per shard.

    A part is written atomically and never again, so a run that was killed resumes with the shards
    that have none.

    Parameters
    ----------
    output : of the run.
    plan : JSON values that determine the contents of all parts.
    suffix : ending of the parts.
    """

    def __init__(self, output: Path, plan: dict[str, Any], suffix: str):
        super().__init__(Path(os.path.abspath(output)))
        self.output, self.plan, self.suffix = Path(output), plan, suffix

    @contextmanager
    def open(self) -> Iterator[None]:
        """Hold the folder for a run, which removes it if it fails before its first part.

        `StorageError` is raised if there is an output already.
        """
        if not self.folder.exists() and self._has_plan(self.output):
            move_folder(self.output, self.folder)  # A kill interrupted `publish`.
        if self.output.exists() and (not self.output.is_dir() or any(self.output.iterdir())):
            raise StorageError(f"{self.output} must be a new or an empty folder.")
        self.create()
        with self.lock():
            self._check_plan()
            try:
                yield
            except BaseException:
                if not any(self.folder.glob("part-*")):
                    self.discard()
                raise

    def _check_plan(self) -> None:
        if not (self.folder / PLAN).exists():
            self._remove_contents()  # Parts without a plan: a kill interrupted `discard`.
            write_atomically(self.folder / PLAN, self._plan_content())
        elif not self._has_plan(self.folder):
            raise StorageError(
                f"{self.folder} holds an interrupted run with another model, other photographs or "
                "other settings: repeat that run to finish it, or remove the folder."
            )

    def _plan_content(self) -> bytes:
        return json.dumps(self.plan, sort_keys=True).encode()

    def _has_plan(self, folder: Path) -> bool:
        """Return True if a folder has the plan of this run."""
        path = folder / PLAN
        return path.is_file() and read_file(path) == self._plan_content()

    def _remove_contents(self, *kept: str) -> None:
        """Remove everything but the lock and some other files."""
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name not in (LOCK, *kept):
                with suppress(OSError):
                    path.unlink()

    def take_back(self, name: str) -> None:
        """Move a complete output back to its place in the folder, if a kill came before `discard`.

        `name` is that of the output in this folder before it was moved.
        """
        if self.folder.exists() and self.output.exists():
            with self.lock():
                if self._has_plan(self.folder) and not (self.folder / name).exists():
                    move_folder(self.output, self.folder / name)

    def discard(self) -> None:
        """Remove the folder, the plan last: until then a run that was killed is recognised."""
        if self.exists:
            self._remove_contents(PLAN)
        super().discard()

    def publish(self) -> None:
        """Make the folder with all its parts the output."""
        remove_leftovers(self.folder)
        move_folder(self.folder, self.output)
        for name in (PLAN, LOCK):
            (self.output / name).unlink(missing_ok=True)

    def path(self, number: int) -> Path:
        """Return the path of a part."""
        return self.folder / f"part-{number:05d}{self.suffix}"

    def write(
        self,
        function: Callable[[tuple[Path, Shard]], object],
        shards: Sequence[Shard],
        options: RunOptions,
    ) -> Iterator[Path]:
        """Write the parts that are missing; yield the path of each part when it exists, in order.

        The function is called with the path of a part and its shard; it writes the part atomically.
        """
        present = {path.name for path in self.folder.iterdir()}
        paths = [self.path(number) for number in range(len(shards))]
        todo = [
            (path, shard)
            for path, shard in zip(paths, shards, strict=True)
            if path.name not in present
        ]
        with closing(map_shards(function, todo, options)) as written:
            for path in paths:
                if path.name not in present:
                    next(written)
                    if not path.exists():
                        raise ClusterError(
                            f"{path} was written by a worker, but is not here; all machines of "
                            "the cluster must share the folder of the output."
                        )
                yield path


def move_folder(source: Path, target: Path) -> None:
    """Move a folder on one disk, in one step; the target must not exist or be an empty folder."""
    try:
        os.replace(source, target)
    except OSError as error:
        raise UnwritableFile(f"{target} cannot be written: {error.strerror or error}.") from error
