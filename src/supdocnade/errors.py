"""Errors of the package.

Every error about user input is a `SupDocNADEError` and a `ValueError`; its message is one sentence
that names the argument or file, what was expected and what was received.
"""

from collections.abc import Sequence


class SupDocNADEError(Exception):
    """Base class of all errors of this package."""


class InvalidArgument(SupDocNADEError, ValueError):
    """An argument has a wrong type, shape, range or value."""


class BackendUnavailable(SupDocNADEError, ValueError):
    """A backend that was requested by name is not available."""


class TrainingDiverged(SupDocNADEError, ValueError):
    """The objective is no longer finite."""


class ProcessLost(SupDocNADEError):
    """Another process that takes part in a training ended or does not answer."""


class StorageError(SupDocNADEError, ValueError):
    """A file or folder is missing, damaged or of another format."""


class UnwritableFile(StorageError):
    """A file cannot be written: the disk is full or read-only, or permission is denied."""


class UnreadableImage(SupDocNADEError, ValueError):
    """An image file is missing, damaged, too large, or not an image."""


class UnreadableImages(UnreadableImage):
    """One or several image files cannot be read.

    There is one reason per file, a sentence that names it.
    """

    def __init__(self, reasons: Sequence[str]):
        several = f"{len(reasons)} photographs cannot be read: " if len(reasons) > 1 else ""
        super().__init__(several + " ".join(reasons))
        self.reasons = tuple(reasons)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        """Pickle the reasons, not the message."""
        return type(self), (self.reasons,)


def install_command(extra: str) -> str:
    """Return the command that installs an extra of this package, for messages.

    The package is in no public index, so it names the clone that the package was installed from,
    which pip has recorded.
    """
    import json  # Here, since every command imports this module.
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    clone = "."
    try:
        record = distribution("supdocnade").read_text("direct_url.json")
    except PackageNotFoundError:
        record = None
    if record is not None:
        folder = Path(url2pathname(urlsplit(json.loads(record)["url"]).path))
        clone = str(folder) if (folder / "pyproject.toml").exists() else clone
    where = " in a clone of supdocnade" if clone == "." else ""
    return f"pip install '{clone}[{extra}]'{where}"
