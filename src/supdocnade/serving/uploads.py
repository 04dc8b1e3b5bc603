"""Images out of a request: multipart or JSON, in memory alone, within limits.

Nothing is written to disk: Starlette would put uploads above a megabyte into temporary files, the
parser here keeps them in memory up to the size of a whole request. What all requests together hold
is limited, too.
"""

import asyncio
import binascii
from base64 import b64decode
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pydantic import ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from supdocnade.serving.limits import MEBIBYTE, ServeSettings
from supdocnade.serving.problems import Problem
from supdocnade.serving.schemas import ImagesIn
from supdocnade.text import short_name

FIELD = "images"
LONGEST_NAME = 200


class Upload(NamedTuple):
    """An image as it came."""

    name: str
    content: bytes


class HeldBytes:
    """How much of all requests is in memory; more than the limit is refused, not waited for."""

    def __init__(self, limit: int):
        self.limit, self.held = limit, 0

    @contextmanager
    def account(self) -> "Iterator[Account]":
        """Return an account for a request, which is given back in the end."""
        account = Account(self)
        try:
            yield account
        finally:
            self.held -= account.taken


class Account:
    """What one request holds."""

    def __init__(self, total: HeldBytes):
        self._total, self.taken = total, 0

    def take(self, n_bytes: int) -> None:
        """Hold more, or raise a `Problem`."""
        if self._total.held + n_bytes > self._total.limit:
            raise Problem(
                "overloaded",
                "the server holds too many requests in memory.",
                retry_after=1,
                headers={"Connection": "close"},
            )
        self._total.held += n_bytes
        self.taken += n_bytes


async def read_images(request: Request, settings: ServeSettings, account: Account) -> list[Upload]:
    """Return the images of a request, at least one, or raise a `Problem`."""
    try:
        async with asyncio.timeout(settings.upload_seconds):
            kind = _media_type(request)
            if kind == "multipart/form-data":
                uploads = await _from_multipart(request, settings, account)
            elif kind == "application/json":
                uploads = await _from_json(request, settings, account)
            else:
                raise Problem(
                    "unsupported_media_type",
                    f"the request must be multipart/form-data or application/json, got {kind!r}.",
                )
    except TimeoutError as error:
        raise Problem(
            "upload_too_slow",
            f"the request must arrive within {settings.upload_seconds:g} seconds.",
            headers={"Connection": "close"},
        ) from error
    if not uploads:
        raise Problem("no_images", f"the request must have an image in its field {FIELD!r}.")
    if len(uploads) > settings.max_images:
        raise Problem(
            "too_many_images",
            f"a request may have {settings.max_images} images, got {len(uploads)}.",
        )
    return uploads


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


class _InMemoryParser(MultiPartParser):
    """Keeps files in memory, whatever their size; the request as a whole is limited."""

    def __init__(self, request: Request, stream: AsyncGenerator[bytes, None], limit: int):
        self.spool_max_size = limit + 1
        super().__init__(request.headers, stream, max_part_size=MEBIBYTE)


async def _from_multipart(
    request: Request, settings: ServeSettings, account: Account
) -> list[Upload]:
    stream = _limited(request, settings, account)
    try:
        form = await _InMemoryParser(request, stream, settings.max_request_bytes).parse()
    except MultiPartException as error:
        raise Problem("invalid_request", f"the form cannot be read: {error.message}") from error
    except (KeyError, UnicodeError, ValueError) as error:
        raise Problem("invalid_request", "the form cannot be read.") from error
    uploads: list[Upload] = []
    try:
        for field, value in form.multi_items():
            if field != FIELD or not isinstance(value, UploadFile):
                raise Problem(
                    "invalid_argument",
                    f"a form must have files in fields {FIELD!r} and nothing else, "
                    f"got {short_name(field, 50)!r}.",
                )
            uploads.append(Upload(_name(value.filename, len(uploads)), value.file.read()))
    finally:
        await form.close()
    return uploads


async def _from_json(request: Request, settings: ServeSettings, account: Account) -> list[Upload]:
    parts = [part async for part in _limited(request, settings, account)]
    return await asyncio.to_thread(_decode_json, b"".join(parts))


def _decode_json(body: bytes) -> list[Upload]:
    try:
        given = ImagesIn.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        code = "invalid_request" if first["type"] == "json_invalid" else "invalid_argument"
        sentence = f"{where}: {first['msg']}" if where else first["msg"]
        raise Problem(code, f"the JSON of the request is wrong: {sentence}.") from error
    uploads = []
    for number, each in enumerate(given.images):
        name = _name(None if isinstance(each, str) else each.name, number)
        try:
            content = b64decode(each if isinstance(each, str) else each.data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Problem("invalid_argument", f"{name} is not in base64.", file=name) from error
        uploads.append(Upload(name, content))
    return uploads


def _name(given: str | None, number: int) -> str:
    """Return what to call an image: its name, fit to be shown, or its place."""
    return short_name(given, LONGEST_NAME) if given else f"image {number}"


async def _limited(
    request: Request, settings: ServeSettings, account: Account
) -> AsyncGenerator[bytes, None]:
    """Yield a request's body as it comes, up to the limit."""
    limit = settings.max_request_bytes
    declared = request.headers.get("content-length", "")
    total = 0
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit)
    try:
        async for part in request.stream():
            total += len(part)
            if total > limit:
                raise _too_large(limit)
            account.take(len(part))
            yield part
    except ClientDisconnect as error:
        raise Problem("invalid_request", "the request was not sent to its end.") from error


def _too_large(limit: int) -> Problem:
    return Problem(
        "request_too_large",
        f"a request may have {limit} bytes.",
        headers={"Connection": "close"},
    )
