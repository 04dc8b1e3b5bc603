"""The data sets' archives, fetched from their own addresses, only when asked for by name.

The publishers give no checksums. So the SHA-256 of the first archive that comes is written beside
it (`<archive>.sha256`, as `sha256sum` writes it) and whatever is fetched later must agree: what
came first is trusted. Pass `sha256` to `fetch` to trust a digest that you know instead.
"""

import hashlib
import json
import logging
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from supdocnade.datasets.archives import extract_zip
from supdocnade.datasets.lines import read_text
from supdocnade.errors import DownloadFailed, InvalidArgument, StorageError
from supdocnade.shapes import check_choice
from supdocnade.storage import write_atomically

if TYPE_CHECKING:
    import requests

TIMEOUT = (20.0, 60.0)
"""Seconds to wait for a connection, and for the next bytes."""

CHUNK = 2**14
"""Bytes that are kept together: where a connection breaks off, the last few may be lost."""


@dataclass(frozen=True)
class Source:
    """Where an archive is published."""

    url: str
    file_name: str
    archive: Literal["zip", "rar"]
    sha256: str | None = None
    """None: no digest has been published."""


SOURCES: Mapping[str, Source] = {
    "scene15": Source(
        "https://s3-eu-west-1.amazonaws.com/pfigshare-u-files/12855452/15SceneImageDataset.rar",
        "15SceneImageDataset.rar",
        "rar",
    ),
    "scene15_authors": Source(
        "http://www-cvr.ai.uiuc.edu/ponce_grp/data/scene_categories/scene_categories.zip",
        "scene_categories.zip",
        "zip",
    ),
    "labelme": Source(
        "http://people.csail.mit.edu/torralba/code/spatialenvelope/"
        "spatial_envelope_256x256_static_8outdoorcategories.zip",
        "spatial_envelope_256x256_static_8outdoorcategories.zip",
        "zip",
    ),
    "uiuc_sports": Source(
        "http://vision.stanford.edu/lijiali/event_dataset/event_dataset.rar",
        "event_dataset.rar",
        "rar",
    ),
}
"""Scene15 as figshare has it and as its authors do, LabelMe's outdoor classes without tags, and
UIUC-Sports without annotations."""


class Fetched(NamedTuple):
    """What `fetch` leaves on disk."""

    archive: Path
    folder: Path | None
    """With the photographs, for the readers of `datasets.scenes`; None: not unpacked."""


def fetch(
    name: str,
    folder: str | os.PathLike[str],
    *,
    sha256: str | None = None,
    sources: Mapping[str, Source] = SOURCES,
) -> Fetched:
    """Download an archive into a folder, check it, and unpack it to `folder/name`.

    A download that was cut off continues where it stopped, now or when `fetch` is called again,
    if the server can do that. An archive that is there and has the right digest is not fetched
    again, one with another digest is; one whose contents were unpacked may be removed. RAR archives
    are left for you to unpack, and a warning says so.

    Parameters
    ----------
    name : a key of `sources`.
    sha256 : the digest that the archive must have; None: the published one, or that of the first
        download.

    Raises
    ------
    DownloadFailed : the archive cannot be fetched, or the extra `download` is not installed.
    StorageError : it has another digest, or cannot be unpacked or written.
    """
    check_choice("name", name, tuple(sources))
    source = sources[name]
    if sha256 is not None and not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise InvalidArgument(f"sha256 must be 64 hexadecimal digits, got {sha256!r}.")
    archive, target = Path(folder) / source.file_name, Path(folder) / name
    if archive.exists() or not target.is_dir():
        _retrieve(source, archive, sha256)
    if target.is_dir():
        return Fetched(archive, target)
    if source.archive == "rar":
        warnings.warn(
            f"{archive} is a RAR archive, which is not unpacked here; unpack it into {target}.",
            stacklevel=2,
        )
        return Fetched(archive, None)
    extract_zip(archive, target)
    return Fetched(archive, target)


