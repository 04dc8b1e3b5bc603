"""A loaded model with its workers: takes images, gives answers, or says that it has too much to do.

Here the server's two worlds meet: requests wait in the event loop, images are worked on by threads.
"""

import asyncio
import math
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request

from supdocnade.errors import InvalidArgument, UnreadableImage
from supdocnade.gallery import Gallery, model_fingerprint
from supdocnade.images.decode import encode, image_size
from supdocnade.likelihood.cpu.threads import limit_threads
from supdocnade.report.heatmap import draw_explanation, evidence_scale
from supdocnade.scene.attribution import Explanation, explain_image
from supdocnade.scene.prediction import FittedScene, Prediction, predict_topics
from supdocnade.serving.explore import Atlas
from supdocnade.serving.limits import ServeSettings
from supdocnade.serving.monitoring import Metrics
from supdocnade.serving.problems import Problem
from supdocnade.serving.uploads import HeldBytes
from supdocnade.serving.workers import QueueFull, Workers, WorkInterrupted
from supdocnade.visual_words.encoder import count_words

# What a worker does: from the bytes of image files to what the model says of them.


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
        with limit_threads(1):  # Every core has a worker of its own.
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


REFUSAL_SECONDS = 2.0
"""From when a request finds no room until it is refused, if there still is none."""

MOST_HELD_BACK = 128
"""Requests that are held back so at a time: each may have sent some hundred kilobytes by then."""


class Service:
    """What a server knows and does.

    Parameters
    ----------
    fitted : the model.
    name : what to call it.
    gallery : an index of photographs, if there is one.
    """

    def __init__(
        self,
        fitted: FittedScene,
        settings: ServeSettings,
        *,
        name: str = "model",
        gallery: Gallery | None = None,
    ):
        self.fitted, self.settings, self.name, self.gallery = fitted, settings, name, gallery
        self.fingerprint = model_fingerprint(fitted)
        self.atlas = Atlas(fitted, self.fingerprint)
        self.held = HeldBytes(settings.max_held_bytes)
        self.metrics = Metrics()
        self.draining = False
        self._n_held_back = 0
        self.workers: Workers[Question, Answer] = Workers(
            Answerer(fitted, settings.max_pixels),
            n_threads=settings.n_workers,
            max_waiting=settings.max_waiting,
            max_batch=settings.max_batch,
            on_batch=self._note_batch,
        )
        watch = self.metrics.watch
        watch("images_waiting", "Images in the queue.", lambda: self.workers.n_waiting)
        watch("workers", "Threads that work.", lambda: self.workers.n_alive)
        watch("held_bytes", "Of requests in memory.", lambda: self.held.held)

    @property
    def ready(self) -> bool:
        """Whether new work is taken."""
        return not self.draining and self.workers.n_alive > 0

    def close(self) -> None:
        """Finish what was begun."""
        self.workers.close()

    async def admit(self) -> None:
        """Return where the largest request would find room; otherwise raise a `Problem`.

        That takes a moment: clients that ask again at once would else keep the server busy with
        refusing. Whoever finds room after it is let in after all.
        """
        if not self._is_full:
            return
        if self._n_held_back < MOST_HELD_BACK:
            self._n_held_back += 1
            try:
                await asyncio.sleep(REFUSAL_SECONDS)
            finally:
                self._n_held_back -= 1
        if self._is_full:
            raise self._overloaded()

    @property
    def _is_full(self) -> bool:
        return self.workers.n_waiting > self.settings.max_waiting - self.settings.max_images

    async def ask(self, request: Request, questions: Sequence[Question]) -> list[Answer]:
        """Return the answers to questions, or raise a `Problem`.

        Work that nobody has begun is dropped when the client goes away or time runs out.
        """
        try:
            futures = self.workers.submit(questions)
        except QueueFull as error:
            raise self._overloaded() from error
        work = asyncio.ensure_future(_results(futures))
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait(
                (work, gone),
                timeout=self.settings.answer_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if work.done():
                answers = work.result()
                self._count(answers)
                return answers
            if gone.done():
                raise Problem("invalid_request", "the client has gone.")
            raise Problem(
                "too_slow",
                f"the answer was not there within {self.settings.answer_seconds:g} seconds.",
                retry_after=self._retry_after(),
            )
        except WorkInterrupted as error:
            raise Problem(
                "interrupted", "the work was interrupted; ask again.", retry_after=1
            ) from error
        finally:
            gone.cancel()
            work.cancel()
            for future in futures:
                future.cancel()

    def _overloaded(self) -> Problem:
        wait = self._retry_after()
        sentence = f"{self.workers.n_waiting} images are waiting; come back in {wait} seconds."
        # What is still being sent is not worth reading.
        return Problem("overloaded", sentence, retry_after=wait, headers={"Connection": "close"})

    def _retry_after(self) -> int:
        return max(math.ceil(self.workers.seconds_to_empty), 1)

    def _count(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            kind = {Said: "predicted", Explained: "explained"}.get(type(answer), "")
            code = answer.code if isinstance(answer, Problem) else kind
            self.metrics.images.labels(code).inc()

    def _note_batch(self, n_images: int, seconds: float) -> None:
        self.metrics.batch_size.observe(n_images)
        self.metrics.work_seconds.inc(seconds)

    def warm_up(self, image: bytes) -> None:
        """Answer once before anyone asks, so that all code is compiled."""
        for future in self.workers.submit([Question(content=image, name="warm-up")]):
            future.result()


async def _results(futures: Sequence[Future[Answer]]) -> list[Answer]:
    """Wait for threads."""
    waited = [asyncio.wrap_future(future) for future in futures]
    for each in waited:
        # Of several that fail the first is raised; asyncio would complain about the others.
        each.add_done_callback(lambda done: done.cancelled() or done.exception())
    return [await each for each in waited]


async def _disconnected(request: Request) -> None:
    """Wait until the client goes away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
