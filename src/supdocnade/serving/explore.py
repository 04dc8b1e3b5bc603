"""Descriptions of what the page shows: classes, topics, words and tags, and photographs."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import PurePath

import numpy as np

from supdocnade.folders.tags import normalize_tag
from supdocnade.gallery.photo_index import Gallery
from supdocnade.images.decode import encode
from supdocnade.metrics import top_ranked
from supdocnade.report.charts import mosaic
from supdocnade.report.class_words import class_associations, topic_associations
from supdocnade.scene.prediction import FittedScene
from supdocnade.serving.schemas import (
    ClassOut,
    ExampleOut,
    ExploreOut,
    NeighbourOut,
    TagOut,
    TagUses,
    TopicOut,
    WordOut,
    WordUses,
)

N_CLASSES_OF_TOPIC, N_TOPICS_OF_TAG, N_EXAMPLES = 3, 3, 8
MOSAIC_CACHE_SIZE = 512


class ModelExplorer:
    """Everything that the page shows about a model.

    Parameters
    ----------
    fitted : the model.
    fingerprint : digest of the model; it is part of the URLs of pictures, which browsers cache.
    """

    def __init__(self, fitted: FittedScene, fingerprint: str):
        self._fitted = fitted
        self._version = fingerprint[:8]
        self.n_words = fitted.encoder.n_words
        self.examples = fitted.thumbnails.pictures
        self.word_picture: Callable[[int], bytes] = lru_cache(MOSAIC_CACHE_SIZE)(self._word_picture)
        self._example_number = {name: n for n, name in enumerate(fitted.thumbnails.names)}
        self.overview = self._overview()

    def _overview(self) -> ExploreOut:
        fitted = self._fitted
        counts = fitted.data.get("images_of_class", {})
        classes = [
            ClassOut(
                label=each.label,
                n_images=counts.get(each.label, 0),
                topics=list(each.topics),
                words=[self._word(word.word) for word in each.words],
                tags=[tag for tag, _ in each.tags],
                examples=self._examples_of_class(each.label),
            )
            for each in class_associations(fitted)
        ]
        topics = self._topics(classes)
        return ExploreOut(
            classes=classes,
            topics=topics,
            words=self._words(classes, topics),
            tags=self._tags(classes),
        )

    def _topics(self, classes: Sequence[ClassOut]) -> list[TopicOut]:
        """Return the topics that have examples or support a class or a tag."""
        fitted = self._fitted
        with_examples = {each.topic: each for each in fitted.thumbnails.topics}
        linked = [topic for each in classes for topic in each.topics]
        for tag in range(len(fitted.tag_names)):
            linked += self._topics_of_tag(tag)
        weight_CH = fitted.network["label_weight"] if fitted.classes else None
        topics = []
        for topic in dict.fromkeys([*with_examples, *linked]):
            associations = topic_associations(fitted, [topic])
            supported: list[str] = []
            if weight_CH is not None:
                best = top_ranked(weight_CH[:, topic][None], N_CLASSES_OF_TOPIC)[0].tolist()
                supported = [fitted.classes[c] for c in best if weight_CH[c, topic] > 0]
            example = with_examples.get(topic)
            topics.append(
                TopicOut(
                    topic=topic,
                    strength=None if example is None else example.strength,
                    words=[self._word(word.word) for word in associations.words],
                    tags=[tag for tag, _ in associations.tags],
                    classes=supported,
                    examples=self._examples(() if example is None else example.names),
                )
            )
        return topics

    def _words(self, classes: Sequence[ClassOut], topics: Sequence[TopicOut]) -> list[WordUses]:
        """Return the visual words associated with a class or a topic."""
        in_topics: dict[int, list[int]] = {}
        in_classes: dict[int, list[str]] = {}
        for topic in topics:
            for word in topic.words:
                in_topics.setdefault(word.word, []).append(topic.topic)
        for each in classes:
            for word in each.words:
                in_classes.setdefault(word.word, []).append(each.label)
        return [
            WordUses(
                word=word,
                picture=self._word(word).picture,
                topics=in_topics.get(word, []),
                classes=in_classes.get(word, []),
            )
            for word in sorted({*in_topics, *in_classes})
        ]

    def _tags(self, classes: Sequence[ClassOut]) -> list[TagUses]:
        """Return the tags, the most frequent first."""
        fitted, frequency_A = self._fitted, self._fitted.tag_frequency_A
        ranked = top_ranked(frequency_A[None], len(frequency_A))[0].tolist()
        return [
            TagUses(
                tag=tag,
                frequency=float(frequency_A[number]),
                topics=self._topics_of_tag(number),
                classes=[each.label for each in classes if tag in each.tags],
                examples=self._examples_of_tag(tag),
            )
            for number, tag in ((number, fitted.tag_names[number]) for number in ranked)
        ]

    def _topics_of_tag(self, tag: int) -> list[int]:
        """Return the topics that support a tag most."""
        n_tags = len(self._fitted.tag_names)
        column_H = self._fitted.network.joint_weights[:, tag - n_tags]
        best: list[int] = top_ranked(np.asarray(column_H)[None], N_TOPICS_OF_TAG)[0].tolist()
        return best

    def _examples_of_tag(self, tag: str) -> list[ExampleOut]:
        learned = self._fitted.training_set.photographs
        pairs = zip(learned.names, learned.tags, strict=True)
        return self._examples(
            [name for name, tags in pairs if tags and tag in map(normalize_tag, tags)]
        )

    def _examples_of_class(self, label: str) -> list[ExampleOut]:
        learned = self._fitted.training_set.photographs
        pairs = zip(learned.names, learned.labels, strict=True)
        return self._examples([name for name, its_label in pairs if its_label == label])

    def _examples(self, names: Sequence[str]) -> list[ExampleOut]:
        """Return the first few photographs that have a thumbnail."""
        available = [name for name in names if name in self._example_number][:N_EXAMPLES]
        return [
            ExampleOut(
                name=PurePath(name).name,
                picture=f"/v1/examples/{self._example_number[name]}/picture?v={self._version}",
            )
            for name in available
        ]

    def _word(self, word: int) -> WordOut:
        return WordOut(word=word, picture=f"/v1/words/{word}/picture?v={self._version}")

    def _word_picture(self, word: int) -> bytes:
        patches = self._fitted.example_patches(word)
        return encode(mosaic(patches), "JPEG", quality=88)


def describe_photograph(gallery: Gallery, row: int, distance: float | None = None) -> NeighbourOut:
    """Return the description of a photograph of the gallery."""
    label = gallery.label(row)
    return NeighbourOut(
        photograph=row,
        name=gallery.rows.names[row].encode("utf-8", "replace").decode(),
        picture=f"/v1/gallery/{row}/picture?v={gallery.version}",
        label=None if label is None else label[0],
        probability=None if label is None else label[1],
        tags=[TagOut(tag=tag, probability=probability) for tag, probability in gallery.tags(row)],
        distance=distance,
    )
