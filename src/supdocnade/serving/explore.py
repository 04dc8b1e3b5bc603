"""Descriptions of what the page shows: classes, topics and tags, and photographs."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.folders.tags import normalize_tag
from supdocnade.gallery.photo_index import Gallery
from supdocnade.metrics import top_ranked
from supdocnade.report.class_words import (
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


class ModelExplorer:
    """Everything that the page shows about a model.

    The fingerprint of the model is part of the URLs of pictures, which browsers cache.
    """

    def __init__(self, fitted: FittedScene, fingerprint: str):
        self._fitted = fitted
        self._version = fingerprint[:8]
        self.examples = fitted.thumbnails.pictures
        self._example_number = {name: n for n, name in enumerate(fitted.thumbnails.names)}
        learned = fitted.training_set.photographs
        self._example_tags = {
            name: {normalize_tag(tag) for tag in tags or ()}
            for name, tags in zip(learned.names, learned.tags, strict=True)
            if name in self._example_number
        }
        self._topic_tags, self._topic_classes = topic_frequencies(fitted)
        self.overview = self._overview()

    def _overview(self) -> dict[str, list[dict[str, Any]]]:
        classes = describe_classes(self._fitted)
        for each in classes:
            each["examples"] = self._examples_of_class(each["label"])
        return {"classes": classes, "topics": self._topics(classes), "tags": self._tags(classes)}

    def _topics(self, classes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the topics that have examples or support a class or a tag."""
        with_examples = self._fitted.thumbnails.topics
        linked = [topic for each in classes for topic in each["topics"]]
        for tag in range(len(self._fitted.tag_names)):
            linked += self._topic_tags.of_name(tag, N_TOPICS_OF_TAG)
        topics = describe_topics(self._fitted, self._topic_tags, self._topic_classes)
        return [
            {**topics[number], "examples": self._examples(with_examples.get(number, ()))}
            for number in dict.fromkeys([*with_examples, *linked])
        ]

    def _tags(self, classes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the tags with their topics and classes, the most frequent first."""
        names, frequency_A = self._fitted.tag_names, self._fitted.tag_frequency_A
        return [
            {
                "tag": names[number],
                "frequency": float(frequency_A[number]),
                "topics": self._topic_tags.of_name(number, N_TOPICS_OF_TAG),
                "classes": [
                    each["label"]
                    for each in classes
                    if names[number] in [some["name"] for some in each["tags"]]
                ],
                "examples": self._examples_of_tag(names[number]),
            }
            for number in top_ranked(frequency_A[None], len(frequency_A))[0].tolist()
        ]

    def _examples_of_tag(self, tag: str) -> list[dict[str, str]]:
        return self._examples(
            [name for name, tags in self._example_tags.items() if normalize_tag(tag) in tags]
        )

    def _examples_of_class(self, label: str) -> list[dict[str, str]]:
        learned = self._fitted.training_set.photographs
        rows, members_N1 = learned.class_members([label])
        return self._examples([learned.names[row] for row in rows[members_N1[:, 0]]])

    def _examples(self, names: Sequence[str]) -> list[dict[str, str]]:
        """Return the first few photographs that have a thumbnail."""
        available = [name for name in names if name in self._example_number][:N_EXAMPLES]
        return [
            {
                "name": PurePath(name).name,
                "picture": f"/v1/examples/{self._example_number[name]}/picture?v={self._version}",
            }
            for name in available
        ]


def describe_photograph(
    gallery: Gallery,
    row: int,
    *,
    distance: float | None = None,
    match: float | None = None,
    near_duplicate: bool = False,
) -> NeighbourOut:
    """Return the description of a photograph of the gallery."""
    label = gallery.label(row)
    return NeighbourOut(
        photograph=row,
        name=_printable(gallery.names[row]),
        path=_printable(gallery.paths[row]),
        picture=f"/v1/gallery/{row}/picture?v={gallery.version}",
        label=None if label is None else label[0],
        probability=None if label is None else label[1],
        tags=[TagOut(tag=tag, probability=probability) for tag, probability in gallery.tags(row)],
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


def _printable(name: str) -> str:
    return name.encode("utf-8", "replace").decode()
