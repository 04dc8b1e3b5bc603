"""A topic model of texts: the words that it counts, the estimator, and its topics as words.

A model is a folder of two files. `topics.safetensors` is the estimator, with the words as names of
its features; `reading.safetensors` has the rotation and the words of its topics, the settings of
the vectoriser and the figures.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.checks import check_shape
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.estimators.docnade import DocNADE
from supdocnade.estimators.supdocnade import SupDocNADE
from supdocnade.folders.texts import Texts
from supdocnade.metrics import npmi_coherence, presence_correlation, top_ranked
from supdocnade.model.topic_rotation import TopicRotation, find_rotation
from supdocnade.runs import RunOptions
from supdocnade.schema import array, load, save, stored
from supdocnade.seeding import named_generator
from supdocnade.storage import damage_errors, read_file

KIND = "TextModel"
ESTIMATOR, READING = "topics.safetensors", "reading.safetensors"
N_WORDS = 10
"""Words per topic."""

MIN_EPOCHS, MIN_UPDATES = 20, 400
"""Passes over the documents and updates of the parameters, by default."""

GENERATIVE_WEIGHT = 1.0
"""λ of a model with classes: topics describe the words as well as the classes."""


class TopicWord(NamedTuple):
    """A word of a topic, and the correlation of its presence with the topic."""

    word: str
    correlation: float


@dataclass(kw_only=True)
class StoredVectorizer:
    """Settings of scikit-learn's `CountVectorizer` by which texts are split into words."""

    lowercase: bool
    stop_words: str | list[str] | None
    ngram_range: tuple[int, int] = stored(least=1)

    def __post_init__(self) -> None:
        if isinstance(self.stop_words, str) and self.stop_words != "english":
            raise InvalidArgument(
                f"stop_words must be 'english' or a list, got {self.stop_words!r}"
            )
        if not self.ngram_range[0] <= self.ngram_range[1]:
            raise InvalidArgument(f"ngram_range must rise, got {self.ngram_range}")


@dataclass(kw_only=True)
class StoredText:
    """The file beside that of the estimator: H hidden units, R topics."""

    estimator_kind: str = stored(choices=("DocNADE", "SupDocNADE"))
    estimator: str
    """Digest of the file of the estimator."""
    vectorizer: StoredVectorizer
    words: tuple[tuple[TopicWord, ...], ...] = stored(axis="R")
    figures: dict[str, Any]
    axes: NDArray[np.float64] = array("HR")
    inverse: NDArray[np.float64] = array("RH")


