"""What can go wrong, in words a user can act on.

Every error about user input is a `SupDocNADEError` and a `ValueError`; its message is one sentence
that names the argument or file, what was expected and what came.
"""


class SupDocNADEError(Exception):
    """Base of every error this package raises on purpose."""


class InvalidArgument(SupDocNADEError, ValueError):
    """An argument has a wrong type, shape, range or value."""


class BackendUnavailable(SupDocNADEError, ValueError):
    """A backend that was asked for by name cannot serve this call."""


class TrainingDiverged(SupDocNADEError, ValueError):
    """The objective stopped being a finite number."""


class StorageError(SupDocNADEError, ValueError):
    """A file or folder on disk is missing, damaged or from another format."""


class UnwritableFile(StorageError):
    """A file cannot be written: the disk is full, read-only, or not for this user."""


class UnreadableImage(SupDocNADEError, ValueError):
    """An image file is missing, damaged, too large, or no image."""


class DownloadFailed(SupDocNADEError, ValueError):
    """A file that was asked for by name could not be fetched."""
