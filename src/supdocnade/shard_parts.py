"""Files of an output that is made shard by shard, by this process or by a cluster."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
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
        path, content = self.folder / PLAN, json.dumps(self.plan, sort_keys=True).encode()
        if not path.exists():
            write_atomically(path, content)
        elif read_file(path) != content:
            raise StorageError(
                f"{self.folder} holds an interrupted run with another model, other photographs or "
                "other settings: repeat that run to finish it, or remove the folder."
            )

    def publish(self) -> None:
        """Make the folder with all its parts the output."""
        remove_leftovers(self.folder)
        try:
            os.replace(self.folder, self.output)
        except OSError as error:
            raise UnwritableFile(
                f"{self.output} cannot be written: {error.strerror or error}."
            ) from error
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

        Parameters
        ----------
        function : called with the path of a part and its shard; it writes the part atomically.
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
