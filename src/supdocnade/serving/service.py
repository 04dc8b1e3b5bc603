"""A loaded model with its workers and queue.

Requests wait in the event loop while worker threads process their images.
"""

import asyncio
import math
import os
import shlex
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request

from supdocnade.checks import check_settings, setting
from supdocnade.errors import InvalidArgument, UnreadableImage
from supdocnade.gallery.photo_index import Gallery
from supdocnade.images.decode import encode, image_size, make_thumbnail, reduce_jpeg
from supdocnade.images.decoder import decode_apart
from supdocnade.images.reading import content_key, image_errors
from supdocnade.report.heatmap import contribution_scale
from supdocnade.scene.attribution import Explanation, explain_image
from supdocnade.scene.corrections import Correction, CorrectionFile
from supdocnade.scene.prediction import FittedScene, Prediction, predict_compared
from supdocnade.serving.problems import ApiError, not_found
from supdocnade.serving.uploads import MEBIBYTE, MemoryBudget, NamedImage
from supdocnade.threads import limit_threads
from supdocnade.visual_words.encoder import ImageWords


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """Limits and access of a server."""

    token: str | None = None
    """Token that every request must carry; None for no token."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names, besides loopback, that are accepted without a token. Any other name could be one
    that a foreign page made to resolve to this machine."""
    check_host: bool = True
    """Check the host name; False for a server that is open to everyone."""
    max_request_bytes: int = setting(64 * MEBIBYTE, least=1)
    max_images: int = setting(32, least=1)
    """Images per request."""
    max_pixels: int = setting(64_000_000, least=1)
    """Pixels per image, as declared in the file, before anything is decoded."""
    max_batch: int = setting(8, least=1)
    """Images of a request that a worker predicts together."""
    n_workers: int = setting(2, least=1)
    seconds: float = setting(30.0, above=0)
    """Time to send a request, and time from its last byte to the response."""

    def __post_init__(self) -> None:
        check_settings(self)
        if self.token is not None and not (self.token.isascii() and self.token.isprintable()):
            raise InvalidArgument("the token must consist of printable ASCII characters.")
        if self.token is not None and (not self.token or " " in self.token):
            raise InvalidArgument("the token must not be empty or contain spaces.")

    @property
    def max_held_bytes(self) -> int:
        """Memory for the bodies of all requests together."""
        return 4 * self.max_request_bytes

    @property
    def max_waiting(self) -> int:
        """Images in the queue; requests are refused while it has no room for the largest one."""
        return 8 * self.max_images


T = TypeVar("T")

Predicted = tuple[Prediction, NDArray[np.float32]]
"""The prediction for an image, and its topic features."""

Explained = tuple[Explanation, bytes, float]
"""The explanation of a prediction; a PNG file with (height, width) grey levels, 1 to 255 for -limit
to limit; and limit, the largest contribution of one hundredth of the area to the score."""

Work = Callable[[FittedScene, Sequence[NamedImage], int], list[T | ApiError]]
"""Returns the result, or the error, of every image. The last argument is the largest number of
pixels: larger images are refused before they are decoded."""

PREVIEW_SIDE, PREVIEW_QUALITY = 1024, 85
"""Longest side of a preview in pixels, and its JPEG quality."""


def predict_images(
    fitted: FittedScene, images: Sequence[NamedImage], max_pixels: int
) -> list[Predicted | ApiError]:
    """Read images one by one, and predict them together."""

    def encode_image(name: str, content: bytes) -> ImageWords:
        return fitted.encoder.encode(content, name).words

    found = _for_each(encode_image, images, max_pixels)
    read = [
        (image, words)
        for image, words in zip(images, found, strict=True)
        if not isinstance(words, ApiError)
    ]
    photographs = fitted.compare([words for _, words in read])
    topics_BH = photographs.topics_BH
    predictions = predict_compared(fitted, [name for (name, _), _ in read], photographs)
    predicted = (
        (replace(each, key=content_key(content)), topics_H)
        for each, ((_, content), _), topics_H in zip(predictions, read, topics_BH, strict=True)
    )
    return [each if isinstance(each, ApiError) else next(predicted) for each in found]


def explain_images(
    fitted: FittedScene,
    images: Sequence[NamedImage],
    max_pixels: int,
    *,
    label: str | None = None,
    tag: str | None = None,
) -> list[Explained | ApiError]:
    """Explain the predicted class of images, or another class, or a tag."""

    def explain(name: str, content: bytes) -> Explained:
        explanation = explain_image(fitted, content, label=label, tag=tag, name=name)
        values, limit = contribution_scale(explanation)
        t = np.clip(values / limit, -1, 1) if limit > 0 else np.zeros_like(values)
        return explanation, encode(np.round(128 + 127 * t).astype(np.uint8), "PNG"), limit

    return _for_each(explain, images, max_pixels)


