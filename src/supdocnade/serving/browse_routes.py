"""Routes that show the model and the gallery, and keep corrections of photographs.

A correction names a photograph of the gallery by its number, whose path the index knows, or an
image by the digest that its prediction gave.
"""

import asyncio
import json
from datetime import date
from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request, Response

from supdocnade import __version__
from supdocnade.errors import StorageError
from supdocnade.folders.metadata import distinct_tags, parse_label
from supdocnade.folders.tags import spell_tag
from supdocnade.gallery.photo_index import Gallery, Order, State
from supdocnade.images.details import MAX_RATING
from supdocnade.scene.corrections import Correction, CorrectionFile
from supdocnade.serving.explore import (
    describe_overview,
    describe_photograph,
    describe_similar,
    printable,
)
from supdocnade.serving.problems import ApiError, not_found, openapi_responses
from supdocnade.serving.schemas import (
    JPEG,
    MAX_NUMBER,
    CorrectionIn,
    CorrectionOut,
    CorrectionsOut,
    CountOut,
    LimitsOut,
    ModelOut,
    NeighbourOut,
    Number,
    SearchOut,
)
from supdocnade.serving.service import Service
from supdocnade.serving.uploads import read_correction
from supdocnade.text import clean_name

MAX_PAGE_SIZE = 200
MAX_TERMS, MAX_WORDS = 20, 200
CACHED = {"Cache-Control": "private, max-age=86400"}

CORRECTION_ERRORS = openapi_responses(
    *("no_corrections", "invalid_request", "upload_too_slow", "request_too_large"),
    *("unsupported_media_type", "invalid_argument", "no_gallery", "not_found", "overloaded"),
    "not_kept",
)

Offset = Annotated[int, Query(ge=0, le=MAX_NUMBER)]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)]
Version = Annotated[str, Query(description="Has no effect but on caches.", max_length=MAX_WORDS)]


def browse_routes(service: Service) -> APIRouter:
    """Return the routes that show the model and the gallery, and keep corrections."""
    routes = APIRouter(tags=["model"])
    fitted, settings = service.fitted, service.settings
    model = ModelOut(
        name=service.name,
        version=__version__,
        fingerprint=service.fingerprint,
        classes=list(fitted.classes),
        tags=list(fitted.tag_names),
        n_topics=fitted.network.config.n_topics,
        n_words=fitted.encoder.n_words,
        n_images=int(fitted.data.get("n_images", 0)),
        held_out=fitted.held_out.metrics,
        gallery=None if service.gallery is None else len(service.gallery),
        photos=list(service.photos),
        corrections=service.training_command,
        limits=LimitsOut(
            request_bytes=settings.max_request_bytes,
            images=settings.max_images,
            pixels=settings.max_pixels,
            seconds=settings.seconds,
        ),
    )
    overview = json.dumps(describe_overview(fitted, service.fingerprint[:8]), allow_nan=False)
    examples = fitted.thumbnails.pictures
    picture_errors = openapi_responses("not_found", "invalid_argument")

    @routes.get("/model")
    async def describe_model() -> ModelOut:
        """Describe the model and the limits of this server."""
        return model

    @routes.get("/explore", response_model=dict[str, list[dict[str, Any]]])
    async def explore() -> Response:
        """Return classes, topics and tags, with the links between them.

        Tags and classes have their `share` of the photographs, and `elsewhere` that of the others.
        """
        return Response(overview, media_type="application/json")

    @routes.get(
        "/examples/{number}/picture", response_class=Response, responses={**JPEG, **picture_errors}
    )
    async def example_picture(number: Number, v: Version = "") -> Response:
        """Show the thumbnail of a training photograph."""
        if number >= len(examples):
            raise not_found("example", number, len(examples))
        return _jpeg(examples[number])

    _add_gallery_routes(service, routes)
    _add_correction_routes(service, routes)
    return routes


