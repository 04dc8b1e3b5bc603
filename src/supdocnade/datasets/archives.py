"""Archives unpacked so that nothing is written outside the folder that was named."""

import os
import shutil
import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath, PureWindowsPath

from supdocnade.errors import StorageError

MAX_BYTES = 16 * 2**30
"""Of all the files of an archive together, unpacked."""


def extract_zip(archive: Path, folder: Path) -> None:
    """Unpack a ZIP archive into a new folder, which appears only when it is complete.

    Raises
    ------
    StorageError : the archive is damaged, encrypted or too large; holds a link, or a path that
        leads out of the folder; or the folder exists.
    """
    if folder.exists():
        raise StorageError(f"{folder} must not exist, got a folder or file of that name.")
    unfinished = folder.with_name(f".{folder.name}.unpacking")
    try:
        with zipfile.ZipFile(archive) as members:
            _check(archive, members.infolist())
            shutil.rmtree(unfinished, ignore_errors=True)  # What a kill has left behind.
            unfinished.mkdir(parents=True)
            members.extractall(unfinished)
        os.rename(unfinished, folder)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise StorageError(f"{archive} is no ZIP archive, or damaged: {error}.") from error
    except OSError as error:
        reason = error.strerror or error
        raise StorageError(f"{archive} cannot be unpacked into {folder}: {reason}.") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _check(archive: Path, members: list[zipfile.ZipInfo]) -> None:
    """Refuse an archive before anything of it is written."""
    for member in members:
        # The name as it was stored; `filename` is already cut at a null byte.
        path = PurePosixPath(member.orig_filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or PureWindowsPath(path).anchor:
            raise StorageError(f"{archive} holds {path}, a path outside the archive.")
        kind = stat.S_IFMT(member.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise StorageError(f"{archive} holds {path}, which is neither a file nor a folder.")
        known = member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        if member.flag_bits & 0x1 or not known:
            raise StorageError(f"{archive} holds {path}, which is encrypted or not deflated.")
    total = sum(member.file_size for member in members)
    if total > MAX_BYTES:
        raise StorageError(f"{archive} must unpack to at most {MAX_BYTES} bytes, got {total}.")