def preview_images(
    _: FittedScene, images: Sequence[NamedImage], max_pixels: int
) -> list[bytes | ApiError]:
    """Return images as small JPEG files."""

    def preview(name: str, content: bytes) -> bytes:
        return make_thumbnail(content, PREVIEW_SIDE, PREVIEW_QUALITY, name)

    return _for_each(preview, images, max_pixels)


def _for_each(
    work: Callable[[str, bytes], T], images: Sequence[NamedImage], max_pixels: int
) -> list[T | ApiError]:
    """Return what a function returns for every image, or the error.

    A photograph of a large camera is read at half its size, a RAW file by its preview.
    """
    results: list[T | ApiError] = []
    for name, content in images:
        try:
            with image_errors(name):
                content = reduce_jpeg(content, name, max_pixels)
            width, height = image_size(content, name)
            if width * height > max_pixels:
                raise ApiError(
                    "too_many_pixels",
                    f"{name} has {width} × {height} pixels; this server takes "
                    f"{max_pixels / 1e6:g} megapixels (--set max_megapixels).",
                    file=name,
                )
            with image_errors(name):
                results.append(work(name, content))
        except UnreadableImage as error:
            results.append(ApiError("unreadable_image", str(error), file=name))
        except InvalidArgument as error:
            results.append(ApiError("invalid_argument", str(error), file=name))
        except ApiError as error:
            results.append(error)
    return results


def process_images(
    work: Work[T],
    fitted: FittedScene,
    images: Sequence[NamedImage],
    max_pixels: int,
    is_given_up: Callable[[], bool],
) -> list[T | ApiError]:
    """Do some work in one thread, since there is one worker per core."""
    with limit_threads(1), decode_apart(DECODING_SECONDS, is_given_up):
        return work(fitted, images, max_pixels)


DECODING_SECONDS = 5
"""CPU time to decode an image. One that needs more ends its decoder, not the worker."""

STUCK_SECONDS = 10.0
"""The service is not ready if no worker was free for this time."""

REFUSAL_SECONDS = 2.0
"""Time that a request waits for room in the queue before it is refused."""

MAX_DELAYED = 128
"""Requests that wait for room at a time; each may have sent some hundred kilobytes by then."""

SMOOTHING = 0.05
"""Weight of the last batch in the running mean of the time per image."""


