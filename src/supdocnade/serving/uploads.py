"""Bodies of requests, images as files of a form, read into memory within limits.

Nothing is written to disk: Starlette would put uploads above a megabyte into temporary files; the
parser here keeps them in memory up to the size limit of a request. The memory of all requests
together is limited as well.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from pydantic import ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from supdocnade.serving.problems import ApiError
from supdocnade.serving.schemas import CorrectionIn
from supdocnade.text import shorten_name

if TYPE_CHECKING:
    from supdocnade.serving.service import ServeSettings

MEBIBYTE = 2**20
FIELD = "images"
MAX_NAME_LENGTH = 200

MAX_CORRECTION_BYTES = 2**18

MAX_COMMAS = 10_000
"""Commas in the JSON of a correction. Each may end a value, and a value of two bytes takes
kilobytes when it is parsed and its error is described."""

Reserve = Callable[[int], None]
NamedImage = tuple[str, bytes]


class MemoryBudget:
    """Memory for the bodies of all requests; a request beyond the limit is refused."""

    def __init__(self, limit: int):
        self.limit, self.used = limit, 0

    @contextmanager
    def reservation(self) -> Iterator[Reserve]:
        """Yield a function that reserves bytes for a request; release them at the end."""
        reserved = 0

        def reserve(n_bytes: int) -> None:
            nonlocal reserved
            if self.used + n_bytes > self.limit:
                raise ApiError(
                    "overloaded",
                    "the server holds too many requests in memory.",
                    retry_after=1,
                    headers={"Connection": "close"},
                )
            self.used += n_bytes
            reserved += n_bytes

        try:
            yield reserve
        finally:
            self.used -= reserved


async def read_images(
    request: Request, settings: "ServeSettings", reserve: Reserve, most: int | None = None
) -> list[NamedImage]:
    """Return the name and the content of the images of a request, at least one.

    Parameters
    ----------
    most : largest number of images. By default, that of the settings.

    Raises
    ------
    ApiError : the request is malformed, too large or too slow.
    """
    _check_media_type(request, "multipart/form-data")
    body = _limited_body(request, settings.max_request_bytes, reserve)
    async with _upload_time(settings):
        images = await _read_multipart(request, body, settings.max_request_bytes)
    if not images:
        raise ApiError("no_images", f"the request must have an image in its field {FIELD!r}.")
    most = settings.max_images if most is None else most
    if len(images) > most:
        raise ApiError(
            "too_many_images", f"this request may have at most {most} images, got {len(images)}."
        )
    return images


async def read_correction(
    request: Request, settings: "ServeSettings", reserve: Reserve
) -> CorrectionIn:
    """Return the correction of a request.

    Raises
    ------
    ApiError : the request is malformed, too large or too slow.
    """
    _check_media_type(request, "application/json")
    async with _upload_time(settings):
        parts = [part async for part in _limited_body(request, MAX_CORRECTION_BYTES, reserve)]
    body = b"".join(parts)
    if (n_commas := body.count(b",")) > MAX_COMMAS:
        raise ApiError(
            "invalid_request",
            f"the JSON of a request may have at most {MAX_COMMAS} commas, got {n_commas}.",
        )
    try:
        return CorrectionIn.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        location = ".".join(map(str, first["loc"]))
        code = "invalid_request" if first["type"] == "json_invalid" else "invalid_argument"
        reason = f"{location}: {first['msg']}" if location else first["msg"]
        raise ApiError(code, f"the JSON of the request is invalid: {reason}.") from error


def _check_media_type(request: Request, expected: str) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != expected:
        raise ApiError(
            "unsupported_media_type", f"the request must be {expected}, got {media_type!r}."
        )


@asynccontextmanager
async def _upload_time(settings: "ServeSettings") -> AsyncIterator[None]:
    """Raise an `ApiError` if a request takes too long to arrive."""
    try:
        async with asyncio.timeout(settings.seconds):
            yield
    except TimeoutError as error:
        raise ApiError(
            "upload_too_slow",
            f"the request must arrive within {settings.seconds:g} seconds.",
            headers={"Connection": "close"},
        ) from error


class _InMemoryParser(MultiPartParser):
    """Multipart parser that keeps files in memory, whatever their size."""

    def __init__(self, request: Request, body: AsyncGenerator[bytes, None], limit: int):
        self.spool_max_size = limit + 1
        super().__init__(request.headers, body, max_part_size=MEBIBYTE)


async def _read_multipart(
    request: Request, body: AsyncGenerator[bytes, None], limit: int
) -> list[NamedImage]:
    try:
        form = await _InMemoryParser(request, body, limit).parse()
    except MultiPartException as error:
        raise ApiError("invalid_request", f"the form cannot be read: {error.message}") from error
    except (KeyError, UnicodeError, ValueError) as error:
        raise ApiError("invalid_request", "the form cannot be read.") from error
    images: list[NamedImage] = []
    try:
        for field, value in form.multi_items():
            if field != FIELD or not isinstance(value, UploadFile):
                raise ApiError(
                    "invalid_argument",
                    f"a form must have files in fields {FIELD!r} and nothing else, "
                    f"got {shorten_name(field, 50)!r}.",
                )
            images.append((_display_name(value.filename, len(images)), value.file.read()))
    finally:
        await form.close()
    return images


def _display_name(name: str | None, number: int) -> str:
    """Return a printable name for an image, made from its position if it has no name."""
    return shorten_name(name, MAX_NAME_LENGTH) if name else f"image {number}"


async def _limited_body(
    request: Request, limit: int, reserve: Reserve
) -> AsyncGenerator[bytes, None]:
    """Yield the body of a request as it arrives, up to `limit` bytes."""
    too_large = ApiError(
        "request_too_large",
        f"a request may have at most {limit} bytes.",
        headers={"Connection": "close"},
    )
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large
    total = 0
    try:
        async for part in request.stream():
            total += len(part)
            if total > limit:
                raise too_large
            reserve(len(part))
            yield part
    except ClientDisconnect as error:
        raise ApiError("invalid_request", "the request was not sent completely.") from error
