"""Request and response bodies of the API."""

from typing import Annotated, Any

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field

from supdocnade.serving.problems import Problem

JPEG: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}}
}
"""OpenAPI description of a picture as a response."""


class Schema(BaseModel):
    """Base class of the schemas; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


MAX_NUMBER = 2**31
Number = Annotated[int, Path(ge=0, le=MAX_NUMBER)]
Probability = Annotated[float, Field(ge=0, le=1)]


class TagOut(Schema):
    """A tag with its probability."""

    tag: str
    probability: Probability


class PredictionOut(Schema):
    """The prediction for an image."""

    file: str
    number: int = Field(description="Position in the request, from 0.")
    label: str | None = Field(description="Best class; null if the model has no classes.")
    probability: Probability | None
    unsure: bool = Field(
        description="In tests, answers with so low a probability were more often wrong than right."
    )
    unfamiliar: bool = Field(
        description="The image is unlike those that the model was trained on: more so than 95 % "
        "of the images it was tested on. In tests, 20 to 45 % of images of unknown classes were."
    )
    probabilities: dict[str, Probability] = Field(description="Probability of every class.")
    tags: list[TagOut] = Field(description="Best tag first.")
    key: str = Field(description="Digest of the file, by which corrections refer to it.")


class PredictOut(Schema):
    """Predictions, and the errors of the images that could not be read."""

    predictions: list[PredictionOut]
    errors: list[Problem]


ShortText = Annotated[str, Field(min_length=1, max_length=200)]


class CorrectionIn(Schema):
    """Class and tags of a photograph; without both, an earlier correction is withdrawn."""

    photograph: int | None = Field(None, ge=0, le=2**31, description="Number in the gallery.")
    key: str | None = Field(
        None, pattern="^[0-9a-f]{40}$", description="That of the prediction for an image."
    )
    file: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        None, description="Name of the image; alone, that of a correction that is kept."
    )
    label: ShortText | None = Field(None, description="Its class, which may be a new one.")
    tags: list[ShortText] | None = Field(None, max_length=100, description="All of its tags.")
    judged: dict[ShortText, bool] = Field(
        {}, max_length=100, description="Without `tags`: single tags that it has or does not have."
    )


class CorrectionOut(Schema):
    """A correction that the server has kept."""

    file: str = Field(description="Name of the image, or path of a photograph of the gallery.")
    key: str | None
    label: str | None
    tags: list[str] | None
    judged: dict[str, bool]


class CorrectionsOut(Schema):
    """Corrections, the last one first."""

    total: int
    offset: int
    corrections: list[CorrectionOut]


class Voter(Schema):
    """A training photograph that votes for a tag, since it is similar and has the tag."""

    name: str
    share: float = Field(description="Share of the votes of all similar photographs.")
    picture: str | None = Field(
        description="Thumbnail, a JPEG file in base64, if the model has one."
    )


class ExplainOut(Schema):
    """Contributions of the parts of an image to the score of a class or a tag."""

    file: str
    kind: str = Field(description="'label' or 'tag'.")
    name: str
    probability: Probability
    given: bool = Field(
        description="True for the predicted class, and for a tag that is probable enough."
    )
    decision: str = Field(description="The probability and the decision in words.")
    score: str = Field(description="Description of the score.")
    whole: float = Field(description="Score of the image.")
    empty: float = Field(description="Score of an image without patches.")
    spoke_for: float = Field(description="Sum of the positive contributions.")
    spoke_against: float = Field(description="Sum of the negative contributions.")
    global_share: float = Field(
        description="Contribution of the features of the whole image, which only networks give."
    )
    width: int = Field(description="Width of the decoded image, and of the map.")
    height: int
    map: str = Field(
        description="Greyscale PNG file in base64: levels 1 to 255 represent -limit to limit."
    )
    limit: float = Field(description="Largest contribution of one hundredth of the area.")
    colours: list[str] = Field(description="Colour scale from -limit to limit.")
    voters: list[Voter] = Field(description="Similar training photographs that have the tag.")


class NeighbourOut(Schema):
    """A photograph of the gallery."""

    photograph: int = Field(description="Number in the gallery.")
    name: str = Field(description="Path below the indexed folder.")
    picture: str = Field(description="URL of the thumbnail.")
    label: str | None
    probability: Probability | None
    tags: list[TagOut]
    path: str = Field(description="Path of the photograph when it was indexed.")
    taken: str | None = Field(
        description="Time at which it was taken, such as 2024-07-21T14:03:00."
    )
    camera: str | None
    rating: int | None = Field(description="Stars, 1 to 5.")
    unsure: bool = Field(description="As for a prediction.")
    unfamiliar: bool = Field(description="As for a prediction.")
    label_given: bool = Field(description="The class is one that somebody has given.")
    tags_given: bool = Field(description="The tags are those that somebody has given.")
    judged: dict[str, bool] = Field(description="Single tags that somebody has judged.")
    distance: float | None = Field(
        None, ge=0, description="Distance in topic space; 0 for the same photograph."
    )
    near_duplicate: bool = Field(
        False,
        description="It shows the picture that was searched for, perhaps resized or saved again; "
        "told of the nearest 24.",
    )
    match: Probability | None = Field(
        None, description="Probability that it has the class, tags and words of the search."
    )


class CountOut(Schema):
    """A class or tag with a number of photographs."""

    name: str
    count: int


class SearchOut(Schema):
    """One page of the photographs found, with classes and tags to narrow the search."""

    total: int = Field(description="Number of matching photographs on all pages.")
    offset: int
    photographs: list[NeighbourOut]
    classes: list[CountOut] = Field(
        description="Classes of the photographs found, whatever `label` is."
    )
    tags: list[CountOut] = Field(description="Further tags of the photographs found.")
    cameras: list[CountOut] = Field(description="Cameras of the photographs found.")
    reviewed: int = Field(description="Number of them that somebody has given a class or tags.")


class KeywordsOut(Schema):
    """Keywords that were written to photographs, or removed again."""

    changed: int = Field(description="Number of photographs.")
    elsewhere: int = Field(0, description="Number of those that are not in these folders, or gone.")
    failed: list[str] = Field([], description="What could not be written, at most 20 sentences.")
    undo: str | None = Field(description="Command that removes them again.")


class LimitsOut(Schema):
    """Limits of a request."""

    request_bytes: int
    images: int
    pixels: int
    seconds: float


class ModelOut(Schema):
    """The model of this server."""

    name: str
    version: str = Field(description="Version of supdocnade.")
    fingerprint: str = Field(description="Digest of the model.")
    classes: list[str]
    tags: list[str]
    n_topics: int
    n_words: int
    n_images: int = Field(description="Number of training photographs.")
    held_out: dict[str, float] = Field(description="Metrics on the held-out set.")
    gallery: int | None = Field(
        description="Number of photographs in the gallery; null without a gallery."
    )
    photos: list[str] = Field(
        description="Folders whose photographs the page may open, and give keywords."
    )
    corrections: str | None = Field(
        description="Command that learns from the corrections; null if the server keeps none."
    )
    limits: LimitsOut
