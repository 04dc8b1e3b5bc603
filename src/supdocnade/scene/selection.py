"""Selection on held-out photographs: epochs, classifier, temperature, and ranking of tags."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.metrics import (
    N_TAGS,
    class_figures,
    class_sums,
    tag_figures,
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
    mean_probability,
    precise_thresholds,
    unsure_below,
)
from supdocnade.scene.class_heads import allowed_heads
from supdocnade.scene.dataset import Photographs, TrainingSet
from supdocnade.scene.heads import ClassHead
from supdocnade.scene.novelty import fit_novelty, unfamiliar_above
from supdocnade.scene.settings import SceneSettings
from supdocnade.scene.tag_heads import (
    TAG_HEADS,
    choose_class_weight,
    photograph_tag_shares,
    present_tags,
    tag_frequency,
    tag_head,
)

Floats = NDArray[np.float64]
Topics = NDArray[np.float32]
Numbers = NDArray[np.int64]

TUNING = "tuning the classifier"
"""Stage that is reported with the number of classifiers tried."""


def default_choices(data: TrainingSet, settings: SceneSettings) -> Choices:
    """Return the choices if no photographs are held out: the uncalibrated model."""
    vocabulary = AnnotationVocabulary.of(data.photographs.tags, min_count=settings.min_tag_count)
    calibration = None
    if len(vocabulary):
        nothing = np.empty((0, len(vocabulary)))
        frequency_A = tag_frequency(data.photographs, vocabulary)
        offset = TAG_HEADS[str(settings.annotation_output)].expected_offset(frequency_A)
        calibration = fit_tags(nothing, frequency_A, nothing > 0, offset)
    choices = Choices(n_epochs=settings.max_epochs, tags=calibration)
    n_classes = len(data.photographs.classes)
    for head in allowed_heads(settings.classifier, n_classes, can_compare=False):
        choices = replace(choices, classifier=head.name, classifier_settings=head.defaults)
    return choices


def choose_on_held_out(
    networks: Mapping[int, NetworkArrays],
    training: TrainingSet,
    held_out: TrainingSet,
    vocabulary: AnnotationVocabulary,
    frequency_A: Floats,
    classifier: str,
    *,
    options: RunOptions = RunOptions(),
    approximate: bool = False,
) -> tuple[Choices, HeldOut]:
    """Return the best choices, and the results on held-out photographs with them.

    The best network and classifier have the largest sum of `mean_probability` of true classes and
    F-measure of tags (whichever exist). On a tie, prefer more epochs.

    Parameters
    ----------
    networks : topic models by their numbers of epochs.
    training : photographs that the networks were fitted on.
    frequency_A : (tags,) share of the training photographs that have each tag.
    classifier : name of a classifier, or "auto" for the best.
    approximate : as for `ClassHead.fit`.
    """
    seen, unseen = training.photographs, held_out.photographs
    classes = seen.classes
    labels = seen.label_numbers(classes), unseen.label_numbers(classes)
    heads = allowed_heads(classifier, len(classes), can_compare=bool((labels[1] >= 0).any()))
    present_BA = present_tags(unseen.tags, vocabulary)
    share_CA = photograph_tag_shares(seen, classes, vocabulary)
    found = []
    for number, (n_epochs, network) in enumerate(networks.items()):
        topics = (
            topic_features(network, training.counts, training.features_BF),
            topic_features(network, held_out.counts, held_out.features_BF),
        )
        novelty = fit_novelty(topics[0], seen.labels)
        limit = unfamiliar_above(novelty.scores(topics[1]))
        choices = Choices(n_epochs=n_epochs, unfamiliar_above=limit)
        outputs = tag_head(network)
        topic_scores_BA = outputs.scores(topics[1])

        def report(done: int, total: int, before: int = number) -> None:
            options.progress(TUNING, before * total + done, len(networks) * total)

        for head in heads or (None,):
            score, proba_BC = 0.0, np.empty((len(unseen), 0))
            if head is not None:
                values, score, proba_BC = _try_head(
                    head,
                    network,
                    topics,
                    labels,
                    on_fit=report,
                    n_jobs=options.n_jobs,
                    approximate=approximate,
                )
                choices = replace(choices, **values)
            weight, scores_BA, f_value = choose_class_weight(
                outputs, topic_scores_BA, proba_BC, share_CA, present_BA
            )
            choices = replace(choices, class_tag_weight=weight)
            found.append((score + f_value, choices, proba_BC, scores_BA))
    _, choices, proba_BC, scores_BA = max(found, key=lambda each: (each[0], each[1].n_epochs))
    offset = outputs.expected_offset(frequency_A)
    return _measure(choices, proba_BC, scores_BA, unseen, classes, vocabulary, frequency_A, offset)


def _try_head(
    head: type[ClassHead],
    network: NetworkArrays,
    topics: tuple[Topics, Topics],
    labels: tuple[Numbers, Numbers],
    *,
    on_fit: Callable[[int, int], None],
    n_jobs: int | None,
    approximate: bool,
) -> tuple[dict[str, Any], float, Floats]:
    """Return values of `Choices` for a classifier, its score, and its probabilities of classes.

    Parameters
    ----------
    topics, labels : of the training photographs and of the held-out ones.
    on_fit, approximate : as for `ClassHead.choose`.
    """
    labelled, known = (np.flatnonzero(label_B >= 0) for label_B in labels)
    documents = topics[0][labelled], labels[0][labelled]
    true_N = labels[1][known]
    settings = head.defaults
    if len(known):
        settings = head.choose(
            *documents,
            topics[1][known],
            true_N,
            network.n_classes,
            on_fit=on_fit,
            n_jobs=n_jobs,
            approximate=approximate,
        )
    fitted = head.fit(network, *documents, settings, n_jobs=n_jobs, approximate=approximate)
    scores_BC = fitted.scores(topics[1])
    temperature = fit_temperature(scores_BC[known], true_N)
    values = {
        "classifier": head.name,
        "classifier_settings": settings,
        "temperature": temperature,
    }
    score = mean_probability(scores_BC[known], true_N)
    return values, score, softmax(scores_BC / temperature, axis=1)


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
    figures: dict[str, float] = {}
    if classes:
        true_B = held_out.label_numbers(classes)
        known = np.flatnonzero(true_B >= 0)
        confidence = proba_BC[known].max(axis=1)
        correct = proba_BC[known].argmax(axis=1) == true_B[known]
        choices = replace(choices, unsure_below=unsure_below(confidence, correct))
        figures |= class_figures(class_sums(confidence, correct))
    presence_BA = np.empty(scores_BA.shape)
    if len(vocabulary):
        calibration, tag_results = _calibrate_tags(
            scores_BA, held_out, vocabulary, frequency_A, expected_offset
        )
        choices, figures = replace(choices, tags=calibration), figures | tag_results
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
    return choices, HeldOut(figures=figures, images=tuple(images))


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
    return calibration, tag_figures(tag_sums(top_BX, chosen_BA, probability_BA, present_BX))