def _add_gallery_routes(service: Service, routes: APIRouter) -> None:
    errors = openapi_responses("no_gallery", "invalid_argument", "not_found")

    @routes.get("/gallery", responses=errors)
    async def list_photographs(
        label: Annotated[str | None, Query(description="Predicted class.")] = None,
        tag: Annotated[
            list[str] | None,
            Query(max_length=MAX_TERMS, description="Predicted tags; a photograph has all."),
        ] = None,
        words: Annotated[
            str,
            Query(
                max_length=MAX_WORDS,
                description="Words that all occur in tags, the predicted class or the path.",
            ),
        ] = "",
        min_probability: Annotated[
            float | None,
            Query(
                ge=0,
                le=1,
                description="Least probability of a tag; by default the threshold from which tags "
                "are given.",
            ),
        ] = None,
        since: Annotated[date | None, Query(description="First day they were taken.")] = None,
        until: Annotated[date | None, Query(description="Last day they were taken.")] = None,
        camera: Annotated[str | None, Query(max_length=MAX_WORDS)] = None,
        min_rating: Annotated[int, Query(ge=0, le=MAX_RATING, description="Stars.")] = 0,
        state: Annotated[
            State | None,
            Query(description="Unsure or unfamiliar answers, or photographs reviewed or not yet."),
        ] = None,
        order: Annotated[
            Order, Query(description="By default, the most probable first.")
        ] = "match",
        offset: Offset = 0,
        limit: Limit = 60,
    ) -> SearchOut:
        """List photographs of the gallery that have all that is asked for."""
        terms = {
            "tags": tag or [],
            "words": words,
            "min_probability": min_probability,
            "since": since.isoformat() if since else "",
            "until": until.isoformat() if until else "",
            "camera": camera,
            "min_rating": min_rating,
            "state": state,
            "order": order,
        }
        search = partial(_search, service.get_gallery(), label, terms, offset, limit)
        return await asyncio.to_thread(search)

    @routes.get("/gallery/{number}/similar", responses=errors)
    async def list_similar(number: Number, limit: Limit = 24) -> list[NeighbourOut]:
        """List the photographs of the gallery most similar to one of them."""
        gallery = service.gallery_with(number)
        return await asyncio.to_thread(
            lambda: describe_similar(
                gallery, gallery.picture(number), gallery.topics_NH[number], limit, but=number
            )
        )

    @routes.get("/gallery/{number}", response_model=NeighbourOut, responses=errors)
    async def photograph(number: Number) -> NeighbourOut:
        """Describe a photograph of the gallery."""
        return describe_photograph(service.gallery_with(number), number)

    @routes.get("/gallery/{number}/picture", response_class=Response, responses={**JPEG, **errors})
    async def photograph_picture(number: Number, v: Version = "") -> Response:
        """Show the thumbnail of a photograph of the gallery."""
        return _jpeg(await asyncio.to_thread(service.gallery_with(number).picture, number))


def _search(
    gallery: Gallery, label: str | None, terms: dict[str, Any], offset: int, limit: int
) -> SearchOut:
    """Return a page of the photographs that a search finds.

    `terms` are arguments of `Gallery.search`.
    """
    tags = terms["tags"] = [spell_tag(each, gallery.tag_names) for each in terms["tags"]]
    for name in tags:
        if name not in gallery.tag_names:
            raise ApiError("invalid_argument", f"the model has no tag {name[:100]!r}.")
    if label is not None and label not in gallery.classes:
        raise ApiError("invalid_argument", f"the model has no class {label[:100]!r}.")
    rows, matches = gallery.search(**terms)
    classes = gallery.count_classes(rows)  # Another class can be chosen instead of this one.
    if label is not None:
        rows, matches = gallery.search(label=label, **terms)
    is_search = label is not None or bool(tags) or bool(terms["words"].strip())
    page = slice(offset, offset + limit)
    photographs = [
        describe_photograph(gallery, row, match=match if is_search else None)
        for row, match in zip(rows[page].tolist(), matches[page].tolist(), strict=True)
    ]
    further = [(name, count) for name, count in gallery.count_tags(rows) if name not in tags]
    cameras = gallery.count_cameras(rows)
    return SearchOut(
        total=len(rows),
        offset=offset,
        photographs=photographs,
        classes=[CountOut(name=name, count=count) for name, count in classes],
        tags=[CountOut(name=name, count=count) for name, count in further],
        cameras=[CountOut(name=printable(name), count=count) for name, count in cameras],
        reviewed=len(np.intersect1d(rows, gallery.reviewed)),
    )


def _jpeg(content: bytes) -> Response:
    return Response(content, media_type="image/jpeg", headers=CACHED)


def _add_correction_routes(service: Service, routes: APIRouter) -> None:
    # The route reads the body itself.
    content = {"application/json": {"schema": CorrectionIn.model_json_schema()}}
    body = {"requestBody": {"required": True, "content": content}}

    @routes.post("/corrections", responses=CORRECTION_ERRORS, openapi_extra=body)
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

    @routes.get("/corrections", responses=openapi_responses("no_corrections", "invalid_argument"))
    async def list_corrections(offset: Offset = 0, limit: Limit = 60) -> CorrectionsOut:
        """List the corrections that the server has kept, the last one first."""
        file = _get_file(service)
        # In a thread, since the lock is held while a correction is written to the disk.
        found = [_describe(each) for each in await asyncio.to_thread(file.newest, offset, limit)]
        return CorrectionsOut(total=len(file), offset=offset, corrections=found)


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
        name = service.gallery_with(given.photograph).paths[given.photograph]
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
    tags, judged = given.tags, {clean_name(tag): has for tag, has in given.judged.items()}
    if tags is not None and judged:
        raise ApiError("invalid_argument", "tags and judged must not both be given.")
    return Correction(
        name,
        given.key,
        None if label is None else clean_name(label),
        None if tags is None else distinct_tags(clean_name(tag) for tag in tags if tag.strip()),
        judged or None,
    )


def _describe(correction: Correction) -> CorrectionOut:
    return CorrectionOut(
        file=correction.file_name.encode(errors="replace").decode(),
        key=correction.key,
        label=correction.label,
        tags=None if correction.tags is None else list(correction.tags),
        judged=correction.judged or {},
    )
