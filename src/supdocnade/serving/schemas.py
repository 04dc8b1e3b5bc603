"""What the API takes and gives."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer


class Schema(BaseModel):
    """Base of all: nothing that is not described."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ImageIn(Schema):
    """An image in a JSON request."""

    name: str | None = Field(None, description="What to call it in the answer.")
    data: str = Field(description="The file, in base64.")


class ImagesIn(Schema):
    """Images as JSON."""

    images: list[ImageIn | Annotated[str, Field(description="The file, in base64.")]] = Field(
        min_length=1
    )


class Problem(BaseModel):
    """What went wrong, as RFC 9457 has it."""

    type: str = Field(description="Where the code is explained.")
    title: str
    status: int
    code: str = Field(description="A name for programs; /docs lists all.")
    detail: str = Field(description="One sentence for people.")
    file: str | None = Field(None, description="The image that it is about.")
    errors: "list[Problem] | None" = Field(None, description="One for each image.")

    @model_serializer(mode="wrap")
    def _brief(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what there is not."""
        return {name: value for name, value in serialize(self).items() if value is not None}


Probability = Annotated[float, Field(ge=0, le=1)]


class TagOut(Schema):
    """A tag, and how probable it is that it is there."""

    tag: str
    probability: Probability


class PredictionOut(Schema):
    """What the model says of an image."""

    file: str
    number: int = Field(description="Its place in the request, from 0.")
    label: str | None = Field(description="null: the model knows no classes.")
    probability: Probability | None
    unsure: bool = Field(description="Labels of so little probability were wrong more often.")
    probabilities: dict[str, Probability] = Field(description="Of every class.")
    tags: list[TagOut] = Field(description="The most fitting first.")


class PredictOut(Schema):
    """Predictions, and what was wrong with the other images of the request."""

    predictions: list[PredictionOut]
    errors: list[Problem]


class TopicShare(Schema):
    """What went through a topic."""

    topic: int
    share: float


class ExplainOut(Schema):
    """What in an image spoke for and against a class or a tag."""

    file: str
    kind: str = Field(description="'label' or 'tag'.")
    name: str
    score: str = Field(description="What is explained.")
    whole: float = Field(description="The score of the image.")
    empty: float = Field(description="The score of an image without patches.")
    spoke_for: float = Field(description="What all patches for it add to the score.")
    spoke_against: float = Field(description="What all patches against it add, negative.")
    width: int = Field(description="Of the image as it was read, and of the map.")
    height: int
    map: str = Field(
        description="A grey PNG file in base64: levels 1 to 255 stand for -limit to limit."
    )
    limit: float = Field(description="Of what one hundredth of the area adds to the score.")
    colours: list[str] = Field(description="In which to draw levels, from -limit to limit.")
    topics: list[TopicShare] = Field(description="Those that said most, either way.")


class NeighbourOut(Schema):
    """A photograph of the gallery."""

    photograph: int = Field(description="Its number in the gallery.")
    name: str = Field(description="Its path below the folder that was indexed.")
    picture: str = Field(description="Where its small copy is.")
    label: str | None
    probability: Probability | None
    tags: list[TagOut]
    distance: float | None = Field(None, ge=0, description="In topic space; 0 is the same.")


class SimilarTo(Schema):
    """The photographs of the gallery nearest to an image."""

    file: str
    number: int
    photographs: list[NeighbourOut] = Field(description="The nearest first.")


class SimilarOut(Schema):
    """Photographs like those of the request."""

    similar: list[SimilarTo]
    errors: list[Problem]


class GalleryOut(Schema):
    """A part of the gallery."""

    total: int = Field(description="Photographs that fit, on all pages.")
    offset: int
    photographs: list[NeighbourOut]


class LimitsOut(Schema):
    """What a request may have."""

    request_bytes: int
    images: int
    pixels: int
    seconds: float


class ModelOut(Schema):
    """The model that answers."""

    name: str
    version: str = Field(description="Of the program.")
    fingerprint: str = Field(description="Other for every other model.")
    classes: list[str]
    tags: list[str]
    n_topics: int
    n_words: int
    n_images: int = Field(description="Photographs that it was learned from.")
    held_out: dict[str, float] = Field(description="Figures on photographs it had not seen.")
    gallery: int | None = Field(description="Photographs in the gallery; null: there is none.")
    limits: LimitsOut


class WordOut(Schema):
    """A visual word, strongest in some region."""

    word: int
    picture: str


class ExampleOut(Schema):
    """A photograph that the model was learned from."""

    name: str
    picture: str


class ClassOut(Schema):
    """What a class is made of."""

    label: str
    n_images: int
    topics: list[int]
    words: list[WordOut]
    tags: list[str]
    examples: list[ExampleOut]


class TopicOut(Schema):
    """What a topic stands for."""

    topic: int
    strength: float | None
    words: list[WordOut]
    tags: list[str]
    classes: list[str] = Field(description="For which it speaks.")
    examples: list[ExampleOut]


class WordUses(Schema):
    """A visual word, and what it speaks for."""

    word: int
    picture: str
    topics: list[int]
    classes: list[str]


class TagUses(Schema):
    """A tag, and what speaks for it."""

    tag: str
    frequency: float = Field(description="Share of photographs with known tags that have it.")
    topics: list[int]
    classes: list[str]
    examples: list[ExampleOut]


class ExploreOut(Schema):
    """What the model has learned, each thing with those that it goes with."""

    classes: list[ClassOut]
    topics: list[TopicOut]
    words: list[WordUses]
    tags: list[TagUses]


class StatusOut(Schema):
    """Whether the server is there."""

    status: str


def described(value: Any) -> str:
    """Return an answer as JSON."""
    text: str = value.model_dump_json()
    return text
