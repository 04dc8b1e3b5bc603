"""Routes that keep and list corrections: classes and tags that people give to photographs.

A correction names a photograph of the gallery by its number, whose path the index knows, or an
image by the digest that its prediction gave. Neither is ever opened or written by the server.
"""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from supdocnade.errors import StorageError
from supdocnade.folders.metadata import distinct_tags, parse_label
from supdocnade.scene.corrections import Correction, CorrectionFile
from supdocnade.serving.problems import ApiError, openapi_responses
from supdocnade.serving.schemas import CorrectionIn, CorrectionOut, CorrectionsOut
from supdocnade.serving.service import Service
from supdocnade.serving.uploads import read_correction
from supdocnade.text import clean_name

MAX_PAGE_SIZE, MAX_NUMBER = 200, 2**31

ACCESS_ERRORS = ("unauthorized", "foreign_page", "unknown_host", "no_corrections")
ERRORS = (
    *("invalid_request", "upload_too_slow", "request_too_large", "unsupported_media_type"),
    *("invalid_argument", "no_gallery", "not_found", "overloaded", "not_kept"),
)


def _describe_body() -> dict[str, Any]:
    """Return the OpenAPI description of the request body, which the route reads itself."""
    schema = CorrectionIn.model_json_schema()
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


def correction_routes(service: Service) -> APIRouter:
    """Return the routes that keep and list corrections."""
    access = openapi_responses(*ACCESS_ERRORS)
    routes = APIRouter(prefix="/v1", responses=access, tags=["corrections"])

    @routes.post(
        "/corrections",
        responses=openapi_responses(*ACCESS_ERRORS, *ERRORS),
        openapi_extra=_describe_body(),
    )
    async def correct(request: Request) -> CorrectionOut:
        """Keep the class and the tags of a photograph, for `supdocnade train --add`."""
        file = _get_file(service)
        with service.memory.reservation() as reserve:
            given = await read_correction(request, service.settings, reserve)
        correction = _read_correction(service, given)
        try:
            await asyncio.to_thread(file.add, correction)
        except StorageError as error:
            raise ApiError("not_kept", str(error)) from error
        service.correct_gallery([correction])
        return _describe(correction)

    @routes.get("/corrections", responses=openapi_responses("invalid_argument"))
    async def list_corrections(
        offset: Annotated[int, Query(ge=0, le=MAX_NUMBER)] = 0,
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = 60,
    ) -> CorrectionsOut:
        """List the corrections that the server has kept, the last one first."""
        file = _get_file(service)
        # In a thread, since the lock is held while a correction is written to the disk.
        found = [_describe(each) for each in await asyncio.to_thread(file.newest, offset, limit)]
        return CorrectionsOut(total=len(file), offset=offset, corrections=found)

    return routes


def _get_file(service: Service) -> CorrectionFile:
    if service.corrections is None:
        raise ApiError(
            "no_corrections",
            "this server keeps no corrections; supdocnade serve --corrections FILE does.",
        )
    return service.corrections


def _read_correction(service: Service, given: CorrectionIn) -> Correction:
    """Return a correction of a photograph that is known, or raise an `ApiError`."""
    if given.photograph is not None and given.key is not None:
        raise ApiError("invalid_argument", "photograph and key must not both be given.")
    if given.photograph is not None:
        gallery = service.get_gallery()
        if given.photograph >= len(gallery):
            raise ApiError("not_found", f"there is no photograph {given.photograph}.")
        name = gallery.path(given.photograph)
    elif given.key is not None:
        name = clean_name(given.file or "image")
    elif given.file is not None and _get_file(service).has(given.file):
        name = given.file
    else:
        raise ApiError(
            "not_found", "photograph, key, or the file of a correction that is kept must be given."
        )
    try:
        label = parse_label("the correction", given.label)
    except StorageError as error:
        raise ApiError("invalid_argument", str(error)) from error
    tags = given.tags
    return Correction(
        name,
        given.key,
        None if label is None else clean_name(label),
        None if tags is None else distinct_tags(clean_name(tag) for tag in tags if tag.strip()),
    )


def _describe(correction: Correction) -> CorrectionOut:
    return CorrectionOut(
        file=correction.file_name.encode(errors="replace").decode(),
        key=correction.key,
        label=correction.label,
        tags=None if correction.tags is None else list(correction.tags),
    )
