"""Choosing on photographs held out: epochs, the SVM, temperature, and what ranks tags."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import softmax

from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.metrics import evaluate_classes, evaluate_tags, top_ranked
from supdocnade.run_options import RunOptions
from supdocnade.scene.calibration import (
    TagCalibration,
    fit_tags,
    fit_temperature,
    mean_probability,
    unsure_below,
)
from supdocnade.scene.dataset import Photographs
from supdocnade.scene.prediction import Choices, class_scores, tag_log_proba
from supdocnade.scene.svm import choose_svm, fit_svm
from supdocnade.scene.tags import TOP, present_tags, rank_tags, shares_of
from supdocnade.scene.training_set import HeldOut, HeldOutImage
from supdocnade.training.checkpoint import set_parameters

Floats = NDArray[np.float64]

DEFAULT_C, DEFAULT_GAMMA = 10.0, 1.0
"""Where there is nothing held out to choose them on."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidate:
    """A topic model after some number of epochs, and what it makes of the photographs."""

    n_epochs: int
    hidden_BH: NDArray[np.float32]
    """Topics of the photographs it was fitted on, and after them, where it was fitted on those,
    too, of their mirror images."""
    unseen_BH: NDArray[np.float32]
    """Topics of those held out."""
    head_BC: Floats | None
    """What its own softmax says of those held out."""
    tag_log_p_BA: Floats

    @classmethod
    def of(
        cls,
        topics: Any,
        parameters: Any,
        n_epochs: int,
        seen: sparse.csr_array,
        unseen: sparse.csr_array,
    ) -> "Candidate":
        """Look at a model with the parameters it had after some epochs."""
        set_parameters(topics.network_, parameters)
        hidden_BH = topics.transform(unseen)
        has_classes = hasattr(topics, "classes_")
        return cls(
            n_epochs=n_epochs,
            hidden_BH=topics.transform(seen),
            unseen_BH=hidden_BH,
            head_BC=class_scores(topics, None, hidden_BH) if has_classes else None,
            tag_log_p_BA=tag_log_proba(topics, hidden_BH),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluated:
    """The best of some candidates."""

    score: float
    n_epochs: int
    C: float | None
    gamma: float | None
    temperature: float
    class_tag_weight: float
    classes: tuple[str, ...]
    class_scores_BC: Floats | None
    tag_scores_BA: Floats
    tuned: dict[str, float]


def choose(
    candidates: Sequence[Candidate],
    seen: Photographs,
    unseen: Photographs,
    vocabulary: AnnotationVocabulary,
    classifier: str,
    *,
    tuned: dict[str, float],
    options: RunOptions = RunOptions(),
    stage: str = "choosing",
) -> Evaluated:
    """Return the candidate with the best probabilities of the right classes and the best tags.

    Its score is the sum of `mean_probability` and of the F-measure, whichever there are; of equals
    the latest is taken.

    Parameters
    ----------
    stage : reported to `options.progress` with the number of SVMs tried.
    """
    classes = tuple(seen.classes)
    n_sides = len(candidates[0].hidden_BH) // len(seen)
    numbers, wanted = seen.label_numbers(classes), unseen.label_numbers(classes)
    numbers = np.tile(numbers, n_sides)
    labelled, asked = np.flatnonzero(numbers >= 0), np.flatnonzero(wanted >= 0)
    present = present_tags(unseen, vocabulary)
    share_CA = shares_of(seen, classes, vocabulary)
    found = []
    for number, each in enumerate(candidates):
        C = gamma = scores_BC = proba_BC = None

        def report(done: int, total: int, before: int = number) -> None:
            options.progress(stage, before * total + done, len(candidates) * total)

        score, temperature = 0.0, 1.0
        if classes:
            scores_BC = each.head_BC
            if classifier == "svm" and len(classes) > 1:
                hidden, y = each.hidden_BH[labelled], numbers[labelled]
                C, gamma = DEFAULT_C, DEFAULT_GAMMA
                if len(asked):
                    C, gamma, _ = choose_svm(
                        hidden,
                        y,
                        each.unseen_BH[asked],
                        wanted[asked],
                        len(classes),
                        n_jobs=options.n_jobs,
                        on_fit=report,
                    )
                svm = fit_svm(hidden, y, len(classes), C=C, gamma=gamma, n_jobs=options.n_jobs)
                scores_BC = svm.decide(each.unseen_BH)
            assert scores_BC is not None, "a model with classes has a softmax"
            temperature = fit_temperature(scores_BC[asked], wanted[asked])
            proba_BC = softmax(scores_BC / temperature, axis=1)
            if len(asked):
                score += mean_probability(scores_BC[asked], wanted[asked])
        ranked = rank_tags(each.tag_log_p_BA, proba_BC, share_CA, present)
        score += ranked.f_measure
        found.append(
            Evaluated(
                score=score,
                n_epochs=each.n_epochs,
                C=C,
                gamma=gamma,
                temperature=temperature,
                class_tag_weight=ranked.weight,
                classes=classes,
                class_scores_BC=scores_BC,
                tag_scores_BA=ranked.scores_BA,
                tuned=tuned,
            )
        )
    return max(found, key=lambda each: (each.score, each.n_epochs))


# How well the model that was chosen did on photographs held out, and what is learned of that:
# the confidence below which it is unsure, and the probabilities and the threshold of tags.


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
        figures |= evaluate_classes(confidence, right)
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
    calibration = fit_tags(scores_BA, frequency_A, present[:, : len(vocabulary)])
    probability_BA = calibration.probability(scores_BA, frequency_A)
    chosen = probability_BA >= calibration.threshold
    figures |= evaluate_tags(top_ranked(scores_BA, TOP), chosen, probability_BA, present)
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