@dataclass(frozen=True, eq=False, kw_only=True)
class TextModel:
    """Topics of texts."""

    estimator: DocNADE | SupDocNADE
    """Fitted on the counts of `vocabulary`; with classes if there are labels."""
    vocabulary: tuple[str, ...]
    vectorizer: Mapping[str, Any]
    """Settings of scikit-learn's `CountVectorizer` by which texts are split into words."""
    rotation: TopicRotation
    words: tuple[tuple[TopicWord, ...], ...]
    """Words of every topic, the strongest first."""
    figures: Mapping[str, Any]
    """Figures of the fit by name, such as `coherence`; None where one was not measured."""

    @classmethod
    def learn(
        cls,
        texts: Texts,
        held_out: Texts,
        *,
        vectorizer: Mapping[str, Any],
        limits: Mapping[str, Any],
        with_classes: bool = True,
        n_topics: int = 50,
        learning_rate: float = 3e-3,
        max_epochs: int | None = None,
        random_state: int = 0,
        options: RunOptions = RunOptions(),
    ) -> Self:
        """Learn the topics of texts, and their classes if there are several labels.

        Parameters
        ----------
        held_out : texts that are only measured.
        vectorizer, limits : see `count_words`.
        with_classes : False ignores the labels.
        max_epochs : by default, enough for `MIN_EPOCHS` and `MIN_UPDATES`.
        options : `n_jobs`, `checkpoint` and `progress` of the run.
        """
        options.progress("counting words", 0, 1)
        counts, vocabulary = count_words(texts.texts, vectorizer, **limits)
        if len(vocabulary) < 2:
            raise InvalidArgument(f"the texts must have 2 words to learn, got {len(vocabulary)}.")
        unseen = count_words(held_out.texts, vectorizer, vocabulary)[0] if held_out.texts else None
        options.progress("counting words", 1, 1)
        # Fewer documents per update than usual if there are few.
        batch_size = min(64, max(8, counts.shape[0] // 32))
        if max_epochs is None:
            n_batches = math.ceil(counts.shape[0] / batch_size)
            max_epochs = max(MIN_EPOCHS, math.ceil(MIN_UPDATES / n_batches))
        settings: dict[str, Any] = {
            "n_topics": n_topics,
            "activation": "sigmoid",
            "learning_rate": learning_rate,
            "max_epochs": max_epochs,
            "batch_size": batch_size,
            "random_state": random_state,
        }
        estimator, labels = DocNADE(**settings), None
        if with_classes and len({*texts.labels} - {None}) > 1:
            labels = np.array(texts.labels, object)
            estimator = SupDocNADE(**settings, generative_weight=GENERATIVE_WEIGHT)
        estimator.set_params(checkpoint=options.checkpoint, n_jobs=options.n_jobs)
        estimator.fit(counts, labels, progress=options.progress)
        estimator.set_params(checkpoint=None, n_jobs=None)
        rotation, words = read_topics(estimator, counts, vocabulary)
        coherence_R, diversity = topic_quality(words, vocabulary, counts)
        figures: dict[str, Any] = {
            "n_documents": counts.shape[0],
            "n_words": len(vocabulary),
            "coherence": float(coherence_R.mean()),
            "diversity": diversity,
            **_measure(estimator, counts, unseen, held_out.labels),
        }
        return cls(
            estimator=estimator,
            vocabulary=vocabulary,
            vectorizer=vectorizer,
            rotation=rotation,
            words=words,
            figures=figures,
        )

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes that the model predicts; empty without."""
        return tuple(map(str, getattr(self.estimator, "classes_", ())))

    def count(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return how often texts have the words of the vocabulary, (texts, words)."""
        return count_words(texts, self.vectorizer, self.vocabulary)[0]

    def topics(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the topics of texts, (texts, topics); a large number means: the text has it."""
        return self.topics_of(self.count(texts))

    def topics_of(self, counts: sparse.csr_array) -> NDArray[np.float64]:
        """Return the topics of texts whose words `count` has counted."""
        return self.rotation.rotate(self.estimator.transform(counts))

    def save(self, folder: Path) -> None:
        """Write the model to a folder; `load` refuses a folder that was written in part."""
        names = np.array(self.vocabulary, object)
        self.estimator.feature_names_in_ = names
        try:
            self.estimator.save(folder / ESTIMATOR)
        finally:
            del self.estimator.feature_names_in_  # Otherwise scikit-learn wants names of counts.
        record = StoredText(
            estimator_kind=type(self.estimator).__name__,
            estimator=_digest(folder / ESTIMATOR),
            vectorizer=StoredVectorizer(**self.vectorizer),
            words=self.words,
            figures=dict(self.figures),
            axes=self.rotation.axes_HR,
            inverse=self.rotation.inverse_RH,
        )
        save(folder / READING, KIND, record)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return a model that `save` wrote; a damaged or foreign one raises `StorageError`."""
        path, stored_path = Path(folder) / READING, Path(folder) / ESTIMATOR
        record = load(path, KIND, StoredText)
        if record.estimator != _digest(stored_path):
            raise StorageError(f"{path} is damaged: it does not belong to {stored_path}.")
        kind = {"DocNADE": DocNADE, "SupDocNADE": SupDocNADE}[record.estimator_kind]
        estimator: DocNADE | SupDocNADE = kind.load(stored_path)
        with damage_errors(str(path)):
            vocabulary = tuple(estimator.feature_names_in_)
            n_units = estimator.network_.config.n_topics
            check_shape("axes", record.axes.shape, (n_units, len(record.words)))
        del estimator.feature_names_in_
        return cls(
            estimator=estimator,
            vocabulary=vocabulary,
            vectorizer=vars(record.vectorizer),
            rotation=TopicRotation(record.axes, record.inverse),
            words=record.words,
            figures=record.figures,
        )


def _digest(path: Path) -> str:
    return hashlib.blake2b(read_file(path), digest_size=16).hexdigest()


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
    vocabulary : the words; None: those of the texts.
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
    """Return the figures on held-out documents; None where nothing can be measured."""
    figures: dict[str, Any] = dict.fromkeys(("perplexity", "unigram_perplexity", "accuracy"))
    figures |= {"n_held_out": 0, "n_labelled": 0}
    if unseen is None:
        return figures
    has_words = np.asarray(unseen.sum(axis=1)) > 0
    if has_words.any():
        share_K = np.asarray(counts.sum(axis=0), np.float64) + 0.5
        log_p = (unseen @ np.log(share_K / share_K.sum())).sum() / unseen.sum()
        figures["n_held_out"] = int(has_words.sum())
        figures["perplexity"] = estimator.perplexity(unseen[has_words], average="corpus")
        figures["unigram_perplexity"] = float(np.exp(-log_p))
    known = [row for row, label in enumerate(labels) if label is not None]
    if known and isinstance(estimator, SupDocNADE):
        figures["accuracy"] = estimator.score(unseen[known], [labels[row] for row in known])
        figures["n_labelled"] = len(known)
    return figures


def check_folder(folder: Path, *, force: bool) -> None:
    """Raise `StorageError` if writing a model would destroy something else.

    Parameters
    ----------
    force : replace a model of texts.
    """
    if (folder / READING).is_file() or (folder / ESTIMATOR).is_file():
        if not force:
            raise StorageError(f"{folder} holds a model; --force replaces it.")
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StorageError(f"{folder} is in the way: it is neither a model of texts nor empty.")
