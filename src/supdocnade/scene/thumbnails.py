"""Small copies of some photographs, kept in the model, so that it can be looked at without them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import InvalidArgument
from supdocnade.estimators.docnade import DocNADE
from supdocnade.estimators.supdocnade import SupDocNADE
from supdocnade.images.decode import make_thumbnail
from supdocnade.metrics import top_ranked
from supdocnade.run_options import RunOptions
from supdocnade.scene.dataset import Photographs
from supdocnade.scene.training_set import HeldOutImage
from supdocnade.storage import Arrays
from supdocnade.visual_words.parallel import SkippedImage, over_images

STRONGEST_TOPICS, PER_TOPIC = 6, 4
"""Topics that are shown whatever the classes, and photographs of a topic."""

_JPEG = b"\xff\xd8\xff"


@dataclass(frozen=True, kw_only=True)
class TopicThumbnails:
    """A topic, and the photographs that excite it most."""

    topic: int
    strength: float
    """Standard deviation over all photographs: a topic that tells them apart has a large one."""
    names: tuple[str, ...]
    """The strongest first."""


@dataclass(frozen=True, kw_only=True)
class Thumbnails:
    """Small copies of some photographs."""

    names: tuple[str, ...] = ()
    pictures: tuple[bytes, ...] = ()
    """JPEG files."""
    topics: tuple[TopicThumbnails, ...] = ()
    """The strongest first."""

    def picture(self, name: str) -> bytes | None:
        """Return the small copy of a photograph, None where none was kept."""
        return self.pictures[self.names.index(name)] if name in self.names else None

    def with_those_of(self, previous: "Thumbnails", wanted: Iterable[str]) -> "Thumbnails":
        """Return these and the small copies that another model has of photographs wanted."""
        names = set(wanted) - set(self.names)
        others = {
            name: picture
            for name, picture in zip(previous.names, previous.pictures, strict=True)
            if name in names
        }
        return replace(
            self,
            names=(*self.names, *others),
            pictures=(*self.pictures, *others.values()),
        )

    @property
    def strongest_topics(self) -> tuple[int, ...]:
        """The topics among these that tell photographs apart best."""
        return tuple(each.topic for each in self.topics[:STRONGEST_TOPICS])


def thumbnails_to_storage(examples: Thumbnails) -> tuple[Arrays, dict[str, Any]]:
    """Return small copies as arrays: JPEG files one after the other, and where each begins."""
    place = {name: number for number, name in enumerate(examples.names)}
    shown_TX = np.full((len(examples.topics), PER_TOPIC), -1, np.int64)
    for row, each in zip(shown_TX, examples.topics, strict=True):
        row[: len(each.names)] = [place[name] for name in each.names]
    arrays: Arrays = {
        "pictures": np.frombuffer(b"".join(examples.pictures), np.uint8),
        "offsets": np.cumsum([0, *map(len, examples.pictures)], dtype=np.int64),
        "topics": np.array([each.topic for each in examples.topics], np.int64),
        "strengths": np.array([each.strength for each in examples.topics], np.float64),
        "shown": shown_TX,
    }
    return arrays, {"names": list(examples.names)}


def thumbnails_from_storage(
    arrays: Arrays, description: dict[str, Any], n_topics: int, held_out: Iterable[str]
) -> Thumbnails:
    """Return what `thumbnails_to_storage` described; anything else raises `InvalidArgument`.

    Parameters
    ----------
    n_topics : of the model.
    held_out : names of the photographs that were held out.
    """
    names = description["names"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidArgument("its examples have odd names")
    content, offsets = arrays["pictures"].tobytes(), arrays["offsets"].tolist()
    lengths = np.diff(offsets)
    if (offsets[:1], offsets[-1:]) != ([0], [len(content)]) or (lengths <= 0).any():
        raise InvalidArgument("its examples do not lie one after the other")
    if not len(set(names)) == len(names) == len(lengths):
        raise InvalidArgument(f"its {len(lengths)} examples have {len(set(names))} names")
    pictures = [content[a:b] for a, b in pairwise(offsets)]
    if not all(picture.startswith(_JPEG) for picture in pictures):
        raise InvalidArgument("its examples are no JPEG files")
    topics = _checked_topics(arrays, names, n_topics)
    known = {*held_out, *(name for each in topics for name in each.names)}
    if not known.issuperset(names):
        raise InvalidArgument("its examples are of photographs that it does not know")
    return Thumbnails(names=tuple(names), pictures=tuple(pictures), topics=topics)


def _checked_topics(arrays: Arrays, names: list[str], n_topics: int) -> tuple[TopicThumbnails, ...]:
    numbers, strengths, shown = arrays["topics"], arrays["strengths"], arrays["shown"]
    topics = numbers.tolist()
    fit = numbers.shape == strengths.shape == shown.shape[:1] and shown.ndim == 2
    if not fit or len(set(topics)) < len(topics) or not set(topics) <= set(range(n_topics)):
        raise InvalidArgument("its examples show topics that it does not have")
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


# Choosing the photographs of which a model keeps small copies.
#
# Two kinds are kept: photographs that were held out, the wrong answers before the right ones; and
# those that excite a topic most, for the topics that speak for classes and for the topics that tell
# photographs apart best.

SIDE, QUALITY = 160, 80
"""Of a small copy: pixels along its longest side, and quality as JPEG."""

MAX_BYTES, MAX_PHOTOGRAPHS = 2_000_000, 400
"""Of all small copies together; what does not fit is not kept."""

MAX_HELD_OUT, RIGHT_PER_CLASS = 120, 3
"""Held-out photographs, and right answers of a class that are kept before other right ones."""

TOPICS_PER_CLASS = 3
"""As the paper shows a class."""


def make_thumbnails(
    photographs: Photographs,
    hidden_BH: NDArray[np.float32],
    topics: SupDocNADE | DocNADE,
    held_out: Sequence[HeldOutImage],
    options: RunOptions = RunOptions(),
) -> Thumbnails:
    """Choose photographs and make small copies of them.

    Parameters
    ----------
    hidden_BH : (photographs, topics) topic features.
    held_out : the photographs that were held out, and what was said of them.
    """
    shown = _topics(hidden_BH, topics)
    by_turns = [rows[turn] for turn in range(PER_TOPIC) for _, _, rows in shown if turn < len(rows)]
    names = photographs.names
    wanted = dict.fromkeys([*choose_held_out(held_out), *(names[row] for row in by_turns)])
    place = {name: row for row, name in reversed(list(enumerate(names)))}
    rows = [place[name] for name in wanted if name in place][:MAX_PHOTOGRAPHS]
    kept: dict[str, bytes] = {}
    total = 0
    made = over_images(
        _make_thumbnail,
        [photographs.sources[row] for row in rows],
        replace(options, on_error="skip"),
        stage="keeping examples",
    )
    for row, content in zip(rows, made, strict=True):
        if isinstance(content, SkippedImage) or total + len(content) > MAX_BYTES:
            continue
        total += len(content)
        kept[names[row]] = content
    return Thumbnails(
        names=tuple(kept),
        pictures=tuple(kept.values()),
        topics=tuple(
            TopicThumbnails(
                topic=topic,
                strength=strength,
                names=tuple(dict.fromkeys(names[row] for row in rows if names[row] in kept)),
            )
            for topic, strength, rows in shown
        ),
    )


def choose_held_out(images: Sequence[HeldOutImage], most: int = MAX_HELD_OUT) -> list[str]:
    """Return the names of held-out photographs to keep.

    All, if they are few. Otherwise some right ones of every class, as many wrong ones as then fit,
    the surest first, and other right ones as they come.
    """
    wrong = [each for each in images if each.label is not None and each.label != each.predicted]
    wrong.sort(key=lambda each: -(each.probability or 0.0))
    others = [each for each in images if each.label is None or each.label == each.predicted]
    first: list[HeldOutImage] = []
    rest: list[HeldOutImage] = []
    seen: Counter[str | None] = Counter()
    for each in others:
        seen[each.label] += 1
        (first if seen[each.label] <= RIGHT_PER_CLASS else rest).append(each)
    # Half of the room is for wrong answers, unless one kind is rare.
    room = max(most - len(first), most // 2)
    chosen = [*wrong[:room], *first, *rest, *wrong[room:]]
    return list(dict.fromkeys(each.name for each in chosen))[:most]


def _topics(
    hidden_BH: NDArray[np.float32], topics: SupDocNADE | DocNADE
) -> list[tuple[int, float, list[int]]]:
    """Return topics with their strength and the photographs that excite them, strongest first."""
    strength_H = hidden_BH.astype(np.float64).std(axis=0)
    chosen = set(top_ranked(strength_H[None], STRONGEST_TOPICS)[0].tolist())
    if isinstance(topics, SupDocNADE):
        chosen |= set(topics.class_topics(TOPICS_PER_CLASS).ravel().tolist())
    found = []
    for topic in sorted(chosen, key=lambda topic: (-strength_H[topic], topic)):
        best = top_ranked(hidden_BH[:, topic][None], PER_TOPIC)[0].tolist()
        excited = [row for row in best if hidden_BH[row, topic] != 0]
        found.append((topic, float(strength_H[topic]), excited))
    return found


def _make_thumbnail(source: Any, name: str, number: int) -> bytes:
    return make_thumbnail(source, SIDE, QUALITY, name)
