"""Selection on held-out photographs: epochs, classifier, temperature, and ranking of tags."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

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
    TagCalibration,
    fit_tags,
    fit_temperature,
    mean_probability,
    precise_thresholds,
    unsure_below,
)
from supdocnade.scene.class_heads import allowed_heads
from supdocnade.scene.dataset import Photographs, TrainingSet
from supdocnade.scene.heads import ClassHead, TagHead
from supdocnade.scene.held_out import Choices, HeldOut, HeldOutImage
from supdocnade.scene.novelty import choose_novelty, fit_novelty, unfamiliar_above
from supdocnade.scene.settings import SceneSettings
from supdocnade.scene.tag_heads import TAG_HEADS, tag_head
from supdocnade.scene.tag_ranking import (
    choose_class_weight,
    photograph_tag_shares,
    present_tags,
    tag_frequency,
)

Floats = NDArray[np.float64]

TUNING = "tuning the classifier"
"""Stage that is reported with the number of classifiers tried."""


class Candidate(NamedTuple):
    """A topic model after some number of epochs, and its topics."""

    n_epochs: int
    network: NetworkArrays
    hidden_BH: NDArray[np.float32]
    """Topics of the photographs it was fitted on."""
    held_out_BH: NDArray[np.float32]
    """Topics of the held-out photographs."""
    tag_head: TagHead


class Selected(NamedTuple):
    """A candidate with the values chosen for it."""

    score: float
    choices: Choices
    class_scores_BC: Floats | None
    """Scores of the classes for the held-out photographs."""
    tag_scores_BA: Floats
    tag_head: TagHead


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


def make_candidate(
    network: NetworkArrays, n_epochs: int, part: TrainingSet, held_out: TrainingSet
) -> Candidate:
    """Return a network with the topics of photographs.

    Parameters
    ----------
    part : photographs it was fitted on.
    held_out : held-out photographs.
    """
    return Candidate(
        n_epochs=n_epochs,
        network=network,
        hidden_BH=topic_features(network, part.counts, part.features_BF),
        held_out_BH=topic_features(network, held_out.counts, held_out.features_BF),
        tag_head=tag_head(network),
    )


def select_candidate(
    candidates: Sequence[Candidate],
    training: Photographs,
    held_out: Photographs,
    vocabulary: AnnotationVocabulary,
    classifier: str,
    *,
    options: RunOptions = RunOptions(),
    approximate: bool = False,
) -> Selected:
    """Return the candidate and classifier with the best probabilities of true classes and tags.

    The score is the sum of `mean_probability` and the F-measure (whichever exist). On a tie, prefer
    more epochs.

    Parameters
    ----------
    classifier : name of a classifier, or "auto" for the best.
    approximate : as for `ClassHead.fit`.
    """
    classes = training.classes
    present = present_tags(held_out, vocabulary)
    share_CA = photograph_tag_shares(training, classes, vocabulary)
    can_compare = any(label in classes for label in held_out.labels)
    heads = allowed_heads(classifier, len(classes), can_compare=can_compare)
    novelty_name = choose_novelty(training.labels)
    found = []
    for number, each in enumerate(candidates):

        def report(done: int, total: int, before: int = number) -> None:
            options.progress(TUNING, before * total + done, len(candidates) * total)

        novelty = fit_novelty(novelty_name, each.hidden_BH, training.labels)
        choices = Choices(
            n_epochs=each.n_epochs,
            unfamiliar_above=unfamiliar_above(novelty.scores(each.held_out_BH)),
            novelty=novelty_name,
        )
        topic_scores_BA = each.tag_head.scores(each.held_out_BH)
        for head in heads or (None,):
            score, scores_BC, proba_BC = 0.0, None, None
            if head is not None:
                settings, scores_BC = _try_head(
                    head,
                    each,
                    training,
                    held_out,
                    on_fit=report,
                    n_jobs=options.n_jobs,
                    approximate=approximate,
                )
                score, temperature, proba_BC = _judge_classes(scores_BC, held_out, classes)
                choices = replace(
                    choices,
                    classifier=head.name,
                    classifier_settings=settings,
                    temperature=temperature,
                )
            weight, tag_scores_BA, f_value = choose_class_weight(
                each.tag_head, topic_scores_BA, proba_BC, share_CA, present
            )
            chosen = replace(choices, class_tag_weight=weight)
            found.append(Selected(score + f_value, chosen, scores_BC, tag_scores_BA, each.tag_head))
    return max(found, key=lambda each: (each.score, each.choices.n_epochs))


def _judge_classes(
    scores_BC: Floats, held_out: Photographs, classes: Sequence[str]
) -> tuple[float, float, Floats]:
    """Return the score and the temperature of a classifier, and its probabilities of classes.

    Parameters
    ----------
    scores_BC : scores of the held-out photographs.
    """
    true_B = held_out.label_numbers(classes)
    known = np.flatnonzero(true_B >= 0)
    temperature = fit_temperature(scores_BC[known], true_B[known])
    score = mean_probability(scores_BC[known], true_B[known])
    return score, temperature, softmax(scores_BC / temperature, axis=1)


def _try_head(
    head: type[ClassHead],
    candidate: Candidate,
    training: Photographs,
    held_out: Photographs,
    *,
    on_fit: Callable[[int, int], None],
    n_jobs: int | None,
    approximate: bool,
) -> tuple[Mapping[str, float], Floats]:
    """Return the best settings of a classifier, and its scores of held-out photographs.

    Parameters
    ----------
    on_fit, approximate : as for `ClassHead.choose`.
    """
    classes = training.classes
    label_B, true_B = (each.label_numbers(classes) for each in (training, held_out))
    labelled, known = np.flatnonzero(label_B >= 0), np.flatnonzero(true_B >= 0)
    documents = candidate.hidden_BH[labelled], label_B[labelled]
    settings = head.defaults
    if len(known):
        settings = head.choose(
            *documents,
            candidate.held_out_BH[known],
            true_B[known],
            len(classes),
            on_fit=on_fit,
            n_jobs=n_jobs,
            approximate=approximate,
        )
    fitted = head.fit(
        candidate.network, *documents, settings, n_jobs=n_jobs, approximate=approximate
    )
    return settings, fitted.scores(candidate.held_out_BH)


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
        figures |= class_figures(class_sums(confidence, correct))
    calibration = _measure_tags(selected, held_out, vocabulary, frequency_A, figures)
    choices = replace(selected.choices, unsure_below=threshold, tags=calibration)
    presence_BA = np.empty(selected.tag_scores_BA.shape)
    if calibration is not None:
        presence_BA = calibration.probability(selected.tag_scores_BA, frequency_A)
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
    if not len(vocabulary):
        return None
    known = np.array([tags is not None for tags in held_out.tags], np.bool_)
    present = present_tags(held_out, vocabulary)[known]
    scores_BA = selected.tag_scores_BA[known]
    offset = selected.tag_head.expected_offset(frequency_A)
    calibration = fit_tags(scores_BA, frequency_A, present[:, : len(vocabulary)], offset)
    if not known.any():
        return calibration
    probability_BA = calibration.probability(scores_BA, frequency_A)
    chosen = probability_BA >= calibration.threshold
    top_BX = top_ranked(scores_BA, N_TAGS)
    figures |= tag_figures(tag_sums(top_BX, chosen, probability_BA, present))
    of_all, of_each_A = precise_thresholds(
        probability_BA, present[:, : len(vocabulary)], calibration.threshold
    )
    return replace(
        calibration,
        precise_threshold=of_all,
        precise_thresholds=dict(zip(vocabulary.names, of_each_A.tolist(), strict=True)),
    )
