"""A training run that is not over: the folder `MODEL.partial`, from which it can go on."""

import json
import os
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from supdocnade.errors import InvalidArgument, StorageError

RUN = "run.json"


class UnfinishedRun:
    """What a run keeps beside its output until it is done: settings, checkpoints and words."""

    def __init__(self, output: Path):
        target = Path(os.path.abspath(output))
        self.folder = target.with_name(f"{target.name}.partial")

    @property
    def checkpoint(self) -> Path:
        """The folder of `SceneModel`'s checkpoints."""
        return self.folder / "checkpoint"

    @property
    def words(self) -> Path:
        """The folder of the words of photographs that were read already."""
        return self.folder / "words"

    @property
    def exists(self) -> bool:
        """Whether there is something of a run that was interrupted."""
        return self.folder.exists()

    def lock(self) -> AbstractContextManager[None]:
        """Keep other runs away; the lock goes with the process that holds it."""
        from supdocnade.corpus.manifest import locked

        return locked(self.folder)

    def check_idle(self) -> None:
        """Refuse to touch the folder of a run that is going on."""
        if self.exists:
            with self.lock():
                pass

    def begin(self, photos: Path, settings: dict[str, Any]) -> None:
        """Remember what a run is asked to do, also where it goes on with something changed."""
        from supdocnade.storage import write_atomically

        described = {"photos": os.path.abspath(photos), "settings": settings}
        path, content = self.folder / RUN, json.dumps(described, indent=1).encode()
        if path.is_file() and path.read_bytes() == content:
            return
        is_new = not self.exists
        try:
            write_atomically(path, content)
        except StorageError:
            if is_new:
                shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def settings(self, photos: Path) -> dict[str, Any]:
        """Return the settings of the run to go on with, which must be one on these photographs."""
        path = self.folder / RUN
        try:
            described = json.loads(path.read_bytes())
            before, settings = described["photos"], dict(described["settings"])
        except OSError as error:
            raise StorageError(
                f"there is no run to resume: {path} cannot be read: {error.strerror}."
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(f"{path} is damaged; begin anew with --restart.") from error
        if before != os.path.abspath(photos):
            raise InvalidArgument(f"the run to resume learns from {before}, not from {photos}.")
        return settings

    def discard(self) -> None:
        """Remove the folder; one that is not of a run is not touched."""
        if not self.exists:
            return
        if not (self.folder / RUN).is_file():
            raise StorageError(f"{self.folder} is in the way: it is not of an unfinished run.")
        shutil.rmtree(self.folder)

    def discard_unless_useful(self) -> bool:
        """Remove the folder of a run that failed before it had read or learned anything.

        Returns
        -------
        Whether there is something to go on with.
        """
        words = (path for path in self.words.rglob("*") if path.is_file())
        useful = any(self.checkpoint.rglob("*.safetensors")) or any(words)
        if not useful:
            shutil.rmtree(self.folder, ignore_errors=True)
        return useful
