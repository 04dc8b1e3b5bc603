"""Descriptions of what the page shows: classes, topics and tags, and photographs."""

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.folders.tags import normalize_tag
from supdocnade.gallery.photo_index import Gallery
from supdocnade.report.frequencies import (
    describe_classes,
    describe_topics,
    topic_frequencies,
)
from supdocnade.scene.inspection import comparison_thumbnail, group_near_duplicates
from supdocnade.scene.prediction import FittedScene
from supdocnade.serving.schemas import NeighbourOut, TagOut

N_TOPICS_OF_TAG, N_EXAMPLES = 3, 8
N_COMPARED = 24
"""Photographs that are compared with a picture to find near-duplicates."""


def describe_overview(fitted: FittedScene, version: str) -> dict[str, list[dict[str, Any]]]:
    """Return the classes, topics and tags of a model as the page shows them.

    Parameters
    ----------
    version : part of the URLs of the examples, which browsers cache.
    """
    learned, with_examples = fitted.training_set.photographs, fitted.thumbnails.topics
    example_number = {name: n for n, name in enumerate(fitted.thumbnails.names)}
    example_tags = {
        name: {normalize_tag(tag) for tag in tags or ()}
        for name, tags in zip(learned.names, learned.tags, strict=True)
        if name in example_number
    }

    def examples(names: Iterable[str]) -> list[dict[str, str]]:
        """Return the first few photographs that have a thumbnail."""
        return [
            {
                "name": PurePath(name).name,
                "picture": f"/v1/examples/{example_number[name]}/picture?v={version}",
            }
            for name in islice((name for name in names if name in example_number), N_EXAMPLES)
        ]

    classes = describe_classes(fitted)
    for each in classes:
        rows, members_N1 = learned.class_members([each["label"]])
        each["examples"] = examples(learned.names[row] for row in rows[members_N1[:, 0]])
    topic_tags, topic_classes = topic_frequencies(fitted)
    tags: list[dict[str, Any]] = [
        {
            "tag": tag,
            "frequency": float(fitted.tag_frequency_A[number]),
            "topics": topic_tags.of_name(number, N_TOPICS_OF_TAG),
            "classes": [
                each["label"] for each in classes if tag in [some["name"] for some in each["tags"]]
            ],
            "examples": examples(
                name for name, some in example_tags.items() if normalize_tag(tag) in some
            ),
        }
        for number, tag in enumerate(fitted.tag_names)
    ]
    tags.sort(key=lambda each: -each["frequency"])
    topics = describe_topics(fitted, topic_tags, topic_classes)
    linked = [topic for each in (*classes, *tags) for topic in each["topics"]]
    shown = [
        {**topics[number], "examples": examples(with_examples.get(number, ()))}
        for number in dict.fromkeys([*with_examples, *linked])
    ]
    return {"classes": classes, "topics": shown, "tags": tags}


def describe_photograph(
    gallery: Gallery,
    row: int,
    *,
    distance: float | None = None,
    match: float | None = None,
    near_duplicate: bool = False,
) -> NeighbourOut:
    """Return the description of a photograph of the gallery."""
    label, given = gallery.label(row), gallery.given(row)
    return NeighbourOut(
        photograph=row,
        name=printable(gallery.names[row]),
        path=printable(gallery.paths[row]),
        picture=f"/v1/gallery/{row}/picture?v={gallery.version}",
        label=None if label is None else label[0],
        probability=None if label is None else label[1],
        tags=[TagOut(tag=tag, probability=probability) for tag, probability in gallery.tags(row)],
        taken=gallery.taken_N[row].decode("ascii", "replace") or None,
        camera=printable(gallery.cameras[row]) or None,
        rating=int(gallery.rating_N[row]) or None,
        unsure=gallery.is_unsure(row),
        unfamiliar=bool(gallery.unfamiliar_N[row]),
        label_given=given[0] is not None,
        tags_given=given[1] is not None,
        judged=given[2],
        distance=distance,
        match=match,
        near_duplicate=near_duplicate,
    )


def describe_similar(
    gallery: Gallery,
    picture: bytes,
    topics_H: NDArray[np.float32],
    top: int,
    but: int | None = None,
) -> list[NeighbourOut]:
    """Return the photographs of the gallery nearest to an image, and which show the same picture.

    Parameters
    ----------
    picture : file of the image.
    topics_H : topic features of the image.
    top, but : as for `Gallery.nearest`.
    """
    pairs = gallery.nearest(topics_H, top, but=but)
    compared = [number for number, _ in pairs[:N_COMPARED]]
    same = near_duplicates(gallery, picture, compared)
    return [
        describe_photograph(gallery, number, distance=distance, near_duplicate=number in same)
        for number, distance in pairs
    ]


def near_duplicates(gallery: Gallery, picture: bytes, numbers: Sequence[int]) -> set[int]:
    """Return which of some photographs of the gallery show the picture of an image file."""
    images = [picture, *map(gallery.picture, numbers)]
    thumbnails = [comparison_thumbnail(image) for image in images]
    first, *groups = group_near_duplicates(thumbnails, list(map(str, range(len(images)))))
    return {number for number, group in zip(numbers, groups, strict=True) if group == first}


def printable(name: str) -> str:
    """Return a name without the bytes that are invalid in Unicode."""
    return name.encode("utf-8", "replace").decode()
