"""Selection on held-out photographs: epochs, SVM, temperature, and ranking of tags."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.metrics import (
    N_TAGS,
    evaluate_classes,
    evaluate_tags,
    top_ranked,
)
from supdocnade.model.inference import NetworkArrays, class_scores, topic_features
from supdocnade.run_options import RunOptions
from supdocnade.scene.calibration import (
    TagCalibration,
    fit_tags,
    fit_temperature,
    mean_probability,
    precise_thresholds,
    tag_presence,
    unsure_below,
)
from supdocnade.scene.dataset import Photographs, TrainingSet
from supdocnade.scene.held_out import Choices, HeldOut, HeldOutImage
from supdocnade.scene.novelty import choose_novelty, fit_novelty, unfamiliar_above
from supdocnade.scene.settings import SceneSettings
from supdocnade.scene.svm import choose_svm, fit_svm
from supdocnade.scene.tag_ranking import (
    choose_class_weight,
    photograph_tag_shares,
    present_tags,
    tag_frequency,
    topic_tag_scores,
)

Floats = NDArray[np.float64]

DEFAULT_C, DEFAULT_GAMMA = 10.0, 1.0
"""Values of the SVM if there are no held-out photographs to choose them on."""


TUNING = "tuning the classifier"
"""Stage that is reported with the number of SVMs tried."""


class Candidate(NamedTuple):
    """Outputs of a topic model after some number of epochs."""

    n_epochs: int
    hidden_BH: NDArray[np.float32]
    """Topics of the photographs it was fitted on."""
    held_out_BH: NDArray[np.float32]
    """Topics of the held-out photographs."""
    softmax_BC: Floats | None
    """log p(class) of the held-out photographs by the network's own softmax."""
    tag_log_p_BA: Floats
    """log p(tag) of the held-out photographs, renormalised over all tags, or their log odds."""
    log_odds: bool = False
    """True with log odds."""


class Selected(NamedTuple):
    """A candidate with the values chosen for it."""

    score: float
    choices: Choices
    class_scores_BC: Floats | None
    """Scores of the classes for the held-out photographs."""
    tag_scores_BA: Floats
    log_odds: bool = False
    """True if the scores of tags are log odds."""


def default_choices(data: TrainingSet, settings: SceneSettings) -> Choices:
    """Return the choices if no photographs are held out: the uncalibrated model."""
    vocabulary = AnnotationVocabulary.of(data.photographs.tags, min_count=settings.min_tag_count)
    calibration = None
    if len(vocabulary):
        nothing = np.empty((0, len(vocabulary)))
        frequency_A = tag_frequency(data.photographs, vocabulary)
        logistic = settings.annotation_output == "sigmoid"
        calibration = fit_tags(nothing, frequency_A, nothing > 0, log_odds=logistic)
    if settings.classifier == "softmax":
        return Choices(n_epochs=settings.max_epochs, tags=calibration)
    return Choices(n_epochs=settings.max_epochs, C=DEFAULT_C, gamma=DEFAULT_GAMMA, tags=calibration)


def make_candidate(
    network: NetworkArrays, n_epochs: int, part: TrainingSet, held_out: TrainingSet
) -> Candidate:
    """Return the outputs of a network.

    Parameters
    ----------
    part : photographs it was fitted on.
    held_out : held-out photographs.
    """
    held_out_BH = topic_features(network, held_out.counts, held_out.features_BF)
    return Candidate(
        n_epochs=n_epochs,
        hidden_BH=topic_features(network, part.counts, part.features_BF),
        held_out_BH=held_out_BH,
        softmax_BC=class_scores(network, held_out_BH) if network.n_classes else None,
        tag_log_p_BA=topic_tag_scores(network, held_out_BH),
        log_odds=bool(network.config.n_tag_outputs),
    )


def select_candidate(
    candidates: Sequence[Candidate],
    training: Photographs,
    held_out: Photographs,
    vocabulary: AnnotationVocabulary,
    classifier: str,
    *,
    options: RunOptions = RunOptions(),
    approximate_svm: bool = False,
) -> Selected:
    """Return the candidate and classifier with the best probabilities of true classes and tags.

    The score is the sum of `mean_probability` and the F-measure (whichever exist). On a tie, prefer
    more epochs.

    Parameters
    ----------
    classifier : "svm", "softmax", or "auto" for the better of both.
    approximate_svm : approximate the kernel of the SVMs, see `fit_svm`.
    """
    classes = training.classes
    label_B = training.label_numbers(classes)
    true_B = held_out.label_numbers(classes)
    known = np.flatnonzero(true_B >= 0)
    present = present_tags(held_out, vocabulary)
    share_CA = photograph_tag_shares(training, classes, vocabulary)
    fits_svm = classifier != "softmax" and len(classes) > 1
    fits_softmax = not fits_svm or (classifier == "auto" and len(known) > 0)
    novelty_name = choose_novelty(training.labels)
    found = []
    for number, each in enumerate(candidates):

        def report(done: int, total: int, before: int = number) -> None:
            options.progress(TUNING, before * total + done, len(candidates) * total)

        novelty = fit_novelty(novelty_name, each.hidden_BH, training.labels)
        novelty_B = novelty.scores(each.held_out_BH)
        classifiers: list[tuple[float | None, float | None, Floats | None]] = []
        if fits_softmax:
            classifiers.append((None, None, each.softmax_BC))
        if fits_svm:
            found_svm = _try_svms(
                each,
                label_B,
                true_B,
                len(classes),
                on_fit=report,
                n_jobs=options.n_jobs,
                approximate=approximate_svm,
            )
            classifiers.append(found_svm)
        for chosen_C, chosen_gamma, scores_BC in classifiers:
            score, temperature, proba_BC = _judge_classes(scores_BC, held_out, classes)
            weight, tag_scores_BA, f_value = choose_class_weight(
                each.tag_log_p_BA, proba_BC, share_CA, present, log_odds=each.log_odds
            )
            choices = Choices(
                n_epochs=each.n_epochs,
                C=chosen_C,
                gamma=chosen_gamma,
                temperature=temperature,
                unfamiliar_above=unfamiliar_above(novelty_B),
                novelty=novelty_name,
                class_tag_weight=weight,
            )
            found.append(
                Selected(score + f_value, choices, scores_BC, tag_scores_BA, each.log_odds)
            )
    return max(found, key=lambda each: (each.score, each.choices.n_epochs))


