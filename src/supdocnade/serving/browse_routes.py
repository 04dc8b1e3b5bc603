"""The routes that show the model and the gallery."""

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Response

from supdocnade import __version__
from supdocnade.folders.tags import normalize_tag
from supdocnade.gallery import Gallery
from supdocnade.serving.problems import Problem, documented
from supdocnade.serving.schemas import (
    ExploreOut,
    GalleryOut,
    LimitsOut,
    ModelOut,
    NeighbourOut,
    TagOut,
    described,
)
from supdocnade.serving.service import Service

ACCESS = ("unauthorized", "foreign_page", "unknown_host")
MOST_SHOWN, HIGHEST = 200, 2**31
FOREVER = {"Cache-Control": "private, max-age=86400"}

Number = Annotated[int, Path(ge=0, le=HIGHEST)]
JPEG: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}}
}


def browse_routes(service: Service) -> APIRouter:
    """Return the routes that show what there is."""
    routes = APIRouter(prefix="/v1", responses=documented(*ACCESS), tags=["model"])
    fitted, settings, atlas = service.fitted, service.settings, service.atlas
    model = ModelOut(
        name=service.name,
        version=__version__,
        fingerprint=service.fingerprint,
        classes=list(fitted.classes),
        tags=list(fitted.tag_names),
        n_topics=fitted.topics.network_.config.n_topics,
        n_words=atlas.n_words,
        n_images=int(fitted.data.get("n_images", 0)),
        held_out=fitted.held_out.figures,
        gallery=None if service.gallery is None else len(service.gallery),
        limits=LimitsOut(
            request_bytes=settings.max_request_bytes,
            images=settings.max_images,
            pixels=settings.max_pixels,
            seconds=settings.answer_seconds,
        ),
    )
    web = described(atlas.web)

    @routes.get("/model")
    async def about() -> ModelOut:
        """Describe the model and the limits of this server."""
        return model

    @routes.get("/explore", response_model=ExploreOut)
    async def explore() -> Response:
        """Give classes, topics, visual words and tags, each with those it goes with."""
        return Response(web, media_type="application/json")

    @routes.get(
        "/words/{number}/picture",
        response_class=Response,
        responses={**JPEG, **documented("not_found", "invalid_argument")},
    )
    async def word_picture(number: Number) -> Response:
        """Show patches of a visual word, up to sixteen."""
        if number >= atlas.n_words:
            raise _nothing("visual word", number, atlas.n_words)
        return _jpeg(await asyncio.to_thread(atlas.word_picture, number))

    @routes.get(
        "/examples/{number}/picture",
        response_class=Response,
        responses={**JPEG, **documented("not_found", "invalid_argument")},
    )
    async def example_picture(number: Number) -> Response:
        """Show a small copy of a photograph that the model was learned from."""
        if number >= len(atlas.examples):
            raise _nothing("example", number, len(atlas.examples))
        return _jpeg(atlas.examples[number])

    _gallery_routes(service, routes)
    return routes


def _gallery_routes(service: Service, routes: APIRouter) -> None:
    def one(number: int) -> tuple[Gallery, int]:
        found = the_gallery(service)
        if number >= len(found):
            raise _nothing("photograph", number, len(found))
        return found, number

    problems = documented("no_gallery", "invalid_argument", "not_found")
    labels, tags = one_of(service, "classes"), one_of(service, "tag_names")

    @routes.get("/gallery", responses=problems)
    async def photographs(
        label: Annotated[str | None, Query(description="Of this class.", **labels)] = None,
        tag: Annotated[str | None, Query(description="With this tag.", **tags)] = None,
        offset: Annotated[int, Query(ge=0, le=HIGHEST)] = 0,
        limit: Annotated[int, Query(ge=1, le=MOST_SHOWN)] = 60,
    ) -> GalleryOut:
        """List photographs of the gallery, those of a class or with a tag the surest first."""
        found = the_gallery(service)
        tag = None if tag is None else normalize_tag(tag)
        for given, known, what in ((label, found.classes, "class"), (tag, found.tag_names, "tag")):
            if given is not None and given not in known:
                raise Problem("invalid_argument", f"the model knows no {what} {given[:100]!r}.")
        rows = await asyncio.to_thread(found.found, label=label, tag=tag)
        shown = rows[offset : offset + limit].tolist()
        return GalleryOut(
            total=len(rows), offset=offset, photographs=[neighbour(found, row) for row in shown]
        )

    @routes.get("/gallery/{number}/similar", responses=problems)
    async def similar(
        number: Number, top: Annotated[int, Query(ge=1, le=MOST_SHOWN)] = 24
    ) -> GalleryOut:
        """List the photographs of the gallery that are most like one of them."""
        found, row = one(number)
        topics_H = found.rows.topics_NH[row]
        pairs = await asyncio.to_thread(found.nearest, topics_H, top, but=row)
        shown = [neighbour(found, other, distance) for other, distance in pairs]
        return GalleryOut(total=len(shown), offset=0, photographs=shown)

    @routes.get("/gallery/{number}", response_model=NeighbourOut, responses=problems)
    async def photograph(number: Number) -> NeighbourOut:
        """Describe a photograph of the gallery."""
        return neighbour(*one(number))

    @routes.get(
        "/gallery/{number}/picture",
        response_class=Response,
        responses={**JPEG, **problems},
    )
    async def picture(number: Number) -> Response:
        """Show a small copy of a photograph of the gallery."""
        found, row = one(number)
        return _jpeg(await asyncio.to_thread(found.picture, row))


def one_of(service: Service, kind: Literal["classes", "tag_names"]) -> dict[str, Any]:
    """Return what OpenAPI says of a parameter that must be one of the model's names.

    Nothing where there is a token: names may be those of people, and the description is public.
    """
    if service.settings.token is not None:
        return {}
    return {"json_schema_extra": {"enum": [*getattr(service.fitted, kind), None]}}


def the_gallery(service: Service) -> Gallery:
    """Return the gallery, or say that there is none."""
    if service.gallery is None:
        raise Problem(
            "no_gallery", "this server has no gallery; supdocnade index MODEL PHOTOS makes one."
        )
    return service.gallery


def neighbour(gallery: Gallery, row: int, distance: float | None = None) -> NeighbourOut:
    """Return a photograph of the gallery as it is shown."""
    label = gallery.label(row)
    return NeighbourOut(
        photograph=row,
        name=gallery.rows.names[row].encode("utf-8", "replace").decode(),
        picture=f"/v1/gallery/{row}/picture?v={gallery.version}",
        label=None if label is None else label[0],
        probability=None if label is None else label[1],
        tags=[TagOut(tag=tag, probability=probability) for tag, probability in gallery.tags(row)],
        distance=distance,
    )


def _nothing(what: str, number: int, count: int) -> Problem:
    return Problem("not_found", f"there is no {what} {number}; there are {count}.")


def _jpeg(content: bytes) -> Response:
    return Response(content, media_type="image/jpeg", headers=FOREVER)