def _retrieve(source: Source, archive: Path, sha256: str | None) -> None:
    """Have the archive on disk with the right digest, or with one that is written down now."""
    try:
        import pooch
    except ImportError as error:
        raise DownloadFailed(
            f"{source.url} needs an extra to be fetched: pip install 'supdocnade[download]'."
        ) from error
    record = archive.with_name(f"{archive.name}.sha256")
    expected = sha256 or source.sha256 or _recorded(record)
    try:
        with _quiet(pooch.get_logger()):
            pooch.retrieve(
                source.url,
                known_hash=f"sha256:{expected.lower()}" if expected else None,
                fname=archive.name,
                path=archive.parent,
                downloader=ResumingDownloader(archive.with_name(f"{archive.name}.part")),
            )
    except (DownloadFailed, StorageError):
        raise
    except ValueError as error:
        raise StorageError(
            f"{source.url} must give a file of SHA-256 {expected}, got another file."
        ) from error
    except OSError as error:
        raise StorageError(f"{archive} cannot be written: {error.strerror or error}.") from error
    if expected is None:
        with open(archive, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        write_atomically(record, f"{digest}  {archive.name}\n".encode())


def _recorded(record: Path) -> str | None:
    if not record.exists():
        return None
    match = re.match("[0-9a-fA-F]{64}\\b", read_text(record))
    if not match:
        raise StorageError(f"{record} must begin with a SHA-256 in hexadecimal digits.")
    return match[0]


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Keep pooch from advising its own users on standard error."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


class ResumingDownloader:
    """A downloader for pooch that continues what was cut off.

    What has come is kept in a file `part`. Beside it, `<part>.json` has the server's mark of that
    version of the file (ETag, or the time of its last change); without one, or once the server
    has another version, the download starts anew, since two versions must not be joined.
    """

    def __init__(self, part: Path) -> None:
        self.part = part
        self.state = part.with_name(f"{part.name}.json")

    def __call__(self, url: str, output_file: str, pooch: object) -> None:
        """Fetch `url` into `output_file`, which exists only when all of it has come."""
        import requests

        most = self._size()
        while True:
            try:
                self._receive(url)
                break
            except requests.RequestException as error:
                # As long as every attempt brings more, another one will bring the rest.
                if self._size() <= most:
                    raise DownloadFailed(
                        f"{url} cannot be fetched ({type(error).__name__}); "
                        f"{self._size()} bytes are kept."
                    ) from error
                most = self._size()
        os.replace(self.part, output_file)
        self.state.unlink(missing_ok=True)

    def _receive(self, url: str) -> None:
        """Ask once for what is missing, and keep whatever comes."""
        import requests

        version = self._version(url)
        have = self._size() if version else 0
        # Compressed on the way, a file could not be continued at a byte of its own.
        headers = {"Accept-Encoding": "identity"}
        if version and have:
            headers |= {"Range": f"bytes={have}-", "If-Range": version}
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
            first, total = _extent(answer)
            if answer.status_code == 416 and have and have == total:
                return
            fits = first == have and _version(answer) in (None, version)
            if answer.status_code in (206, 416) and have and not fits:
                self.part.unlink()
                return self._receive(url)
            if answer.status_code not in (200, 206) or first not in (0, have):
                status = f"{answer.status_code} {answer.reason}"
                raise DownloadFailed(f"{url} cannot be fetched: the server answers {status}.")
            if total is None and answer.headers.get("Transfer-Encoding") != "chunked":
                # Cut off, it would pass for whole.
                raise DownloadFailed(f"{url} cannot be fetched: the server gives it no length.")
            if first == 0:
                self.part.unlink(missing_ok=True)
                state = {"url": url, "version": _version(answer)}
                write_atomically(self.state, json.dumps(state).encode())
            with open(self.part, "ab") as file:
                for chunk in answer.iter_content(CHUNK):
                    file.write(chunk)
        if total is not None and self._size() != total:
            size = self._size()
            self.part.unlink()
            raise DownloadFailed(f"{url} must give {total} bytes, got {size}.")

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _version(self, url: str) -> str | None:
        """Return the mark of the version that `part` belongs to; None: it cannot be continued."""
        try:
            state: Any = json.loads(self.state.read_bytes())
            return str(state["version"]) if state["url"] == url and state["version"] else None
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _extent(answer: "requests.Response") -> tuple[int | None, int | None]:
    """Return the first byte of an answer and the length of the whole file, None: unknown."""
    if answer.status_code == 200:
        length = answer.headers.get("Content-Length", "")
        return 0, int(length) if length.isdecimal() else None
    given = answer.headers.get("Content-Range", "")
    match = re.fullmatch(r"bytes (?:([0-9]+)-[0-9]+|\*)/([0-9]+|\*)", given)
    if not match:
        return None, None
    return int(match[1]) if match[1] else None, None if match[2] == "*" else int(match[2])


def _version(answer: "requests.Response") -> str | None:
    """Return what `If-Range` may be given: a weak ETag may stand for other bytes."""
    tag = answer.headers.get("ETag", "")
    if tag and not tag.startswith("W/"):
        return tag
    return answer.headers.get("Last-Modified")
