"""What a worker does: from the bytes of image files to what the model says of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supdocnade.encoding.encoder import count_words
from supdocnade.errors import InvalidArgument, UnreadableImage
from supdocnade.evaluation.heatmap import draw_explanation, evidence_scale
from supdocnade.imaging.decode import image_size
from supdocnade.imaging.encode import encode
from supdocnade.ops.threads import at_most
from supdocnade.scene.explanation import Explanation, explain_image
from supdocnade.scene.fitted import FittedScene
from supdocnade.scene.predictions import Prediction, predict_topics
from supdocnade.serving.problems import Problem


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked about an image: what it is, or, with `why`, why."""

    content: bytes
    name: str
    why: "Why | None" = None


@dataclass(frozen=True, kw_only=True)
class Why:
    """What is to be explained: a class, a tag, or with neither the class that is predicted."""

    label: str | None = None
    tag: str | None = None
    drawn: bool = False
    """Whether as a picture with title and legend, rather than as numbers."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Said:
    """What the model says of an image."""

    prediction: Prediction
    topics_H: NDArray[np.float32]


@dataclass(frozen=True, eq=False, kw_only=True)
class Explained:
    """Why the model says it."""

    name: str
    explanation: Explanation
    picture: bytes
    """A PNG file: the drawing, or (height, width) grey levels, 1 to 255 from -limit to limit."""
    limit: float
    """Of what one hundredth of the area adds to the score."""


Answer = Said | Explained | Problem


class Answerer:
    """Answers several questions at once: images are read one by one, and predicted together.

    Parameters
    ----------
    fitted : the model.
    max_pixels : of an image; more are refused before they are decoded.
    """

    def __init__(self, fitted: FittedScene, max_pixels: int):
        self._fitted, self._max_pixels = fitted, max_pixels

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        """Return what the model says of each image, or what is wrong with it."""
        with at_most(1):  # Every core has a worker of its own.
            answers: list[Answer | NDArray[np.int32]] = [self._read(each) for each in questions]
            return self._predict(questions, answers)

    def _read(self, question: Question) -> Answer | NDArray[np.int32]:
        """Return the words of an image, or why it has its class, or what is wrong with it."""
        name = question.name
        try:
            width, height = image_size(question.content, name)
            if width * height > self._max_pixels:
                sentence = f"{name} has {width} × {height} pixels, at most {self._max_pixels} are "
                return Problem("too_many_pixels", sentence + "read here.", file=name)
            if question.why is not None:
                return self._explain(question, question.why)
            return self._fitted.bag.encoder_.encode(question.content, name).ids
        except UnreadableImage as error:
            return Problem("unreadable_image", str(error), file=name)
        except InvalidArgument as error:
            return Problem("invalid_argument", str(error), file=name)

    def _predict(
        self, questions: Sequence[Question], read: Sequence[Answer | NDArray[np.int32]]
    ) -> list[Answer]:
        words = [each for each in read if isinstance(each, np.ndarray)]
        names = [
            question.name
            for question, each in zip(questions, read, strict=True)
            if isinstance(each, np.ndarray)
        ]
        hidden_BH = self._fitted.hidden(count_words(words, self._fitted.bag.n_features_out_))
        said = zip(predict_topics(self._fitted, names, hidden_BH), hidden_BH, strict=True)
        answers: list[Answer] = []
        for each in read:
            if isinstance(each, np.ndarray):
                prediction, topics_H = next(said)
                each = Said(prediction=prediction, topics_H=topics_H)
            answers.append(each)
        return answers

    def _explain(self, question: Question, why: Why) -> Explained:
        found = explain_image(
            self._fitted, question.content, label=why.label, tag=why.tag, name=question.name
        )
        values, limit = evidence_scale(found)
        if why.drawn:
            decoding = self._fitted.bag.encoder_.description.decoding
            picture = draw_explanation(question.content, found, decoding)
        else:
            t = np.clip(values / limit, -1, 1) if limit > 0 else np.zeros_like(values)
            picture = np.round(128 + 127 * t).astype(np.uint8)
        return Explained(
            name=question.name, explanation=found, picture=encode(picture, "PNG"), limit=limit
        )
