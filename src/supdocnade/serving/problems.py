"""Errors of the API as problem details (RFC 9457): a status, a code and one sentence."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, Field, SerializerFunctionWrapHandler, model_serializer
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"

PROBLEM_TYPES: dict[str, tuple[int, str]] = {
    "invalid_request": (400, "The request is malformed"),
    "unauthorized": (401, "The token is missing or wrong"),
    "foreign_page": (403, "Requests from pages of other origins are refused"),
    "not_named": (403, "The server was not started with the folder of the photograph"),
    "not_found": (404, "The resource does not exist"),
    "no_gallery": (404, "This server has no gallery"),
    "no_corrections": (404, "This server keeps no corrections"),
    "method_not_allowed": (405, "The method is not allowed for this URL"),
    "upload_too_slow": (408, "The request did not arrive in time"),
    "request_too_large": (413, "The request is too large"),
    "unsupported_media_type": (415, "The media type of the request is not supported"),
    "unknown_host": (421, "The host name is not one of this server's"),
    "invalid_argument": (422, "An argument is invalid"),
    "no_images": (422, "The request has no image"),
    "too_many_images": (422, "The request has too many images"),
    "unreadable_image": (422, "An image cannot be read"),
    "too_many_pixels": (422, "An image has too many pixels"),
    "internal_error": (500, "Internal error of the server"),
    "overloaded": (503, "The server is overloaded"),
    "too_slow": (503, "The prediction was not ready in time"),
    "not_kept": (507, "The correction, or the record of keywords, cannot be kept"),
}
"""Status and title of every error code."""


class Problem(BaseModel):
    """Problem details (RFC 9457)."""

    type: str = Field(description="URL that explains the code.")
    title: str
    status: int
    code: str = Field(description="Error code for programs; /docs lists all codes.")
    detail: str = Field(description="One sentence for people.")
    file: str | None = Field(None, description="Name of the image concerned.")
    errors: "list[Problem] | None" = Field(None, description="One problem per image.")

    @model_serializer(mode="wrap")
    def _omit_missing(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if value is not None}


class ApiError(Exception):
    """A request, or one image of it, that cannot be processed.

    Parameters
    ----------
    code : key of `PROBLEM_TYPES`.
    detail : one sentence.
    file : name of the image concerned.
    errors : the errors of several images.
    retry_after : seconds after which the client may try again.
    headers : additional headers of the response.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        file: str | None = None,
        errors: "Iterable[ApiError]" = (),
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
    ):
        super().__init__(detail)
        self.code, self.detail, self.file, self.errors = code, detail, file, tuple(errors)
        self.headers = dict(headers or {})
        if retry_after is not None:
            self.headers["Retry-After"] = str(retry_after)

    def problem(self) -> Problem:
        """Return the problem details."""
        status, title = PROBLEM_TYPES[self.code]
        return Problem(
            type=f"/docs#{self.code}",
            title=title,
            status=status,
            code=self.code,
            detail=self.detail,
            file=self.file,
            errors=[error.problem() for error in self.errors] or None,
        )

    def response(self) -> Response:
        """Return the HTTP response."""
        problem = self.problem()
        return Response(
            # File names may contain any characters, so the body is ASCII.
            json.dumps(problem.model_dump()),
            status_code=problem.status,
            headers=self.headers,
            media_type=MEDIA_TYPE,
        )


def not_found(kind: str, number: int, count: int) -> ApiError:
    """Return the error of a number that nothing of its kind has."""
    return ApiError("not_found", f"there is no {kind} {number}; there are {count}.")


def openapi_responses(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI description of the errors of a route."""
    responses: dict[int | str, dict[str, Any]] = {}
    for code in codes:
        status, title = PROBLEM_TYPES[code]
        text = responses.get(status, {}).get("description")
        responses[status] = {
            "description": f"{text}; {code}: {title}" if text else f"{code}: {title}",
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        if status == 503:
            responses[status]["headers"] = {
                "Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}
            }
    return responses
