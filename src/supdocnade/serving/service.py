"""A loaded model with its workers: takes images, gives answers, or says that it has too much to do.

Here the server's two worlds meet: requests wait in the event loop, images are worked on by threads.
"""

import asyncio
import math
from collections.abc import Sequence
from concurrent.futures import Future

from starlette.requests import Request

from supdocnade.gallery import Gallery, model_fingerprint
from supdocnade.scene.fitted import FittedScene
from supdocnade.serving.answering import Answer, Answerer, Explained, Question, Said
from supdocnade.serving.exploring import Atlas
from supdocnade.serving.metrics import Metrics
from supdocnade.serving.problems import Problem
from supdocnade.serving.settings import ServeSettings
from supdocnade.serving.uploads import HeldBytes
from supdocnade.serving.workers import QueueFull, Workers, WorkInterrupted

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
