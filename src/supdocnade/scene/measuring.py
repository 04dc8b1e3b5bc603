"""How well the model that was chosen did on photographs held out, and what is learned of that:
the confidence below which it is unsure, and the probabilities and the threshold of tags."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from supdocnade.metrics import f_measure, top_ranked
from supdocnade.scene.calibration import (
    TagCalibration,
    calibration_error,
    f_of_sets,
    fit_tags,
    unsure_below,
)
from supdocnade.scene.choosing import Evaluated
from supdocnade.scene.fitted import Choices, HeldOut, HeldOutImage
from supdocnade.scene.photographs import Photographs
from supdocnade.scene.ranking import TOP, present_tags
from supdocnade.words.annotations import AnnotationVocabulary

Floats = NDArray[np.float64]


def measure(
    best: Evaluated,
    unseen: Photographs,
    vocabulary: AnnotationVocabulary,
    frequency_A: Floats,
) -> tuple[Choices, HeldOut]:
    """Learn temperature and thresholds, and say how well the chosen model did."""
    figures: dict[str, float] = {}
    below = 0.0
    confusion = probability_BC = None
    if best.class_scores_BC is not None:
        wanted = unseen.label_numbers(best.classes)
        asked = np.flatnonzero(wanted >= 0)
        probability_BC = softmax(best.class_scores_BC / best.temperature, axis=1)
        predicted = probability_BC[asked].argmax(axis=1)
        confidence, right = probability_BC[asked].max(axis=1), predicted == wanted[asked]
        confusion = np.zeros((len(best.classes),) * 2, np.int64)
        np.add.at(confusion, (wanted[asked], predicted), 1)
        if len(asked):
            below = unsure_below(confidence, right)
            figures["accuracy"] = float(right.mean())
            figures["n_labelled"] = len(asked)
            figures["class_calibration_error"] = calibration_error(confidence, right)
    tags = _measure_tags(best, unseen, vocabulary, frequency_A, figures)
    choices = Choices(
        n_epochs=best.n_epochs,
        C=best.C,
        gamma=best.gamma,
        temperature=best.temperature,
        unsure_below=below,
        class_tag_weight=best.class_tag_weight,
        tags=tags,
        tuned=best.tuned,
    )
    images = _images(best, unseen, vocabulary, frequency_A, probability_BC, tags)
    held_out = HeldOut(n_images=len(unseen), figures=figures, confusion_CC=confusion, images=images)
    return choices, held_out


def _measure_tags(
    best: Evaluated,
    unseen: Photographs,
    vocabulary: AnnotationVocabulary,
    frequency_A: Floats,
    figures: dict[str, float],
) -> TagCalibration | None:
    known = np.array([tags is not None for tags in unseen.tags], np.bool_)
    if not len(vocabulary) or not known.any():
        return None
    present = present_tags(unseen, vocabulary)[known]
    scores_BA = best.tag_scores_BA[known]
    inside = present[:, : len(vocabulary)]
    calibration = fit_tags(scores_BA, frequency_A, inside)
    probability_BA = calibration.probability(scores_BA, frequency_A)
    figures["n_tagged"] = int(present.any(axis=1).sum())
    figures["tag_calibration_error"] = calibration_error(probability_BA.ravel(), inside.ravel())
    tagged = present.any(axis=1)
    if tagged.any():
        figures["f_measure"] = f_measure(top_ranked(scores_BA, TOP), present).value
        chosen = np.zeros_like(present)
        chosen[:, : len(vocabulary)] = probability_BA >= calibration.threshold
        figures["f_measure_of_given"] = float(f_of_sets(chosen, present)[tagged].mean())
    return calibration


def _images(
    best: Evaluated,
    unseen: Photographs,
    vocabulary: AnnotationVocabulary,
    frequency_A: Floats,
    probability_BC: Floats | None,
    tags: TagCalibration | None,
) -> tuple[HeldOutImage, ...]:
    top = top_ranked(best.tag_scores_BA, TOP)
    presence = np.exp(best.tag_scores_BA)
    if tags is not None:
        presence = tags.probability(best.tag_scores_BA, frequency_A)
    images = []
    for row in range(len(unseen)):
        label = probability = None
        if probability_BC is not None:
            number = int(probability_BC[row].argmax())
            label, probability = best.classes[number], float(probability_BC[row, number])
        given = tuple((vocabulary.names[a], float(presence[row, a])) for a in top[row])
        true = unseen.tags[row]
        images.append(
            HeldOutImage(
                name=unseen.names[row],
                label=unseen.labels[row],
                predicted=label,
                probability=probability,
                tags=None if true is None else tuple(true),
                given=given,
            )
        )
    return tuple(images)
