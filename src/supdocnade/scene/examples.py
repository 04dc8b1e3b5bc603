"""Small copies of some photographs, kept in the model, so that it can be looked at without them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from supdocnade.errors import InvalidArgument
from supdocnade.storage import Arrays

STRONGEST_TOPICS, PER_TOPIC = 6, 4
"""Topics that are shown whatever the classes, and photographs of a topic."""

_JPEG = b"\xff\xd8\xff"


@dataclass(frozen=True, kw_only=True)
class TopicExamples:
    """A topic, and the photographs that excite it most."""

    topic: int
    strength: float
    """Standard deviation over all photographs: a topic that tells them apart has a large one."""
    names: tuple[str, ...]
    """The strongest first."""


@dataclass(frozen=True, kw_only=True)
class ExamplePhotographs:
    """Small copies of some photographs."""

    names: tuple[str, ...] = ()
    pictures: tuple[bytes, ...] = ()
    """JPEG files."""
    topics: tuple[TopicExamples, ...] = ()
    """The strongest first."""

    def picture(self, name: str) -> bytes | None:
        """Return the small copy of a photograph, None where none was kept."""
        return self.pictures[self.names.index(name)] if name in self.names else None

    def with_those_of(
        self, previous: "ExamplePhotographs", wanted: Iterable[str]
    ) -> "ExamplePhotographs":
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


def examples_to_storage(examples: ExamplePhotographs) -> tuple[Arrays, dict[str, Any]]:
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


def examples_from_storage(
    arrays: Arrays, description: dict[str, Any], n_topics: int, held_out: Iterable[str]
) -> ExamplePhotographs:
    """Return what `examples_to_storage` described; anything else raises `InvalidArgument`.

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
    return ExamplePhotographs(names=tuple(names), pictures=tuple(pictures), topics=topics)


def _checked_topics(arrays: Arrays, names: list[str], n_topics: int) -> tuple[TopicExamples, ...]:
    numbers, strengths, shown = arrays["topics"], arrays["strengths"], arrays["shown"]
    topics = numbers.tolist()
    fit = numbers.shape == strengths.shape == shown.shape[:1] and shown.ndim == 2
    if not fit or len(set(topics)) < len(topics) or not set(topics) <= set(range(n_topics)):
        raise InvalidArgument("its examples show topics that it does not have")
    if not np.isfinite(strengths).all() or not ((shown >= -1) & (shown < len(names))).all():
        raise InvalidArgument("its topics show photographs that it does not have")
    return tuple(
        TopicExamples(
            topic=topic,
            strength=strength,
            names=tuple(names[number] for number in row if number >= 0),
        )
        for topic, strength, row in zip(topics, strengths.tolist(), shown.tolist(), strict=True)
    )
