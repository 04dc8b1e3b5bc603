"""A topic model of texts: the words that it counts, the estimator, and its topics as words.

A model is a folder with the file `topics.safetensors`.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.checks import check_shape
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.estimators.persistence import StoredTopicModel
from supdocnade.estimators.supdocnade import SupDocNADE
from supdocnade.estimators.topic_model import DocNADE
from supdocnade.folders.texts import Texts
from supdocnade.metrics import npmi_coherence, presence_correlation, top_ranked
from supdocnade.model.topic_rotation import TopicRotation, find_rotation
from supdocnade.runs import RunOptions
from supdocnade.schema import load, save, stored
from supdocnade.seeding import named_generator

KIND = "TextModel"
FILE = "topics.safetensors"
N_WORDS = 10
"""Words per topic."""


class TopicWord(NamedTuple):
    """A word of a topic, and the correlation of its presence with the topic."""

    word: str
    correlation: float


@dataclass(frozen=True, eq=False, kw_only=True)
class TextModel:
    """Topics of texts."""

    fitted: StoredTopicModel
    """The estimator, with the words as names of its features."""
    lowercase: bool
    stop_words: str | list[str] | None
    ngram_range: tuple[int, int] = stored(least=1)
    rotation: TopicRotation
    words: tuple[tuple[TopicWord, ...], ...]
    """Words of every topic, the strongest first."""
    metrics: dict[str, Any]
    """Metrics of the fit by name, such as `coherence`; None where one was not measured."""

    def __post_init__(self) -> None:
        n_units = self.fitted.network.config.n_topics
        check_shape("axes", self.rotation.axes_HR.shape, (n_units, len(self.words)))
        if isinstance(self.stop_words, str) and self.stop_words != "english":
            raise InvalidArgument(
                f"stop_words must be 'english' or a list, got {self.stop_words!r}"
            )
        if not self.ngram_range[0] <= self.ngram_range[1]:
            raise InvalidArgument(f"ngram_range must rise, got {self.ngram_range}")
        if self.fitted.word_names is None:
            raise InvalidArgument("its estimator must have names of words")

    @classmethod
    def of(
        cls,
        estimator: DocNADE | SupDocNADE,
        counts: sparse.csr_array,
        vocabulary: Sequence[str],
        vectorizer: Mapping[str, Any],
        metrics: Mapping[str, Any],
    ) -> Self:
        """Return the model of a fitted estimator.

        Parameters
        ----------
        counts : that the estimator was fitted on, with classes if there are labels.
        vocabulary : words of the counts.
        vectorizer : `lowercase`, `stop_words` and `ngram_range` of scikit-learn's
            `CountVectorizer`, by which texts are split into words.
        metrics : metrics on held-out texts, by name.
        """
        rotation, words = read_topics(estimator, counts, vocabulary)
        coherence_R, diversity = topic_quality(words, vocabulary, counts)
        measured = {
            "n_documents": counts.shape[0],
            "n_words": len(vocabulary),
            "coherence": float(coherence_R.mean()),
            "diversity": diversity,
        }
        return cls(
            fitted=StoredTopicModel.of(estimator, vocabulary),
            rotation=rotation,
            words=words,
            metrics={**measured, **metrics},
            **vectorizer,
        )

    @classmethod
    def learn(
        cls,
        texts: Texts,
        held_out: Texts,
        *,
        vectorizer: Mapping[str, Any],
        limits: Mapping[str, Any],
        with_classes: bool = True,
        options: RunOptions = RunOptions(),
        **settings: Any,
    ) -> Self:
        """Learn the topics of texts, and their classes if there are several labels.

        Parameters
        ----------
        held_out : texts that the model is measured on, and does not learn from.
        vectorizer, limits : see `count_words`.
        with_classes : False ignores the labels.
        options : `n_jobs`, `checkpoint` and `progress` of the run.
        settings : of the estimator, in place of those of `DocNADE.for_texts`.
        """
        options.progress("counting words", 0, 1)
        counts, vocabulary = count_words(texts.texts, vectorizer, **limits)
        if len(vocabulary) < 2:
            raise InvalidArgument(f"the texts must have 2 words to learn, got {len(vocabulary)}.")
        unseen = count_words(held_out.texts, vectorizer, vocabulary)[0] if held_out.texts else None
        options.progress("counting words", 1, 1)
        kind, labels = DocNADE, None
        if with_classes and len({*texts.labels} - {None}) > 1:
            kind, labels = SupDocNADE, np.array(texts.labels, object)
        run = {"checkpoint": options.checkpoint, "n_jobs": options.n_jobs}
        estimator = kind.for_texts(counts, **{"random_state": 0, **settings, **run})
        estimator.fit(counts, labels, progress=options.progress)
        metrics = _measure(estimator, counts, unseen, held_out.labels)
        return cls.of(estimator, counts, vocabulary, vectorizer, metrics)

    @cached_property
    def estimator(self) -> DocNADE | SupDocNADE:
        """The estimator, which takes counts of the words."""
        kind = DocNADE if self.fitted.classes is None else SupDocNADE
        estimator: DocNADE | SupDocNADE = self.fitted.build(kind)
        return estimator

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words that are counted."""
        assert self.fitted.word_names is not None, "checked"
        return self.fitted.word_names

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes that the model predicts; empty without."""
        return tuple(map(str, getattr(self.estimator, "classes_", ())))

    def count(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return how often texts have the words of the vocabulary, (texts, words)."""
        names = ("lowercase", "stop_words", "ngram_range")
        vectorizer = {name: getattr(self, name) for name in names}
        return count_words(texts, vectorizer, self.vocabulary)[0]

    def topics(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the topics of texts, (texts, topics); the larger a number, the more of a topic."""
        return self.topics_of(self.count(texts))

    def topics_of(self, counts: sparse.csr_array) -> NDArray[np.float64]:
        """Return the topics of texts whose words `count` has counted."""
        return self.rotation.rotate(self.estimator.transform(counts))

    def save(self, folder: Path) -> None:
        """Write the model to a folder."""
        save(folder / FILE, KIND, self)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return a model that `save` wrote; a damaged or foreign one raises `StorageError`."""
        return load(Path(folder) / FILE, KIND, cls)


def count_words(
    texts: Sequence[str],
    vectorizer: Mapping[str, Any],
    vocabulary: Sequence[str] | None = None,
    **limits: Any,
) -> tuple[sparse.csr_array, tuple[str, ...]]:
    """Return how often texts have words, (texts, words), and the words.

    Parameters
    ----------
    vectorizer : `lowercase`, `stop_words` and `ngram_range` of scikit-learn's `CountVectorizer`.
    vocabulary : the words. By default, those of the texts.
    limits : `min_df`, `max_df` and `max_features`, for the words of the texts.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(**vectorizer, vocabulary=vocabulary, **limits)
    try:
        counts = counter.fit_transform(texts) if vocabulary is None else counter.transform(texts)
    except ValueError as error:  # scikit-learn's sentences name its arguments.
        raise InvalidArgument(f"the texts cannot be counted: {str(error).rstrip('.')}.") from error
    return sparse.csr_array(counts), tuple(map(str, counter.get_feature_names_out()))


def split_texts(texts: Texts, held_out: float, random_state: int) -> tuple[Texts, Texts]:
    """Return the texts to learn from, and a random share of the texts that is held out."""
    order = named_generator(random_state, "held_out").permutation(len(texts.texts))
    cut = int(held_out * len(order))
    return texts.select(sorted(order[cut:])), texts.select(sorted(order[:cut]))


def read_topics(
    estimator: DocNADE | SupDocNADE,
    counts: sparse.csr_array,
    vocabulary: Sequence[str],
    n_words: int = N_WORDS,
) -> tuple[TopicRotation, tuple[tuple[TopicWord, ...], ...]]:
    """Return the topics of a fitted estimator, and their words."""
    hidden_BH = estimator.transform(counts)
    rotation = find_rotation(hidden_BH)
    scores_RK = presence_correlation(rotation.rotate(hidden_BH), [counts])
    words = tuple(
        tuple(TopicWord(vocabulary[word], float(scores_K[word])) for word in best)
        for best, scores_K in zip(top_ranked(scores_RK, n_words).tolist(), scores_RK, strict=True)
    )
    return rotation, words


def topic_quality(
    words: Sequence[Sequence[TopicWord]], vocabulary: Sequence[str], counts: sparse.csr_array
) -> tuple[NDArray[np.float64], float]:
    """Return the coherence of every topic (mean NPMI), and the diversity of all their words.

    Parameters
    ----------
    counts : (texts, words of the vocabulary) in which co-occurrences are counted.
    """
    column = {word: number for number, word in enumerate(vocabulary)}
    words_RX = np.array([[column[each.word] for each in topic] for topic in words])
    return npmi_coherence(words_RX, counts), len(np.unique(words_RX)) / words_RX.size


def _measure(
    estimator: DocNADE | SupDocNADE,
    counts: sparse.csr_array,
    unseen: sparse.csr_array | None,
    labels: Sequence[str | None],
) -> dict[str, Any]:
    """Return the metrics on held-out documents; None where nothing can be measured."""
    metrics: dict[str, Any] = dict.fromkeys(("perplexity", "unigram_perplexity", "accuracy"))
    metrics |= {"n_held_out": 0, "n_labelled": 0}
    if unseen is None:
        return metrics
    has_words = np.asarray(unseen.sum(axis=1)) > 0
    if has_words.any():
        share_K = np.asarray(counts.sum(axis=0), np.float64) + 0.5
        log_p = (unseen @ np.log(share_K / share_K.sum())).sum() / unseen.sum()
        metrics["n_held_out"] = int(has_words.sum())
        metrics["perplexity"] = estimator.perplexity(unseen[has_words], average="corpus")
        metrics["unigram_perplexity"] = float(np.exp(-log_p))
    known = [row for row, label in enumerate(labels) if label is not None]
    if known and isinstance(estimator, SupDocNADE):
        metrics["accuracy"] = estimator.score(unseen[known], [labels[row] for row in known])
        metrics["n_labelled"] = len(known)
    return metrics


def check_folder(folder: Path, *, force: bool) -> None:
    """Raise `StorageError` if writing a model would destroy something else.

    Parameters
    ----------
    force : replace a model of texts.
    """
    target = Path(os.path.realpath(folder))  # That of "missing/../model" is an existing model.
    if (target / FILE).is_file():
        if not force:
            raise StorageError(f"{folder} holds a model; --force replaces it.")
    elif target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StorageError(f"{folder} is in the way: it is neither a model of texts nor empty.")
