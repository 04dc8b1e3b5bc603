"""Thumbnails of some photographs, stored in the model so that it can be shown without them.

Two kinds are stored: held-out photographs, wrong predictions before right ones; and the photographs
that have most of a topic, for the topics that support a class and for the strongest ones.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import InvalidArgument
from supdocnade.images.decode import make_thumbnail
from supdocnade.images.reading import SkippedImage, map_images
from supdocnade.metrics import top_ranked
from supdocnade.model.inference import NetworkArrays
from supdocnade.model.topic_rotation import TopicRotation, find_rotation
from supdocnade.runs import RunOptions
from supdocnade.scene.calibration import HeldOutImage
from supdocnade.scene.dataset import Photographs
from supdocnade.schema import array, stored

SIDE, QUALITY = 160, 80
"""Longest side of a thumbnail in pixels, and its JPEG quality."""

MAX_BYTES, MAX_PHOTOGRAPHS = 2_000_000, 400
"""Limits for all thumbnails together."""

MAX_HELD_OUT, RIGHT_PER_CLASS = 120, 3
"""Held-out photographs, and right predictions per class that precede other right ones."""

STRONGEST_TOPICS, TOPICS_PER_CLASS, PER_TOPIC = 6, 3, 4
"""Strongest topics, topics per class as in the paper, and photographs per topic."""

TOPIC_SHARE = 0.9
"""Share of the squares of the topic features that the topics represent: on photographs the other
components are noise (docs/decisions/0039-reading-topics.md)."""

_JPEG = b"\xff\xd8\xff"


@dataclass(frozen=True, kw_only=True)
class Thumbnails:
    """Thumbnails of some photographs."""

    names: tuple[str, ...] = stored((), axis="N")
    pictures: tuple[bytes, ...] = array("N", default=())
    """JPEG files."""
    topics: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Names of the photographs that have most of a topic, by its number; the strongest first."""

    def __post_init__(self) -> None:
        if len(set(self.names)) < len(self.names):
            raise InvalidArgument("thumbnails must have different names")
        if not all(picture.startswith(_JPEG) for picture in self.pictures):
            raise InvalidArgument("thumbnails must be JPEG files")
        if not {*chain.from_iterable(self.topics.values())} <= {*self.names}:
            raise InvalidArgument("topics must show photographs that have a thumbnail")

    def picture(self, name: str) -> bytes | None:
        """Return the thumbnail of a photograph, None if there is none."""
        return self.pictures[self.names.index(name)] if name in self.names else None

    def add_from(self, previous: "Thumbnails", names: Iterable[str]) -> "Thumbnails":
        """Return these thumbnails, and those of further photographs from another model.

        The limits hold for all of them together.
        """
        missing = set(names) - set(self.names)
        n_bytes, added = sum(map(len, self.pictures)), dict[str, bytes]()
        for name, picture in zip(previous.names, previous.pictures, strict=True):
            fits = n_bytes + len(picture) <= MAX_BYTES
            if name in missing and fits and len(self.names) + len(added) < MAX_PHOTOGRAPHS:
                n_bytes += len(picture)
                added[name] = picture
        return replace(
            self, names=(*self.names, *added), pictures=(*self.pictures, *added.values())
        )


def find_shown_topics(hidden_BH: NDArray[np.float32]) -> TopicRotation:
    """Return the topics that are shown, given topic features of photographs.

    There are none if all features are 0.
    """
    if hidden_BH.any():
        return find_rotation(hidden_BH, TOPIC_SHARE)
    n_units = hidden_BH.shape[1]
    return TopicRotation(np.empty((n_units, 0)), np.empty((0, n_units)))


def make_thumbnails(
    photographs: Photographs,
    hidden_BH: NDArray[np.float32],
    network: NetworkArrays,
    rotation: TopicRotation,
    held_out: Sequence[HeldOutImage],
    options: RunOptions = RunOptions(),
) -> Thumbnails:
    """Choose photographs and make thumbnails of them.

    Parameters
    ----------
    hidden_BH : topic features of the photographs.
    rotation : from topic features to topics.
    held_out : the held-out photographs with their predictions.
    """
    topics = _choose_topics(hidden_BH, network, rotation)
    names = photographs.names
    by_rank = [
        rows[rank] for rank in range(PER_TOPIC) for rows in topics.values() if rank < len(rows)
    ]
    chosen = dict.fromkeys([*choose_held_out(held_out), *(names[row] for row in by_rank)])
    row_of = {name: row for row, name in reversed(list(enumerate(names)))}
    rows = [row_of[name] for name in chosen if name in row_of][:MAX_PHOTOGRAPHS]
    made = map_images(
        _make_thumbnail,
        [photographs.sources[row] for row in rows],
        replace(options, on_error="skip"),
        stage="saving sample photographs",
    )
    stored: dict[str, bytes] = {}
    n_bytes = 0
    for row, content in zip(rows, made, strict=True):
        if not isinstance(content, SkippedImage) and n_bytes + len(content) <= MAX_BYTES:
            n_bytes += len(content)
            stored[names[row]] = content
    return Thumbnails(
        names=tuple(stored),
        pictures=tuple(stored.values()),
        topics={
            topic: tuple(dict.fromkeys(names[row] for row in rows if names[row] in stored))
            for topic, rows in topics.items()
        },
    )


def choose_held_out(images: Sequence[HeldOutImage]) -> list[str]:
    """Return the names of the held-out photographs to show.

    If they are too many, some right predictions of every class come first, then as many wrong ones
    as fit, the most confident first, then other right ones.
    """
    wrong = [each for each in images if each.right is False]
    wrong.sort(key=lambda each: -(each.probability or 0.0))
    first: list[HeldOutImage] = []
    rest: list[HeldOutImage] = []
    n_right: Counter[str | None] = Counter()
    for each in images:
        if each.right is not False:
            n_right[each.label] += 1
            (first if n_right[each.label] <= RIGHT_PER_CLASS else rest).append(each)
    # Half of the places are for wrong predictions, unless there are few of one kind.
    n_wrong = max(MAX_HELD_OUT - len(first), MAX_HELD_OUT // 2)
    chosen = [*wrong[:n_wrong], *first, *rest, *wrong[n_wrong:]]
    return list(dict.fromkeys(each.name for each in chosen))[:MAX_HELD_OUT]


def _choose_topics(
    hidden_BH: NDArray[np.float32], network: NetworkArrays, rotation: TopicRotation
) -> dict[int, list[int]]:
    """Return topics with the rows that have most of them, strongest topic and row first."""
    topics_BR = rotation.rotate(hidden_BH)
    chosen = set(range(min(STRONGEST_TOPICS, topics_BR.shape[1])))
    if network.n_classes:
        weight_CR = rotation.rotate_weights(network["label_weight"])
        chosen |= set(top_ranked(weight_CR, TOPICS_PER_CLASS).ravel().tolist())
    found = {}
    for topic in sorted(chosen):
        best = top_ranked(topics_BR[:, topic][None], PER_TOPIC)[0].tolist()
        found[topic] = [row for row in best if topics_BR[row, topic] > 0]
    return found


def _make_thumbnail(source: Any, name: str, number: int) -> bytes:
    return make_thumbnail(source, SIDE, QUALITY, name)