class Service:
    """A model with its queue and worker threads.

    Parameters
    ----------
    fitted : the model.
    folder : folder of the model, whose name is on the page.
    gallery : index of photographs, if any.
    corrections : file that keeps what people correct, if any.
    photos : folders whose photographs may be opened, and given keywords.

    Attributes
    ----------
    n_waiting : number of images that wait for a worker.
    keyword_record : record of the keywords that it has written, if any.
    """

    def __init__(
        self,
        fitted: FittedScene,
        settings: ServeSettings,
        *,
        folder: Path = Path("model"),
        gallery: Gallery | None = None,
        corrections: CorrectionFile | None = None,
        photos: Sequence[Path] = (),
    ):
        self.fitted, self.settings, self.gallery = fitted, settings, gallery
        self.folder, self.name = folder, Path(os.path.abspath(folder)).name
        self.corrections, self.photos = corrections, tuple(map(os.path.realpath, photos))
        self.correct_gallery(() if corrections is None else corrections.newest(0, len(corrections)))
        self.fingerprint = fitted.fingerprint()
        self.memory = MemoryBudget(settings.max_held_bytes)
        self.draining = False
        self.n_waiting = 0
        self.keyword_record: Path | None = None
        self._n_delayed, self._seconds_per_image = 0, 0.0
        self._workers = ThreadPoolExecutor(settings.n_workers, "supdocnade-worker")
        self._free_workers, self._freed = asyncio.Semaphore(settings.n_workers), 0.0

    @property
    def ready(self) -> bool:
        """True while the service accepts new requests and has had a free worker."""
        is_stuck = self._free_workers.locked() and perf_counter() > self._freed + STUCK_SECONDS
        return not (self.draining or is_stuck)

    @property
    def training_command(self) -> str | None:
        """Command that learns from the corrections; None if there is no file of them."""
        if self.corrections is None:
            return None
        files = ["--add", os.fspath(self.folder), "--corrections", str(self.corrections.path)]
        return shlex.join(["supdocnade", "train", "PHOTOS", *files, "-o", "NEW-MODEL"])

    def get_gallery(self) -> Gallery:
        """Return the gallery, or raise an `ApiError` if there is none."""
        if self.gallery is None:
            raise ApiError(
                "no_gallery", "this server has no gallery; supdocnade index MODEL PHOTOS makes one."
            )
        return self.gallery

    def gallery_with(self, number: int) -> Gallery:
        """Return the gallery, which has a photograph with this number."""
        gallery = self.get_gallery()
        if number >= len(gallery):
            raise not_found("photograph", number, len(gallery))
        return gallery

    def correct_gallery(self, corrections: Sequence[Correction]) -> None:
        """Let corrections of photographs of the gallery count when they are searched and shown."""
        for each in corrections:
            if self.gallery is not None:
                self.gallery.correct(each.file_name, each.label, each.tags, each.judged)

    def close(self) -> None:
        """End the workers and close the file of corrections."""
        self._workers.shutdown()
        if self.corrections is not None:
            self.corrections.close()

    async def admit(self) -> None:
        """Return if the queue has room for the largest request; otherwise raise an `ApiError`.

        A refusal takes `REFUSAL_SECONDS`, since clients that retry at once would keep the server
        busy with refusals. A request that finds room after this time is admitted.
        """
        if not self._is_full:
            return
        if self._n_delayed < MAX_DELAYED:
            self._n_delayed += 1
            try:
                await asyncio.sleep(REFUSAL_SECONDS)
            finally:
                self._n_delayed -= 1
        if self._is_full:
            raise self._overloaded()

    @property
    def _is_full(self) -> bool:
        return self.n_waiting > self.settings.max_waiting - self.settings.max_images

    async def process(
        self, request: Request, images: Sequence[NamedImage], work: Work[T]
    ) -> list[T | ApiError]:
        """Return the results of all images of a request, or raise an `ApiError`.

        Images that wait are dropped when the client disconnects or the time limit passes.
        """
        if self.n_waiting + len(images) > self.settings.max_waiting:
            raise self._overloaded()
        results = asyncio.create_task(self._process_batches(images, work))
        disconnect = asyncio.create_task(_wait_for_disconnect(request))
        try:
            await asyncio.wait(
                (results, disconnect),
                timeout=self.settings.seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if results.done():
                return results.result()
            if disconnect.done():
                raise ApiError("invalid_request", "the client disconnected.")
            raise ApiError(
                "too_slow",
                f"the result was not ready within {self.settings.seconds:g} seconds.",
                retry_after=self._retry_after(),
            )
        finally:
            disconnect.cancel()
            results.cancel()

    async def _process_batches(
        self, images: Sequence[NamedImage], work: Work[T]
    ) -> list[T | ApiError]:
        """Share the images of a request among the workers."""
        size = min(-(-len(images) // self.settings.n_workers), self.settings.max_batch)
        batches = [images[start : start + size] for start in range(0, len(images), size)]
        found = await asyncio.gather(*(self._process_batch(batch, work) for batch in batches))
        return [result for results in found for result in results]

    async def _process_batch(
        self, images: Sequence[NamedImage], work: Work[T]
    ) -> list[T | ApiError]:
        """Wait for a worker and return its results."""
        self.n_waiting += len(images)
        try:
            await self._free_workers.acquire()
        finally:
            self.n_waiting -= len(images)
        start = self._freed = perf_counter()
        most, given_up = self.settings.max_pixels, Event()
        done = asyncio.wrap_future(
            self._workers.submit(process_images, work, self.fitted, images, most, given_up.is_set)
        )
        # A worker cannot be interrupted: it is free when it has finished, whoever waits for it.
        done.add_done_callback(lambda _: self._free_workers.release())
        try:
            results = await asyncio.shield(done)
        finally:
            given_up.set()  # Nobody waits for the other images.
        seconds = perf_counter() - start
        mean = self._seconds_per_image
        self._seconds_per_image += SMOOTHING * (seconds / len(images) - mean)
        return results

    def _overloaded(self) -> ApiError:
        delay = self._retry_after()
        detail = f"{self.n_waiting} images are waiting; retry in {delay} seconds."
        # The rest of the request is not worth reading.
        return ApiError("overloaded", detail, retry_after=delay, headers={"Connection": "close"})

    def _retry_after(self) -> int:
        """Return the estimated seconds until the queue is empty."""
        seconds = self._seconds_per_image * self.n_waiting / self.settings.n_workers
        return max(math.ceil(seconds), 1)

    def warm_up(self) -> None:
        """Predict one image, so that all code is compiled before the first request."""
        levels = np.arange(64 * 64, dtype=np.int64).reshape(64, 64) * 37 % 251
        image = encode(levels.astype(np.uint8), "PNG")
        predict_images(self.fitted, [("warm-up", image)], self.settings.max_pixels)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
