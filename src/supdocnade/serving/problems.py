"""What went wrong with a request, as RFC 9457 has it: a status, a code, a sentence."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"


class Kind(NamedTuple):
    """A kind of problem."""

    status: int
    title: str


KINDS: dict[str, Kind] = {
    "invalid_request": Kind(400, "The request cannot be understood"),
    "unauthorized": Kind(401, "The token is missing or wrong"),
    "foreign_page": Kind(403, "Pages of other origins may not ask"),
    "not_found": Kind(404, "There is nothing here"),
    "no_gallery": Kind(404, "This server has no gallery"),
    "method_not_allowed": Kind(405, "This cannot be done here"),
    "upload_too_slow": Kind(408, "The request did not arrive in time"),
    "request_too_large": Kind(413, "The request is too large"),
    "unsupported_media_type": Kind(415, "The request has a type that is not read"),
    "unknown_host": Kind(421, "The server does not go by this name"),
    "invalid_argument": Kind(422, "An argument is wrong"),
    "no_images": Kind(422, "The request has no image"),
    "too_many_images": Kind(422, "The request has too many images"),
    "unreadable_image": Kind(422, "An image cannot be read"),
    "too_many_pixels": Kind(422, "An image has too many pixels"),
    "internal_error": Kind(500, "A mistake of the server"),
    "overloaded": Kind(503, "The server has too much to do"),
    "too_slow": Kind(503, "The answer was not there in time"),
    "interrupted": Kind(503, "The work was interrupted"),
}
"""All there are."""


class Problem(Exception):
    """A request that is not answered, or an image that is not.

    Parameters
    ----------
    code : one of `KINDS`.
    detail : one sentence.
    file : the name of the image, if it is about one.
    errors : the problems of several images.
    retry_after : seconds after which to come back.
    headers : of the response.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        file: str | None = None,
        errors: "Iterable[Problem]" = (),
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
    ):
        super().__init__(detail)
        self.code, self.detail, self.file, self.errors = code, detail, file, tuple(errors)
        self.headers = dict(headers or {})
        if retry_after is not None:
            self.headers["Retry-After"] = str(retry_after)

    @property
    def status(self) -> int:
        """Of the response."""
        return KINDS[self.code].status

    def as_object(self) -> dict[str, Any]:
        """Return the problem as plain values."""
        found: dict[str, Any] = {
            "type": f"/docs#{self.code}",
            "title": KINDS[self.code].title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        if self.file is not None:
            found["file"] = self.file
        if self.errors:
            found["errors"] = [each.as_object() for each in self.errors]
        return found

    def response(self) -> Response:
        """Return the response."""
        # ASCII: names in it may be of any characters.
        return Response(
            json.dumps(self.as_object()),
            status_code=self.status,
            headers=self.headers,
            media_type=MEDIA_TYPE,
        )


def documented(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI says about the problems of a route."""
    found: dict[int | str, dict[str, Any]] = {}
    for code in codes:
        status, title = KINDS[code]
        text = found.get(status, {}).get("description")
        found[status] = {
            "description": f"{text}; {code}: {title}" if text else f"{code}: {title}",
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        if status == 503:
            found[status]["headers"] = {
                "Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}
            }
    return found
