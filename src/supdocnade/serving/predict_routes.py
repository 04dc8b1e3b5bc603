"""The routes that take images."""

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from supdocnade.report.heatmap import diverging
from supdocnade.serving.browse_routes import neighbour, one_of, the_gallery
from supdocnade.serving.problems import Problem, documented
from supdocnade.serving.schemas import (
    ExplainOut,
    ImagesIn,
    PredictionOut,
    PredictOut,
    SimilarOut,
    SimilarTo,
    TagOut,
    TopicShare,
    described,
)
from supdocnade.serving.schemas import Problem as ProblemOut
from supdocnade.serving.service import Answer, Explained, Question, Said, Service, Why
from supdocnade.serving.uploads import FIELD, read_images

N_COLOURS, N_TOPICS = 65, 5
MOST_TAGS, MOST_SIMILAR = 1000, 200

PROBLEMS = documented(
    "invalid_request",
    "unauthorized",
    "foreign_page",
    "upload_too_slow",
    "request_too_large",
    "unsupported_media_type",
    "unknown_host",
    "invalid_argument",
    "no_images",
    "too_many_images",
    "unreadable_image",
    "too_many_pixels",
    "overloaded",
    "too_slow",
    "interrupted",
)

Top = Annotated[
    int | None,
    Query(
        ge=1,
        le=MOST_TAGS,
        description="So many tags, the best by score, which is not the order of their "
        "probabilities; otherwise those probable enough, the most probable first.",
    ),
]


def image_routes(service: Service) -> APIRouter:
    """Return the routes that take images."""
    routes = APIRouter(prefix="/v1", responses=PROBLEMS, tags=["images"])
    body = _body_description()
    labels, tags = one_of(service, "classes"), one_of(service, "tag_names")

    async def asked(request: Request, why: Why | None = None) -> list[Answer]:
        with service.held.account() as account:
            uploads = await read_images(request, service.settings, account)
            if why is not None and len(uploads) > 1:
                raise Problem(
                    "too_many_images", f"one image is explained at a time, got {len(uploads)}."
                )
            questions = [
                Question(content=each.content, name=each.name, why=why) for each in uploads
            ]
            return await service.ask(request, questions)

    @routes.post("/predict", response_model=PredictOut, openapi_extra=body)
    async def predict(request: Request, top: Top = None) -> Response:
        """Give the class and the tags of images.

        Images that cannot be read are among the errors; if none can, the status is 422.
        """
        answers = await asked(request)
        errors = _problems(answers)
        found = [
            _prediction(number, answer, top)
            for number, answer in enumerate(answers)
            if isinstance(answer, Said)
        ]
        return _json(PredictOut(predictions=found, errors=errors))

    @routes.post(
        "/explain",
        response_model=ExplainOut,
        openapi_extra=body,
        responses={200: {"content": {"image/png": {}}}},
    )
    async def explain(
        request: Request,
        label: Annotated[str | None, Query(description="Explain this class.", **labels)] = None,
        tag: Annotated[
            str | None, Query(description="Explain this tag, not a class.", **tags)
        ] = None,
        format: Annotated[
            Literal["json", "png"], Query(description="Numbers and a map, or a drawing.")
        ] = "json",
    ) -> Response:
        """Show what in one image spoke for its class, another class, or a tag."""
        why = Why(label=label, tag=tag, drawn=format == "png")
        (answer,) = await asked(request, why)
        if isinstance(answer, Problem):
            raise answer
        assert isinstance(answer, Explained), "it was asked why"
        if format == "png":
            return Response(answer.picture, media_type="image/png")
        return _json(_explanation(answer))

    @routes.post(
        "/similar",
        response_model=SimilarOut,
        openapi_extra=body,
        responses=documented("no_gallery"),
    )
    async def similar(
        request: Request,
        top: Annotated[int, Query(ge=1, le=MOST_SIMILAR, description="So many.")] = 24,
    ) -> Response:
        """Find photographs of the gallery that are like the images."""
        gallery = the_gallery(service)
        answers = await asked(request)
        errors = _problems(answers)
        found = [
            SimilarTo(
                file=answer.prediction.name,
                number=number,
                photographs=[
                    neighbour(gallery, row, distance)
                    for row, distance in await asyncio.to_thread(
                        gallery.nearest, answer.topics_H, top
                    )
                ],
            )
            for number, answer in enumerate(answers)
            if isinstance(answer, Said)
        ]
        return _json(SimilarOut(similar=found, errors=errors))

    return routes


def _json(value: Any) -> Response:
    return Response(described(value), media_type="application/json")


def _problems(answers: Sequence[Answer]) -> list[ProblemOut]:
    """Return what was wrong with images; raise if all were."""
    problems = [answer for answer in answers if isinstance(answer, Problem)]
    if len(problems) == len(answers) == 1:
        raise problems[0]
    if len(problems) == len(answers):
        raise Problem("unreadable_image", "none of the images can be read.", errors=problems)
    return [ProblemOut(**each.as_object()) for each in problems]


def _prediction(number: int, said: Said, top: int | None) -> PredictionOut:
    found = said.prediction
    tags = found.tags if top is None else found.ranked_tags[:top]
    return PredictionOut(
        file=found.name,
        number=number,
        label=found.label,
        probability=found.probability,
        unsure=found.unsure,
        probabilities=found.probabilities,
        tags=[TagOut(tag=tag, probability=probability) for tag, probability in tags],
    )


def _explanation(answer: Explained) -> ExplainOut:
    found = answer.explanation
    share_S, share_H = found.share_S, found.topic_share_H
    most = sorted(range(len(share_H)), key=lambda topic: -abs(share_H[topic]))[:N_TOPICS]
    return ExplainOut(
        file=answer.name,
        kind=found.kind,
        name=found.name,
        score=found.score,
        whole=found.whole,
        empty=found.empty,
        spoke_for=float(share_S[share_S > 0].sum()),
        spoke_against=float(share_S[share_S < 0].sum()),
        width=found.size[1],
        height=found.size[0],
        map=b64encode(answer.picture).decode("ascii"),
        limit=answer.limit,
        colours=COLOURS,
        topics=[TopicShare(topic=topic, share=float(share_H[topic])) for topic in most],
    )


def _colours() -> list[str]:
    import numpy as np

    levels = np.round(255 * diverging(np.linspace(-1, 1, N_COLOURS))).astype(int)
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in levels.tolist()]


COLOURS = _colours()
"""From what spoke against to what spoke for, as in the report."""


def _body_description() -> dict[str, Any]:
    """Return what OpenAPI says of the body: multipart, or JSON."""
    files = {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1}
    form = {
        "type": "object",
        "properties": {FIELD: files},
        "required": [FIELD],
        "additionalProperties": False,
    }
    schema = ImagesIn.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs")
    return {
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {"schema": form},
                "application/json": {"schema": schema},
            },
        }
    }
