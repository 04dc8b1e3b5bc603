"""Routes that take images."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Query, Request, Response

from supdocnade.report.heatmap import diverging
from supdocnade.scene.thumbnails import Thumbnails
from supdocnade.serving.explore import describe_similar
from supdocnade.serving.problems import ApiError, Problem, openapi_responses
from supdocnade.serving.schemas import (
    JPEG,
    ExplainOut,
    NeighbourOut,
    PredictionOut,
    PredictOut,
    Schema,
    Voter,
)
from supdocnade.serving.service import (
    Explained,
    Service,
    T,
    Work,
    explain_images,
    predict_images,
    preview_images,
)
from supdocnade.serving.uploads import FIELD, NamedImage, read_images

N_COLOURS = 65
MAX_TAGS, MAX_SIMILAR = 1000, 200

COLOURS = [
    f"#{bytes(colour).hex()}"
    for colour in np.round(255 * diverging(np.linspace(-1, 1, N_COLOURS))).astype(np.uint8)
]
"""Colour scale of contributions from negative to positive, as in the report."""

ERRORS = openapi_responses(
    *("invalid_request", "upload_too_slow", "request_too_large", "unsupported_media_type"),
    *("invalid_argument", "no_images", "too_many_images", "unreadable_image", "too_many_pixels"),
    *("overloaded", "too_slow"),
)


_FORM = {
    "type": "object",
    "properties": {
        FIELD: {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1}
    },
    "required": [FIELD],
    "additionalProperties": False,
}
BODY = {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _FORM}}}}
"""OpenAPI description of a request with images."""

Top = Annotated[
    int | None,
    Query(
        ge=1,
        le=MAX_TAGS,
        description="Return this many tags, in the order of their scores, which is not that of "
        "their probabilities. By default, the tags that are probable enough, most probable first.",
    ),
]


def image_routes(service: Service) -> APIRouter:
    """Return the routes that take images."""
    routes = APIRouter(responses=ERRORS, tags=["images"])
    _add_predict_routes(service, routes)
    _add_explain_route(service, routes)
    _add_preview_route(service, routes)
    return routes


def _add_predict_routes(service: Service, routes: APIRouter) -> None:
    @routes.post("/predict", response_model=PredictOut, openapi_extra=BODY)
    async def predict(request: Request, top: Top = None) -> Response:
        """Predict the class and the tags of images.

        Images that cannot be read are listed under `errors`; if none can be read, the status is
        422.
        """
        async with _processed(service, request, predict_images) as (_, results):
            errors = _problems(results)
        predictions = [
            PredictionOut(**result[0].to_dict(top), number=number, key=result[0].key or "")
            for number, result in enumerate(results)
            if not isinstance(result, ApiError)
        ]
        return _json(PredictOut(predictions=predictions, errors=errors))

    @routes.post("/similar", openapi_extra=BODY, responses=openapi_responses("no_gallery"))
    async def similar(
        request: Request,
        limit: Annotated[
            int, Query(ge=1, le=MAX_SIMILAR, description="Number of photographs.")
        ] = 24,
    ) -> list[NeighbourOut]:
        """Find the photographs of the gallery that are most similar to one image."""
        gallery = service.get_gallery()
        async with _processed(service, request, predict_images, most=1) as (images, results):
            ((_, content),), (result,) = images, results
            if isinstance(result, ApiError):
                raise result
            return await asyncio.to_thread(describe_similar, gallery, content, result[1], limit)


def _add_explain_route(service: Service, routes: APIRouter) -> None:
    @routes.post(
        "/explain",
        response_model=ExplainOut,
        openapi_extra=BODY,
    )
    async def explain(
        request: Request,
        label: Annotated[str | None, Query(description="Explain this class.")] = None,
        tag: Annotated[
            str | None, Query(description="Explain this tag instead of a class.")
        ] = None,
    ) -> Response:
        """Show which parts of one image support its class, another class, or a tag."""
        explain = partial(explain_images, label=label, tag=tag)
        name, result = await _process_one(service, request, explain)
        return _json(_describe_explanation(name, result, service.fitted.thumbnails))


def _add_preview_route(service: Service, routes: APIRouter) -> None:
    @routes.post("/preview", response_class=Response, openapi_extra=BODY, responses=JPEG)
    async def preview(request: Request) -> Response:
        """Show one image as a small JPEG file, for browsers that do not know its format."""
        _, preview = await _process_one(service, request, preview_images)
        return Response(preview, media_type="image/jpeg")


@asynccontextmanager
async def _processed(
    service: Service, request: Request, work: Work[T], most: int | None = None
) -> AsyncIterator[tuple[list[NamedImage], list[T | ApiError]]]:
    """Yield the images of a request, `most` at most, and what some work returns for them."""
    with service.memory.reservation() as reserve:
        images = await read_images(request, service.settings, reserve, most)
        yield images, await service.process(request, images, work)


async def _process_one(service: Service, request: Request, work: Work[T]) -> tuple[str, T]:
    """Return the name of the only image of a request, and what some work returns for it."""
    async with _processed(service, request, work, most=1) as (images, results):
        if isinstance(results[0], ApiError):
            raise results[0]
        return images[0][0], results[0]


def _json(value: Schema) -> Response:
    return Response(value.model_dump_json(), media_type="application/json")


def _problems(results: Sequence[object]) -> list[Problem]:
    """Return the problems of images; raise an `ApiError` if every image has one."""
    errors = [result for result in results if isinstance(result, ApiError)]
    if len(errors) == len(results) == 1:
        raise errors[0]
    if len(errors) == len(results):
        raise ApiError("unreadable_image", "none of the images can be read.", errors=errors)
    return [error.problem() for error in errors]


def _describe_explanation(name: str, explained: Explained, thumbnails: Thumbnails) -> ExplainOut:
    explanation, picture, limit = explained
    share_S = explanation.share_S
    return ExplainOut(
        file=name,
        kind=explanation.kind,
        name=explanation.name,
        probability=explanation.probability,
        given=explanation.given,
        decision=explanation.decision,
        score=explanation.score,
        whole=explanation.whole,
        empty=explanation.empty,
        spoke_for=float(share_S[share_S > 0].sum()),
        spoke_against=float(share_S[share_S < 0].sum()),
        global_share=explanation.global_share,
        width=explanation.size[1],
        height=explanation.size[0],
        map=b64encode(picture).decode("ascii"),
        limit=limit,
        colours=COLOURS,
        voters=[_describe_voter(thumbnails, *each) for each in explanation.voters],
    )


def _describe_voter(thumbnails: Thumbnails, name: str, share: float) -> Voter:
    content = thumbnails.picture(name)
    picture = None if content is None else b64encode(content).decode("ascii")
    return Voter(name=name, share=share, picture=picture)
