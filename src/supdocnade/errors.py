"""Errors of the package.

Every error about user input is a `SupDocNADEError` and a `ValueError`; its message is one sentence
that names the argument or file, what was expected and what was received.
"""


class SupDocNADEError(Exception):
    """Base class of all errors of this package."""


class InvalidArgument(SupDocNADEError, ValueError):
    """An argument has a wrong type, shape, range or value."""


class BackendUnavailable(SupDocNADEError, ValueError):
    """A backend that was requested by name is not available."""


class TrainingDiverged(SupDocNADEError, ValueError):
    """The objective is no longer finite."""


class StorageError(SupDocNADEError, ValueError):
    """A file or folder is missing, damaged or of another format."""


class UnwritableFile(StorageError):
    """A file cannot be written: the disk is full or read-only, or permission is denied."""


class UnreadableImage(SupDocNADEError, ValueError):
    """An image file is missing, damaged, too large, or not an image."""
