"""The folder of a training run that is not finished, from which it can be resumed."""

import json
import os
from pathlib import Path
from typing import Any

from supdocnade.errors import InvalidArgument, StorageError, UnwritableFile
from supdocnade.images.source import absolute_address
from supdocnade.partial_folder import LOCK, PartialFolder

RUN = "run.json"


class PartialRun(PartialFolder):
    """Settings, checkpoints and visual words of an unfinished training run, in `MODEL.partial`."""

    def __init__(self, output: Path):
        super().__init__(Path(os.path.abspath(output)))
        self.checkpoint = self.folder / "checkpoint"
        """Checkpoints of `SceneModel`."""
        self.words = self.folder / "words"
        """Cache of the words of photographs that were read."""

    @property
    def exists(self) -> bool:
        """True if an earlier run left its work.

        The settings of a run are written first and removed first, so a folder without them has no
        work: a kill left it, or its contents are not ours.
        """
        return (self.folder / RUN).is_file()

    def check_idle(self) -> None:
        """Raise if another process is working in the folder."""
        if self.exists:
            with self.lock():
                pass

    def write_settings(self, photos: str, settings: dict[str, Any]) -> None:
        """Write the settings of a new or a resumed run."""
        from supdocnade.storage import write_atomically

        described = {"photos": absolute_address(photos), "settings": settings}
        path, content = self.folder / RUN, json.dumps(described, indent=1).encode()
        if path.is_file() and path.read_bytes() == content:
            return
        is_new = not self.exists
        if is_new:
            self._remove_leftovers()
        try:
            write_atomically(path, content)
        except StorageError:
            if is_new:
                super().discard()
            raise

    def _remove_leftovers(self) -> None:
        """Remove a folder that a kill left without settings; raise if it is not ours."""
        from supdocnade.storage import temporary_target

        if not self.folder.exists():
            return
        ours = {RUN, LOCK, self.checkpoint.name, self.words.name}
        is_folder = self.folder.is_dir()
        if not is_folder or {temporary_target(each) for each in os.listdir(self.folder)} - ours:
            raise StorageError(f"{self.folder} is in the way: it is not a partial run.")
        super().discard()

    def read_settings(self, photos: str) -> dict[str, Any]:
        """Return the settings of the interrupted run, which must be one on these photographs."""
        path = self.folder / RUN
        try:
            described = json.loads(path.read_bytes())
            before, settings = described["photos"], dict(described["settings"])
        except OSError as error:
            raise StorageError(
                f"there is no run to resume: {path} cannot be read: {error.strerror}."
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(f"{path} is damaged; start again with --restart.") from error
        if before != absolute_address(photos):
            raise InvalidArgument(f"the run to resume learns from {before}, not from {photos}.")
        return settings

    def discard(self) -> None:
        """Remove the folder, the settings first, so that a kill leaves no run to resume."""
        if self.exists:
            try:
                (self.folder / RUN).unlink()
            except OSError as error:
                raise UnwritableFile(
                    f"{self.folder} cannot be removed: {error.strerror}."
                ) from error
            super().discard()

    def discard_if_empty(self) -> bool:
        """Remove the folder if no photograph was read and nothing was learned.

        Returns
        -------
        True if the run can be resumed.
        """
        words = (path for path in self.words.rglob("*") if path.is_file())
        useful = any(self.checkpoint.rglob("*.safetensors")) or any(words)
        if not useful:
            super().discard()
        return useful
