"""Choosing the photographs of which a model keeps small copies.

Two kinds are kept: photographs that were held out, the wrong answers before the right ones; and
those that excite a topic most, for the topics that speak for classes and for the topics that tell
photographs apart best.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.encoding.many import LeftOut, over_images
from supdocnade.estimators import DocNADE, SupDocNADE
from supdocnade.imaging.decode import DecodeConfig, decode
from supdocnade.imaging.encode import encode
from supdocnade.metrics import top_ranked
from supdocnade.scene.examples import (
    PER_TOPIC,
    STRONGEST_TOPICS,
    ExamplePhotographs,
    TopicExamples,
)
from supdocnade.scene.fitted import HeldOutImage
from supdocnade.scene.photographs import Photographs

SIDE, QUALITY = 160, 80
"""Of a small copy: pixels along its longest side, and quality as JPEG."""

MAX_BYTES, MAX_PHOTOGRAPHS = 2_000_000, 400
"""Of all small copies together; what does not fit is not kept."""

MAX_HELD_OUT, RIGHT_PER_CLASS = 120, 3
"""Held-out photographs, and right answers of a class that are kept before other right ones."""

TOPICS_PER_CLASS = 3
"""As the paper shows a class."""


def keep_examples(
    photographs: Photographs,
    hidden_BH: NDArray[np.float32],
    topics: SupDocNADE | DocNADE,
    held_out: Sequence[HeldOutImage],
    *,
    n_jobs: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> ExamplePhotographs:
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
        _small_copy,
        [photographs.sources[row] for row in rows],
        n_jobs=n_jobs,
        on_error="skip",
        on_progress=on_progress,
    )
    for row, content in zip(rows, made, strict=True):
        if isinstance(content, LeftOut) or total + len(content) > MAX_BYTES:
            continue
        total += len(content)
        kept[names[row]] = content
    return ExamplePhotographs(
        names=tuple(kept),
        pictures=tuple(kept.values()),
        topics=tuple(
            TopicExamples(
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


def _small_copy(source: Any, name: str, number: int) -> bytes:
    config = DecodeConfig(max_side=SIDE, upscale=False, color=True)
    return encode(decode(source, config, name=name), "JPEG", quality=QUALITY)
