"""Selection on held-out photographs: classifier, temperature, and votes for tags."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.metrics import (
    N_TAGS,
    class_metrics,
    class_sums,
    f_measure,
    tag_metrics,
    tag_sums,
    top_ranked,
)
from supdocnade.model.inference import NetworkArrays, topic_features
from supdocnade.runs import RunOptions
from supdocnade.scene.calibration import (
    Choices,
    HeldOut,
    HeldOutImage,
    TagCalibration,
    fit_tags,
    fit_temperature,
    precise_thresholds,
    unsure_below,
)
from supdocnade.scene.class_heads import choose_machine
from supdocnade.scene.dataset import Photographs, TrainingSet
from supdocnade.scene.novelty import fit_novelty, unfamiliar_above
from supdocnade.scene.references import Compared, References, choose_references, round_topics
from supdocnade.scene.settings import SceneSettings
from supdocnade.scene.tag_heads import (
    TAG_HEADS,
    TagHead,
    TagVotes,
    fit_votes,
    present_tags,
    tag_frequency,
    tag_head,
)

Floats = NDArray[np.float64]

TUNING = "tuning the classifier"
"""Stage that is reported with the number of classifiers tried."""

SPREADS, VOTE_WEIGHTS = (0.1, 0.2), (0.0, 0.3, 0.5)
"""Candidates for the votes for tags; on a tie, prefer the first."""


def default_choices(data: TrainingSet, settings: SceneSettings) -> Choices:
    """Return the choices if no photographs are held out: the uncalibrated model."""
    vocabulary = AnnotationVocabulary.of(data.photographs.tags, min_count=settings.min_tag_count)
    calibration = None
    if len(vocabulary):
        nothing = np.empty((0, len(vocabulary)))
        frequency_A = tag_frequency(data.photographs, vocabulary)
        offset = TAG_HEADS[settings.topics.annotation_output].expected_offset(frequency_A)
        calibration = fit_tags(nothing, frequency_A, nothing > 0, offset)
    return Choices(tags=calibration)


def choose_on_held_out(
    network: NetworkArrays,
    training: TrainingSet,
    held_out: TrainingSet,
    vocabulary: AnnotationVocabulary,
    frequency_A: Floats,
    widths: Sequence[int],
    options: RunOptions = RunOptions(),
) -> tuple[Choices, HeldOut]:
    """Return the best choices, and the results on held-out photographs with them.

    The settings of the classifier have the largest `mean_probability` of true classes, the votes
    for tags the largest F-measure of the five best tags.

    Parameters
    ----------
    network : topic model that was fitted on the training photographs.
    frequency_A : (tags,) share of the training photographs that have each tag.
    widths : as for `References.of`.
    """
    classes, unseen = training.photographs.classes, held_out.photographs
    learned = training.take(choose_references(training.photographs.label_numbers(classes)))
    topics_NH = round_topics(topic_features(network, learned.counts, learned.features_BF))
    topics_BH = topic_features(network, held_out.counts, held_out.features_BF)
    references = References.of(topics_NH, learned.features_BF, widths)
    photographs = references.compare(topics_BH, held_out.features_BF)
    novelty = fit_novelty(topics_NH, learned.photographs.labels)
    choices = Choices(unfamiliar_above=unfamiliar_above(novelty.scores(topics_BH)))
    proba_BC = np.ones((len(unseen), len(classes)))
    if len(classes) > 1:
        label_N, true_B = (each.label_numbers(classes) for each in (learned.photographs, unseen))
        known = np.flatnonzero(true_B >= 0)
        svm, machine = choose_machine(
            references,
            label_N,
            len(classes),
            photographs.take(known),
            true_B[known],
            partial(options.progress, TUNING),
        )
        scores_BC = machine.scores(photographs)
        temperature = fit_temperature(scores_BC[known], true_B[known])
        proba_BC = softmax(scores_BC / temperature, axis=1)
        choices = replace(choices, svm=svm, temperature=temperature)
    head = tag_head(network)
    scores_BA = head.scores(topics_BH)
    votes, present_BA = (
        fit_votes(learned.photographs, vocabulary),
        present_tags(unseen.tags, vocabulary),
    )
    if votes is not None and present_BA.any():
        votes, scores_BA = _choose_votes(
            votes, head, scores_BA, photographs, frequency_A, present_BA
        )
        choices = replace(choices, vote_spread=votes.spread, vote_weight=votes.weight)
    offset = head.expected_offset(frequency_A)
    return _measure(choices, proba_BC, scores_BA, unseen, classes, vocabulary, frequency_A, offset)


def _choose_votes(
    votes: TagVotes,
    head: TagHead,
    scores_BA: Floats,
    photographs: Compared,
    frequency_A: Floats,
    present_BA: NDArray[np.bool_],
) -> tuple[TagVotes, Floats]:
    """Return the votes with the best F-measure of the five best tags, and the scores with them."""
    found = []
    for spread in SPREADS:
        share_BA = replace(votes, spread=spread).shares(photographs.distance_BN, frequency_A)
        for weight in VOTE_WEIGHTS:
            mixed_BA = head.add_votes(scores_BA, share_BA, weight)
            f_value = f_measure(top_ranked(mixed_BA, N_TAGS), present_BA)
            found.append((replace(votes, spread=spread, weight=weight), mixed_BA, f_value))
    votes, mixed_BA, _ = max(found, key=lambda each: each[2])
    return votes, mixed_BA


def _measure(
    choices: Choices,
    proba_BC: Floats,
    scores_BA: Floats,
    held_out: Photographs,
    classes: Sequence[str],
    vocabulary: AnnotationVocabulary,
    frequency_A: Floats,
    expected_offset: float,
) -> tuple[Choices, HeldOut]:
    """Fit the thresholds of classes and tags, and measure the selected model.

    Parameters
    ----------
    proba_BC, scores_BA : probabilities of classes, and scores of tags.
    expected_offset : as for `fit_tags`.
    """
    metrics: dict[str, float] = {}
    if classes:
        true_B = held_out.label_numbers(classes)
        known = np.flatnonzero(true_B >= 0)
        confidence = proba_BC[known].max(axis=1)
        correct = proba_BC[known].argmax(axis=1) == true_B[known]
        choices = replace(choices, unsure_below=unsure_below(confidence, correct))
        metrics |= class_metrics(class_sums(confidence, correct))
    presence_BA = np.empty(scores_BA.shape)
    if len(vocabulary):
        calibration, tag_results = _calibrate_tags(
            scores_BA, held_out, vocabulary, frequency_A, expected_offset
        )
        choices, metrics = replace(choices, tags=calibration), metrics | tag_results
        presence_BA = calibration.probability(scores_BA, frequency_A)
    top_BX = top_ranked(scores_BA, N_TAGS)
    images = []
    for row, tags in enumerate(held_out.tags):
        number = int(proba_BC[row].argmax()) if classes else None
        images.append(
            HeldOutImage(
                name=held_out.names[row],
                label=held_out.labels[row],
                predicted=None if number is None else classes[number],
                probability=None if number is None else float(proba_BC[row, number]),
                tags=None if tags is None else tuple(tags),
                given=tuple((vocabulary.names[a], float(presence_BA[row, a])) for a in top_BX[row]),
            )
        )
    return choices, HeldOut(metrics=metrics, images=tuple(images))


def _calibrate_tags(
    scores_BA: Floats,
    held_out: Photographs,
    vocabulary: AnnotationVocabulary,
    frequency_A: Floats,
    expected_offset: float,
) -> tuple[TagCalibration, dict[str, float]]:
    """Return the calibration of the probabilities of tags, and the metrics of tags."""
    known = held_out.tagged_B
    scores_BA, present_BX = scores_BA[known], present_tags(held_out.tags, vocabulary)[known]
    present_BA = present_BX[:, : len(vocabulary)]
    calibration = fit_tags(scores_BA, frequency_A, present_BA, expected_offset)
    if not known.any():
        return calibration, {}
    probability_BA = calibration.probability(scores_BA, frequency_A)
    chosen_BA, top_BX = probability_BA >= calibration.threshold, top_ranked(scores_BA, N_TAGS)
    of_all, of_each_A = precise_thresholds(probability_BA, present_BA, calibration.threshold)
    calibration = replace(
        calibration,
        precise_threshold=of_all,
        precise_thresholds=dict(zip(vocabulary.names, of_each_A.tolist(), strict=True)),
    )
    return calibration, tag_metrics(tag_sums(top_BX, chosen_BA, probability_BA, present_BX))
