"""What a model has learned, as a web of classes, topics, visual words, tags and photographs."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import PurePath

import numpy as np

from supdocnade.folders.tags import normalize_tag
from supdocnade.images.decode import encode
from supdocnade.metrics import top_ranked
from supdocnade.report.class_words import class_associations, topic_associations
from supdocnade.report.drawing import mosaic
from supdocnade.scene.prediction import FittedScene
from supdocnade.serving.schemas import (
    ClassOut,
    ExampleOut,
    ExploreOut,
    TagUses,
    TopicOut,
    WordOut,
    WordUses,
)

CLASSES_OF_TOPIC, TOPICS_OF_TAG, EXAMPLES = 3, 3, 8
MOSAICS = 512
"""Of visual words that are kept once they were asked for."""


class Atlas:
    """Everything there is to see in a model; pictures have numbers.

    Parameters
    ----------
    fitted : the model.
    fingerprint : of the model, so that pictures of another one have other addresses.
    """

    def __init__(self, fitted: FittedScene, fingerprint: str):
        self._fitted = fitted
        self._version = fingerprint[:8]
        self.n_words = fitted.bag.encoder_.codebook.n_words
        self.examples = fitted.examples.pictures
        self.word_picture: Callable[[int], bytes] = lru_cache(MOSAICS)(self._word_picture)
        self._place = {name: number for number, name in enumerate(fitted.examples.names)}
        self.web = self._web()

    def _web(self) -> ExploreOut:
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
            tags=self._tags(classes, topics),
        )

    def _topics(self, classes: Sequence[ClassOut]) -> list[TopicOut]:
        """Return the topics that examples are kept of, and those that speak for a class or tag."""
        fitted = self._fitted
        kept = {each.topic: each for each in fitted.examples.topics}
        named = [topic for each in classes for topic in each.topics]
        for tag in range(len(fitted.tag_names)):
            named += self._topics_of_tag(tag)
        weight = getattr(fitted.topics.network_, "label_weight", None)
        weight_CH = None if weight is None else weight.detach().numpy()
        found = []
        for topic in dict.fromkeys([*kept, *named]):
            stands_for = topic_associations(fitted, [topic])
            spoken: list[str] = []
            if weight_CH is not None:
                best = top_ranked(weight_CH[:, topic][None], CLASSES_OF_TOPIC)[0].tolist()
                spoken = [fitted.classes[c] for c in best if weight_CH[c, topic] > 0]
            example = kept.get(topic)
            found.append(
                TopicOut(
                    topic=topic,
                    strength=None if example is None else example.strength,
                    words=[self._word(word.word) for word in stands_for.words],
                    tags=[tag for tag, _ in stands_for.tags],
                    classes=spoken,
                    examples=self._shown(() if example is None else example.names),
                )
            )
        return found

    def _words(self, classes: Sequence[ClassOut], topics: Sequence[TopicOut]) -> list[WordUses]:
        """Return the visual words that a class or topic stands for."""
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

    def _tags(self, classes: Sequence[ClassOut], topics: Sequence[TopicOut]) -> list[TagUses]:
        fitted = self._fitted
        frequency_A = fitted.tag_frequency_A
        found = []
        for number in top_ranked(frequency_A[None], len(frequency_A))[0].tolist():
            tag = fitted.tag_names[number]
            found.append(
                TagUses(
                    tag=tag,
                    frequency=float(frequency_A[number]),
                    topics=self._topics_of_tag(number),
                    classes=[each.label for each in classes if tag in each.tags],
                    examples=self._shown(self._names_with_tag(tag)),
                )
            )
        return found

    def _topics_of_tag(self, tag: int) -> list[int]:
        """Return the topics that speak most for a tag."""
        n_tags = len(self._fitted.tag_names)
        column_H = self._fitted.topics.components_[:, tag - n_tags]
        best: list[int] = top_ranked(np.asarray(column_H)[None], TOPICS_OF_TAG)[0].tolist()
        return best

    def _names_with_tag(self, tag: str) -> list[str]:
        learned = self._fitted.learned.photographs
        return [
            name
            for name, tags in zip(learned.names, learned.tags, strict=True)
            if name in self._place and tags and tag in map(normalize_tag, tags)
        ]

    def _examples_of_class(self, label: str) -> list[ExampleOut]:
        learned = self._fitted.learned.photographs
        pairs = zip(learned.names, learned.labels, strict=True)
        return self._shown([name for name, given in pairs if given == label])

    def _shown(self, names: Sequence[str]) -> list[ExampleOut]:
        """Return those of which there are small copies, not too many."""
        known = [name for name in names if name in self._place][:EXAMPLES]
        return [
            ExampleOut(
                name=PurePath(name).name,
                picture=f"/v1/examples/{self._place[name]}/picture?v={self._version}",
            )
            for name in known
        ]

    def _word(self, word: int) -> WordOut:
        return WordOut(word=word, picture=f"/v1/words/{word}/picture?v={self._version}")

    def _word_picture(self, word: int) -> bytes:
        patches = self._fitted.bag.example_patches(word)
        return encode(mosaic(patches), "JPEG", quality=88)