def _judge_classes(
    scores_BC: Floats | None, held_out: Photographs, classes: Sequence[str]
) -> tuple[float, float, Floats | None]:
    """Return the score and the temperature of a classifier, and its probabilities of classes.

    Parameters
    ----------
    scores_BC : scores of the held-out photographs, None without classes.
    """
    if scores_BC is None:
        return 0.0, 1.0, None
    true_B = held_out.label_numbers(classes)
    known = np.flatnonzero(true_B >= 0)
    temperature = fit_temperature(scores_BC[known], true_B[known])
    score = mean_probability(scores_BC[known], true_B[known])
    return score, temperature, softmax(scores_BC / temperature, axis=1)


def _try_svms(
    candidate: Candidate,
    label_B: NDArray[np.int64],
    true_B: NDArray[np.int64],
    n_classes: int,
    *,
    on_fit: Callable[[int, int], None],
    n_jobs: int | None,
    approximate: bool,
) -> tuple[float, float, Floats]:
    """Return C and γ of the best SVM on a candidate, and its scores of held-out photographs.

    Parameters
    ----------
    label_B, true_B : class numbers of the photographs that it was fitted on, and of the held-out
        ones; negative where unknown.
    on_fit, approximate : as for `choose_svm`.
    """
    labelled, known = np.flatnonzero(label_B >= 0), np.flatnonzero(true_B >= 0)
    documents = candidate.hidden_BH[labelled], label_B[labelled]
    C, gamma = DEFAULT_C, DEFAULT_GAMMA
    if len(known):
        held_out = candidate.held_out_BH[known], true_B[known]
        C, gamma, _ = choose_svm(
            *documents, *held_out, n_classes, n_jobs=n_jobs, on_fit=on_fit, approximate=approximate
        )
    svm = fit_svm(*documents, n_classes, C=C, gamma=gamma, n_jobs=n_jobs, approximate=approximate)
    return C, gamma, svm.decide(candidate.held_out_BH)


def measure_selected(
    selected: Selected,
    classes: Sequence[str],
    held_out: Photographs,
    vocabulary: AnnotationVocabulary,
    frequency_A: Floats,
) -> tuple[Choices, HeldOut]:
    """Fit the thresholds of classes and tags, and measure the selected model.

    Parameters
    ----------
    frequency_A : (tags,) share of the training photographs that have each tag.
    """
    figures: dict[str, float] = {}
    threshold = 0.0
    proba_BC = None
    if selected.class_scores_BC is not None:
        true_B = held_out.label_numbers(classes)
        known = np.flatnonzero(true_B >= 0)
        proba_BC = softmax(selected.class_scores_BC / selected.choices.temperature, axis=1)
        confidence = proba_BC[known].max(axis=1)
        correct = proba_BC[known].argmax(axis=1) == true_B[known]
        threshold = unsure_below(confidence, correct)
        figures |= evaluate_classes(confidence, correct)
    calibration = _measure_tags(selected, held_out, vocabulary, frequency_A, figures)
    choices = replace(selected.choices, unsure_below=threshold, tags=calibration)
    presence_BA = tag_presence(
        selected.tag_scores_BA, frequency_A, calibration, log_odds=selected.log_odds
    )
    top_BX = top_ranked(selected.tag_scores_BA, N_TAGS)
    images = []
    for row in range(len(held_out)):
        label = probability = None
        if proba_BC is not None:
            number = int(proba_BC[row].argmax())
            label, probability = classes[number], float(proba_BC[row, number])
        tags = held_out.tags[row]
        images.append(
            HeldOutImage(
                name=held_out.names[row],
                label=held_out.labels[row],
                predicted=label,
                probability=probability,
                tags=None if tags is None else tuple(tags),
                given=tuple((vocabulary.names[a], float(presence_BA[row, a])) for a in top_BX[row]),
            )
        )
    return choices, HeldOut(n_images=len(held_out), figures=figures, images=tuple(images))


def _measure_tags(
    selected: Selected,
    held_out: Photographs,
    vocabulary: AnnotationVocabulary,
    frequency_A: Floats,
    figures: dict[str, float],
) -> TagCalibration | None:
    """Calibrate the probabilities of tags, and add the figures of tags; None without tags."""
    known = np.array([tags is not None for tags in held_out.tags], np.bool_)
    if not len(vocabulary) or not known.any():
        return None
    present = present_tags(held_out, vocabulary)[known]
    scores_BA = selected.tag_scores_BA[known]
    calibration = fit_tags(
        scores_BA, frequency_A, present[:, : len(vocabulary)], log_odds=selected.log_odds
    )
    probability_BA = calibration.probability(scores_BA, frequency_A)
    chosen = probability_BA >= calibration.threshold
    figures |= evaluate_tags(top_ranked(scores_BA, N_TAGS), chosen, probability_BA, present)
    of_all, of_each_A = precise_thresholds(
        probability_BA, present[:, : len(vocabulary)], calibration.threshold
    )
    return replace(
        calibration,
        precise_threshold=of_all,
        precise_thresholds=dict(zip(vocabulary.names, of_each_A.tolist(), strict=True)),
    )
