"""Thumbnails of some photographs, stored in the model so that it can be shown without them.

Two kinds are stored: held-out photographs, wrong predictions before right ones; and the photographs
that have most of a topic, for the topics that support a class and for the strongest ones. These
topics are those of a rotation of the topic features, which is stored with them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import check_shape, rises_to
from supdocnade.errors import InvalidArgument
from supdocnade.images.decode import make_thumbnail
from supdocnade.metrics import top_ranked
from supdocnade.model.inference import NetworkArrays
from supdocnade.model.topic_rotation import TopicRotation, find_rotation
from supdocnade.run_options import RunOptions
from supdocnade.scene.dataset import Photographs
from supdocnade.scene.held_out import HeldOutImage
from supdocnade.storage import Arrays
from supdocnade.visual_words.parallel import SkippedImage, map_images

SIDE, QUALITY = 160, 80
"""Longest side of a thumbnail in pixels, and its JPEG quality."""

MAX_BYTES, MAX_PHOTOGRAPHS = 2_000_000, 400
"""Limits for all thumbnails together."""

MAX_HELD_OUT, RIGHT_PER_CLASS = 120, 3
"""Held-out photographs, and right predictions per class that precede other right ones."""

STRONGEST_TOPICS, TOPICS_PER_CLASS, PER_TOPIC = 6, 3, 4
"""Strongest topics, topics per class as in the paper, and photographs per topic."""

SHARE = 0.9
"""Share of the squares of the topic features that the topics represent: on photographs the other
components are noise (docs/decisions/0039-reading-topics.md)."""

_JPEG = b"\xff\xd8\xff"

_ROTATION = {"rotation_axes": "axes_HR", "rotation_inverse": "inverse_RH"}
"""Arrays of a model file, and the fields of `TopicRotation` that they hold."""


@dataclass(frozen=True, kw_only=True)
class TopicThumbnails:
    """A topic, and the photographs that have most of it."""

    topic: int
    strength: float
    """Share in the squares of the topic features; in older models, which show hidden units, their
    standard deviation over photographs."""
    names: tuple[str, ...]
    """The strongest first."""


@dataclass(frozen=True, kw_only=True)
class Thumbnails:
    """Thumbnails of some photographs."""

    names: tuple[str, ...] = ()
    pictures: tuple[bytes, ...] = ()
    """JPEG files."""
    topics: tuple[TopicThumbnails, ...] = ()
    """The strongest first."""
    rotation: TopicRotation | None = field(default=None, compare=False)
    """The topics; None in older models, whose topics are hidden units, and in a model whose
    topic features are all 0."""

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


def make_thumbnails(
    photographs: Photographs,
    hidden_BH: NDArray[np.float32],
    network: NetworkArrays,
    held_out: Sequence[HeldOutImage],
    options: RunOptions = RunOptions(),
) -> Thumbnails:
    """Choose photographs and make thumbnails of them.

    Parameters
    ----------
    hidden_BH : (photographs, topics) topic features.
    held_out : the held-out photographs with their predictions.
    """
    rotation = find_rotation(hidden_BH, SHARE) if hidden_BH.any() else None
    topics = [] if rotation is None else _choose_topics(hidden_BH, network, rotation)
    names = photographs.names
    by_rank = [rows[rank] for rank in range(PER_TOPIC) for _, _, rows in topics if rank < len(rows)]
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
        topics=tuple(
            TopicThumbnails(
                topic=topic,
                strength=strength,
                names=tuple(dict.fromkeys(names[row] for row in rows if names[row] in stored)),
            )
            for topic, strength, rows in topics
        ),
        rotation=rotation,
    )


def choose_held_out(images: Sequence[HeldOutImage], limit: int = MAX_HELD_OUT) -> list[str]:
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
    n_wrong = max(limit - len(first), limit // 2)
    chosen = [*wrong[:n_wrong], *first, *rest, *wrong[n_wrong:]]
    return list(dict.fromkeys(each.name for each in chosen))[:limit]


def _choose_topics(
    hidden_BH: NDArray[np.float32], network: NetworkArrays, rotation: TopicRotation
) -> list[tuple[int, float, list[int]]]:
    """Return topics with their strength and the rows that have most of them, strongest first."""
    topics_BR, strength_R = rotation.rotate(hidden_BH), rotation.strength_R
    chosen = set(range(min(STRONGEST_TOPICS, len(strength_R))))
    if network.n_classes:
        weight_CR = rotation.rotate_weights(network["label_weight"])
        chosen |= set(top_ranked(weight_CR, TOPICS_PER_CLASS).ravel().tolist())
    found = []
    for topic in sorted(chosen):
        best = top_ranked(topics_BR[:, topic][None], PER_TOPIC)[0].tolist()
        having = [row for row in best if topics_BR[row, topic] > 0]
        found.append((topic, float(strength_R[topic]), having))
    return found


def _make_thumbnail(source: Any, name: str, number: int) -> bytes:
    return make_thumbnail(source, SIDE, QUALITY, name)


def thumbnails_to_storage(thumbnails: Thumbnails) -> tuple[Arrays, dict[str, Any]]:
    """Return thumbnails as arrays: concatenated JPEG files and their offsets."""
    number_of = {name: number for number, name in enumerate(thumbnails.names)}
    shown_TX = np.full((len(thumbnails.topics), PER_TOPIC), -1, np.int64)
    for row, each in zip(shown_TX, thumbnails.topics, strict=True):
        row[: len(each.names)] = [number_of[name] for name in each.names]
    arrays: Arrays = {
        "pictures": np.frombuffer(b"".join(thumbnails.pictures), np.uint8),
        "offsets": np.cumsum([0, *map(len, thumbnails.pictures)], dtype=np.int64),
        "topics": np.array([each.topic for each in thumbnails.topics], np.int64),
        "strengths": np.array([each.strength for each in thumbnails.topics], np.float64),
        "shown": shown_TX,
    }
    if thumbnails.rotation is not None:
        arrays |= {name: getattr(thumbnails.rotation, field) for name, field in _ROTATION.items()}
    return arrays, {"names": list(thumbnails.names)}


def thumbnails_from_storage(
    arrays: Arrays, description: dict[str, Any], n_topics: int, held_out: Iterable[str]
) -> Thumbnails:
    """Return what `thumbnails_to_storage` described; anything else raises `InvalidArgument`.

    Parameters
    ----------
    n_topics : hidden units of the model.
    held_out : names of the held-out photographs.
    """
    names = description["names"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidArgument("the names of its thumbnails must be strings")
    content, offsets = arrays["pictures"].tobytes(), arrays["offsets"]
    if not rises_to(len(content), offsets):
        raise InvalidArgument("the offsets of its thumbnails must rise from 0 to their total size")
    pictures = [content[a:b] for a, b in pairwise(offsets.tolist())]
    if not len(set(names)) == len(names) == len(pictures):
        raise InvalidArgument(f"its {len(pictures)} thumbnails have {len(set(names))} names")
    if not all(picture.startswith(_JPEG) for picture in pictures):
        raise InvalidArgument("its thumbnails must be JPEG files")
    rotation = _rotation_from_storage(arrays, n_topics)
    n_shown = n_topics if rotation is None else len(rotation.inverse_RH)
    topics = _topics_from_storage(arrays, names, n_shown)
    known = {*held_out, *(name for each in topics for name in each.names)}
    if not known.issuperset(names):
        raise InvalidArgument("its thumbnails are of photographs that it does not know")
    return Thumbnails(
        names=tuple(names), pictures=tuple(pictures), topics=topics, rotation=rotation
    )


def _rotation_from_storage(arrays: Arrays, n_units: int) -> TopicRotation | None:
    found = {field: arrays[name] for name, field in _ROTATION.items() if name in arrays}
    if not found:
        return None
    if len(found) < len(_ROTATION) or found["inverse_RH"].ndim != 2:
        raise InvalidArgument("the rotation of its topics is incomplete")
    n_topics = len(found["inverse_RH"])
    check_shape("axes", found["axes_HR"].shape, (n_units, n_topics))
    check_shape("inverse", found["inverse_RH"].shape, (n_topics, n_units))
    for array in found.values():
        if array.dtype != np.float64 or not np.isfinite(array).all():
            raise InvalidArgument("the rotation of its topics must be finite float64 numbers")
    if not n_topics or not np.square(found["inverse_RH"]).sum() > 0:
        raise InvalidArgument("the rotation of its topics has no topics")
    return TopicRotation(**found)


def _topics_from_storage(
    arrays: Arrays, names: list[str], n_topics: int
) -> tuple[TopicThumbnails, ...]:
    numbers, strengths, shown = arrays["topics"], arrays["strengths"], arrays["shown"]
    topics = numbers.tolist()
    same_length = numbers.shape == strengths.shape == shown.shape[:1] and shown.ndim == 2
    if not same_length or len(set(topics)) < len(topics) or not set(topics) <= {*range(n_topics)}:
        raise InvalidArgument("its thumbnails show topics that it does not have")
    if not np.isfinite(strengths).all() or not ((shown >= -1) & (shown < len(names))).all():
        raise InvalidArgument("its topics show photographs that it does not have")
    return tuple(
        TopicThumbnails(
            topic=topic,
            strength=strength,
            names=tuple(names[number] for number in row if number >= 0),
        )
        for topic, strength, row in zip(topics, strengths.tolist(), shown.tolist(), strict=True)
    )
