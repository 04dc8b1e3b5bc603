"""Routes that show the model and the gallery."""

import asyncio
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from supdocnade import __version__
from supdocnade.folders.tags import spell_tag
from supdocnade.gallery.photo_index import Gallery
from supdocnade.serving.explore import describe_photograph, describe_similar
from supdocnade.serving.problems import ApiError, openapi_responses
from supdocnade.serving.schemas import (
    JPEG,
    CountOut,
    ExploreOut,
    GalleryOut,
    LimitsOut,
    ModelOut,
    NeighbourOut,
    SearchOut,
)
from supdocnade.serving.service import Service

ACCESS_ERRORS = ("unauthorized", "foreign_page", "unknown_host")
MAX_PAGE_SIZE, MAX_NUMBER = 200, 2**31
MAX_TERMS, MAX_WORDS = 20, 200
CACHED = {"Cache-Control": "private, max-age=86400"}

Number = Annotated[int, Path(ge=0, le=MAX_NUMBER)]
Version = Annotated[str, Query(description="Has no effect but on caches.", max_length=MAX_WORDS)]


def browse_routes(service: Service) -> APIRouter:
    """Return the routes that show the model and the gallery."""
    routes = APIRouter(prefix="/v1", responses=openapi_responses(*ACCESS_ERRORS), tags=["model"])
    fitted, settings, explorer = service.fitted, service.settings, service.explorer
    model = ModelOut(
        name=service.name,
        version=__version__,
        fingerprint=service.fingerprint,
        classes=list(fitted.classes),
        tags=list(fitted.tag_names),
        n_topics=fitted.network.config.n_topics,
        n_words=fitted.encoder.n_words,
        n_images=int(fitted.data.get("n_images", 0)),
        held_out=fitted.held_out.figures,
        gallery=None if service.gallery is None else len(service.gallery),
        corrections=service.training_command,
        limits=LimitsOut(
            request_bytes=settings.max_request_bytes,
            images=settings.max_images,
            pixels=settings.max_pixels,
            seconds=settings.seconds,
        ),
    )
    overview = explorer.overview.model_dump_json()
    picture_errors = openapi_responses("not_found", "invalid_argument")

    @routes.get("/model")
    async def describe_model() -> ModelOut:
        """Describe the model and the limits of this server."""
        return model

    @routes.get("/explore", response_model=ExploreOut)
    async def explore() -> Response:
        """Return classes, topics and tags, with the links between them."""
        return Response(overview, media_type="application/json")

    @routes.get(
        "/examples/{number}/picture", response_class=Response, responses={**JPEG, **picture_errors}
    )
    async def example_picture(number: Number, v: Version = "") -> Response:
        """Show the thumbnail of a training photograph."""
        if number >= len(explorer.examples):
            raise _not_found("example", number, len(explorer.examples))
        return _jpeg(explorer.examples[number])

    _add_gallery_routes(service, routes)
    return routes


def _add_gallery_routes(service: Service, routes: APIRouter) -> None:
    def gallery_with(number: int) -> Gallery:
        gallery = service.get_gallery()
        if number >= len(gallery):
            raise _not_found("photograph", number, len(gallery))
        return gallery

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
        offset: Annotated[int, Query(ge=0, le=MAX_NUMBER)] = 0,
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = 60,
    ) -> SearchOut:
        """List photographs of the gallery; those that a search finds by probability."""
        terms = {"tags": tag or [], "words": words, "min_probability": min_probability}
        search = partial(_search, service.get_gallery(), label, terms, offset, limit)
        return await asyncio.to_thread(search)

    @routes.get("/gallery/{number}/similar", responses=errors)
    async def list_similar(
        number: Number, limit: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = 24
    ) -> GalleryOut:
        """List the photographs of the gallery most similar to one of them."""
        gallery = gallery_with(number)
        photographs = await asyncio.to_thread(
            lambda: describe_similar(
                gallery, gallery.picture(number), gallery.topics(number), limit, but=number
            )
        )
        return GalleryOut(total=len(photographs), offset=0, photographs=photographs)

    @routes.get("/gallery/{number}", response_model=NeighbourOut, responses=errors)
    async def photograph(number: Number) -> NeighbourOut:
        """Describe a photograph of the gallery."""
        return describe_photograph(gallery_with(number), number)

    @routes.get("/gallery/{number}/picture", response_class=Response, responses={**JPEG, **errors})
    async def photograph_picture(number: Number, v: Version = "") -> Response:
        """Show the thumbnail of a photograph of the gallery."""
        return _jpeg(await asyncio.to_thread(gallery_with(number).picture, number))


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
    return SearchOut(
        total=len(rows),
        offset=offset,
        photographs=photographs,
        classes=[CountOut(name=name, count=count) for name, count in classes],
        tags=[CountOut(name=name, count=count) for name, count in further],
    )


def _not_found(kind: str, number: int, count: int) -> ApiError:
    return ApiError("not_found", f"there is no {kind} {number}; there are {count}.")


def _jpeg(content: bytes) -> Response:
    return Response(content, media_type="image/jpeg", headers=CACHED)
