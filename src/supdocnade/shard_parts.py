"""Files of an output that is made shard by shard, by this process or by a cluster."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from supdocnade.cluster import map_shards
from supdocnade.errors import ClusterError, StorageError, UnwritableFile
from supdocnade.partial_folder import PartialFolder
from supdocnade.run_options import RunOptions
from supdocnade.storage import remove_leftovers

Shard = TypeVar("Shard")


class ShardParts(PartialFolder):
    """The parts of an unfinished output in `OUTPUT.partial`, one file per shard of images.

    A part is written atomically, so a run that was killed resumes with the shards that
    have none.

    Parameters
    ----------
    output, command : as for `PartialFolder`.
    plan : JSON values that determine the contents of all parts.
    suffix : ending of the parts.
    in_output : whether the parts are files of the output.
    """

    def __init__(
        self,
        output: Path,
        command: str,
        plan: dict[str, Any],
        suffix: str,
        *,
        in_output: bool = False,
    ):
        super().__init__(output, command)
        self.output, self.suffix, self.in_output = Path(output), suffix, in_output
        self.result = self.folder / "output"
        """The output until it is complete."""
        self._plan = plan

    @contextmanager
    def open(self) -> Iterator[None]:
        """Hold the folder for a run, which removes it if it fails before its first part.

        `StorageError` is raised if there is an output already.
        """
        with self.lock():
            before = self.read_plan()
            is_same = before is not None and before["run"] == self._plan
            if before is not None and is_same:
                self._take_back(before)
            if self.output.exists() and (not self.output.is_dir() or any(self.output.iterdir())):
                raise StorageError(f"{self.output} must be a new or an empty folder.")
            if before is not None and not is_same:
                raise StorageError(
                    f"{self.folder} holds an interrupted run with another model, other "
                    "photographs or other settings: repeat that run to finish it, or remove "
                    "the folder."
                )
            self._write_state()
            if self.in_output:
                self.result.mkdir(exist_ok=True)
            try:
                yield
            except BaseException:
                if not any(self.path(0).parent.glob("part-*")):
                    self.discard()
                raise

    def _write_state(self, *, is_complete: bool = False) -> None:
        state = {"run": self._plan, "is_complete": is_complete}
        self.write_plan(state)

    def _take_back(self, before: dict[str, Any]) -> None:
        """Move a complete output back to its place in the folder: a kill came before `discard`."""
        if before["is_complete"] and not self.result.exists() and self.output.is_dir():
            move_folder(self.output, self.result)

    def publish(self) -> None:
        """Make the result the output, and remove the folder."""
        remove_leftovers(self.result)
        self._write_state(is_complete=True)
        move_folder(self.result, self.output)
        self.discard()

    def path(self, number: int) -> Path:
        """Return the path of a part."""
        folder = self.result if self.in_output else self.folder
        return folder / f"part-{number:05d}{self.suffix}"

    def write(
        self,
        function: Callable[[tuple[Path, Shard]], object],
        shards: Sequence[Shard],
        options: RunOptions,
    ) -> Iterator[Path]:
        """Write the parts that are missing; yield the path of each part when it exists, in order.

        The function is called with the path of a part and its shard; it writes the part atomically.
        """
        paths = [self.path(number) for number in range(len(shards))]
        present = {path.name for path in self.path(0).parent.iterdir()}
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


def digest(value: Any) -> str:
    """Return a digest of a JSON value."""
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=16).hexdigest()
