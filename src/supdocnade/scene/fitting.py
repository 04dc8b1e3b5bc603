"""Fitting of a scene model.

1. All photographs are read, to find near-duplicates and those that cannot be read (`inspection`),
   and a share of them is held out (`inspection.hold_out`).
2. Visual words are learned from the others, and all photographs are encoded.
3. A topic model and a classifier are fitted on the other photographs. The settings of the
   classifier, the temperature, the weight of votes for tags and their threshold are chosen on the
   held-out photographs (`selection`).
4. Everything is fitted again on all photographs with these choices. The reported metrics are those
   of step 3.
5. Thumbnails of some photographs are stored (`thumbnails`).
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.checks import copy_settings
from supdocnade.corpus.disk import Corpus
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.persistence import VisualWords
from supdocnade.estimators.settings import SupDocNADESettings
from supdocnade.folders.tags import AnnotationVocabulary, Tags
from supdocnade.images.reading import SkippedImage, check_images
from supdocnade.model.inference import NetworkArrays, topic_features
from supdocnade.runs import EpochCallback, RunOptions
from supdocnade.scene.calibration import Choices, HeldOut
from supdocnade.scene.class_heads import RBFSVM
from supdocnade.scene.corpus_photographs import read_corpus
from supdocnade.scene.dataset import Photographs, TrainingSet
from supdocnade.scene.inspection import (
    describe_class_conflicts,
    find_class_conflicts,
    hold_out,
    inspect_photographs,
)
from supdocnade.scene.prediction import FittedScene
from supdocnade.scene.references import round_topics
from supdocnade.scene.selection import choose_on_held_out, default_choices
from supdocnade.scene.settings import SceneSettings
from supdocnade.scene.tag_heads import fit_votes, tag_frequency
from supdocnade.scene.thumbnails import find_shown_topics, make_thumbnails
from supdocnade.training.config import History
from supdocnade.training.trainer import train_network
from supdocnade.visual_words.encoder import encode_all
from supdocnade.visual_words.learn import learn_words
from supdocnade.visual_words.settings import VisualWordSettings

LEARNING = "learning"
"""Stage in which topics are learned without the held-out photographs."""


def fit_scene(
    photographs: Photographs,
    word_settings: VisualWordSettings,
    settings: SceneSettings,
    seed: int,
    options: RunOptions,
) -> tuple[FittedScene, tuple[SkippedImage, ...]]:
    """Fit a scene model; return it with the photographs that could not be read."""
    _check_any(photographs)
    word_settings = copy_settings(VisualWordSettings, word_settings, random_state=seed)
    picture_B = _inspect(word_settings, photographs, options)
    held_B = hold_out(photographs, settings.held_out, seed, picture_B)
    learned = photographs.take(np.flatnonzero(~held_B))
    encoder, _ = learn_words(
        learned.sources, word_settings, seed, options, min_words=word_settings.n_nearest
    )
    words = VisualWords.of(word_settings, encoder)
    training_set, skipped = _encode(words, photographs, ~held_B, options)
    fitted = _fit(words, training_set, ~training_set.in_words_B, settings, seed, options)
    return _add_thumbnails(fitted, training_set, options), skipped


def fit_scene_corpus(
    corpus: Corpus,
    labels: Sequence[Any] | None,
    tags: Sequence[Tags] | None,
    words: VisualWords,
    settings: SceneSettings,
    seed: int,
    options: RunOptions,
) -> FittedScene:
    """Fit a scene model on a corpus; only names, labels and tags of all photographs are in memory.

    Parameters
    ----------
    labels, tags : of the photographs. By default, those of the corpus.
    words : that the corpus was encoded with.
    """
    encoder, folder = words.encoder, options.checkpoint
    training_set, held_B, kept = read_corpus(
        corpus, labels, tags, encoder, settings.held_out, folder
    )
    return _fit(words, training_set, held_B, settings, seed, options, kept)


def extend_scene(
    previous: FittedScene,
    photographs: Photographs,
    settings: SceneSettings,
    seed: int,
    options: RunOptions,
) -> tuple[FittedScene, tuple[SkippedImage, ...]]:
    """Fit a model on the training set of another and on more photographs, with its words.

    Photographs that were held out before stay held out, and so is a share of the new ones.
    """
    _check_any(photographs)
    words = previous.words
    picture_B = _inspect(words.settings, photographs, options)
    in_words_B = np.zeros(len(photographs), np.bool_)
    new, skipped = _encode(words, photographs, in_words_B, options)
    before, keys = previous.training_set, new.photographs.content_keys()
    in_words_B = np.isin(keys, _select_keys(before, before.in_words_B))
    training_set = before.join(replace(new, in_words_B=in_words_B))
    # Near-duplicates are known among the new photographs, equal contents among the others.
    n_before = len(training_set.photographs) - len(new.photographs)
    keys = training_set.photographs.content_keys()[:n_before]
    before_B = np.unique(keys, return_inverse=True)[1]
    picture_B = np.delete(picture_B, [each.number for each in skipped])
    held_out_before = [image.name for image in previous.held_out.images]
    was_held_B = np.isin(before.photographs.names, held_out_before)
    # Photographs that the words were learned from cannot be held out.
    held_B = hold_out(
        training_set.photographs,
        settings.held_out,
        seed,
        np.concatenate([before_B, n_before + picture_B]),
        training_set.in_words_B,
        np.isin(training_set.photographs.content_keys(), _select_keys(before, was_held_B)),
    )
    fitted = _fit(words, training_set, held_B, settings, seed, options)
    fitted = _add_thumbnails(fitted, training_set, options)
    held_out = [image.name for image in fitted.held_out.images]
    thumbnails = fitted.thumbnails.add_from(previous.thumbnails, held_out)
    return replace(fitted, thumbnails=thumbnails).add_levels(previous.tag_levels), skipped


def _select_keys(training_set: TrainingSet, chosen_B: NDArray[np.bool_]) -> list[str]:
    """Return the digests of some photographs of a training set."""
    return training_set.photographs.take(np.flatnonzero(chosen_B)).content_keys()


def _check_any(photographs: Photographs) -> None:
    if not len(photographs):
        raise InvalidArgument("images must have a photograph that can be read, got none.")


def _inspect(
    settings: VisualWordSettings, photographs: Photographs, options: RunOptions
) -> NDArray[np.int64]:
    """Read all photographs; return numbers equal for near-duplicates, (photographs,)."""
    describer = settings.sift() if settings.features == "sift" else None
    picture_B, _ = inspect_photographs(photographs, describer, options)
    if note := describe_class_conflicts(find_class_conflicts(photographs, picture_B)):
        warnings.warn(note, stacklevel=2)
    return picture_B


def _encode(
    words: VisualWords,
    photographs: Photographs,
    in_words_B: NDArray[np.bool_],
    options: RunOptions,
) -> tuple[TrainingSet, tuple[SkippedImage, ...]]:
    """Return photographs as word counts, and those that could not be read."""
    encoded = encode_all(words.encoder, check_images(photographs.sources), options)
    read = np.flatnonzero(encoded.read)
    keys = [encoded.keys[i] or f"image {i}" for i in read]
    readable = replace(photographs.take(read), keys=keys)
    _check_any(readable)
    whole = TrainingSet(photographs, encoded.counts, in_words_B, encoded.global_features)
    training_set = replace(whole.take(read), photographs=readable)
    return training_set, encoded.skipped


def _fit(
    words: VisualWords,
    training_set: TrainingSet,
    held_B: NDArray[np.bool_],
    settings: SceneSettings,
    seed: int,
    options: RunOptions,
    kept: NDArray[np.int64] | None = None,
) -> FittedScene:
    """Choose on the held-out photographs, and fit on all; the model has no thumbnails yet.

    Parameters
    ----------
    kept : rows of the photographs that the classifier learns from, that determine the topics to
        show, and that are stored; all held-out ones are among them. By default, all rows.
    """
    stored, data, held = training_set, training_set.damp(settings.damping), held_B
    in_memory = data
    if kept is not None:
        held, stored = held_B[kept], training_set.load(kept)
        stored = replace(stored, in_words_B=~held)
        in_memory = stored.damp(settings.damping)
    sample = in_memory.take(np.flatnonzero(~held))
    choices, held_out = fit_on_part(
        sample if kept is None else data.take(np.flatnonzero(~held_B)),
        sample,
        in_memory.take(np.flatnonzero(held)),
        words.encoder.map_width,
        settings,
        seed,
        options,
    )
    photographs = data.photographs
    vocabulary = AnnotationVocabulary.of(photographs.tags, min_count=settings.min_tag_count)
    network, history = fit_topics(data, vocabulary, settings, seed, options, "learning from all")
    topics_BH = round_topics(topic_features(network, in_memory.counts, in_memory.features_BF))
    fitted = FittedScene(
        settings=settings,
        words=words,
        rotation=find_shown_topics(topics_BH),
        network=network,
        history=history,
        classes=tuple(photographs.classes),
        class_head=None,
        votes=None,
        tag_names=vocabulary.names,
        tag_frequency_A=tag_frequency(photographs, vocabulary),
        choices=choices,
        held_out=held_out,
        data=training_set.describe(),
        training_set=stored,
        topics_BH=topics_BH,
    )
    return _compare_with_training_set(fitted, vocabulary)


def _compare_with_training_set(
    fitted: FittedScene, vocabulary: AnnotationVocabulary
) -> FittedScene:
    """Return the model with its classifier and with votes for tags."""
    choices, references = fitted.choices, fitted.references
    photographs = fitted.training_set.photographs.take(fitted.reference_rows)
    head = votes = None
    label_N = photographs.label_numbers(fitted.classes)
    if len(fitted.classes) > 1:
        head = RBFSVM.fit(references, label_N, len(fitted.classes), choices.svm)
    if choices.vote_weight:
        votes = fit_votes(photographs, vocabulary, choices.vote_spread, choices.vote_weight)
    return replace(fitted, class_head=head, votes=votes)


def _add_thumbnails(
    fitted: FittedScene, training_set: TrainingSet, options: RunOptions
) -> FittedScene:
    """Return the model with thumbnails of some photographs."""
    thumbnails = make_thumbnails(
        training_set.photographs,
        fitted.topics_BH,
        fitted.network,
        fitted.rotation,
        fitted.held_out.images,
        options,
    )
    return replace(fitted, thumbnails=thumbnails)


def fit_on_part(
    part: TrainingSet,
    sample: TrainingSet,
    held_out: TrainingSet,
    widths: Sequence[int],
    settings: SceneSettings,
    seed: int,
    options: RunOptions,
) -> tuple[Choices, HeldOut]:
    """Fit on a part of the photographs, and choose on others by a sample of that part.

    Nothing is chosen if no photographs are held out.

    Parameters
    ----------
    widths : as for `References.of`.
    """
    if not len(held_out.photographs):
        return default_choices(part, settings), HeldOut()
    vocabulary = AnnotationVocabulary.of(part.photographs.tags, min_count=settings.min_tag_count)
    network, _ = fit_topics(part, vocabulary, settings, seed, options, LEARNING)
    return choose_on_held_out(
        network,
        sample,
        held_out,
        vocabulary,
        tag_frequency(part.photographs, vocabulary),
        widths,
        options,
    )


def _checkpoint_folder(options: RunOptions, stage: str) -> Path | None:
    return None if options.checkpoint is None else options.checkpoint / stage.replace(" ", "-")


def _name_stage(on_epoch: EpochCallback | None, stage: str) -> EpochCallback | None:
    """Return a callback that calls another one with the stage in the names of the metrics."""
    if on_epoch is None:
        return None

    def call(epoch: int, metrics: Mapping[str, float]) -> None:
        on_epoch(epoch, {f"{stage}/{name}": value for name, value in metrics.items()})

    return call


def fit_topics(
    data: TrainingSet,
    vocabulary: AnnotationVocabulary,
    settings: SceneSettings,
    seed: int,
    options: RunOptions,
    stage: str,
) -> tuple[NetworkArrays, History]:
    """Return the network of topics of photographs, and its history."""
    topics = settings.topics
    if isinstance(topics, SupDocNADESettings) and not data.photographs.classes:
        topics = topics.without_classes()
    classes = data.photographs.classes if isinstance(topics, SupDocNADESettings) else []
    documents = data.documents(
        vocabulary, classes, annotations_are_words=topics.annotation_output == "words"
    )
    run = replace(
        options,
        checkpoint=_checkpoint_folder(options, stage),
        on_epoch=_name_stage(options.on_epoch, stage),
    )
    network, history = train_network(
        documents,
        topics.network_config(documents),
        topics.trainer_config(seed),
        run,
        class_weight=topics.class_weights(classes),
        stage=stage,
    )
    return network.arrays(), history
