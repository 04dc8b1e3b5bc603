"""How well a scene model does on photographs whose classes and tags are known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.datasets.records import ImageRecord
from supdocnade.encoding.many import LeftOut
from supdocnade.errors import InvalidArgument
from supdocnade.metrics import f_measure
from supdocnade.scene.calibration import calibration_error, f_of_sets
from supdocnade.scene.model import SceneModel
from supdocnade.scene.photographs import from_records
from supdocnade.scene.predictions import Prediction
from supdocnade.scene.ranking import TOP, present_tags
from supdocnade.words.annotations import AnnotationVocabulary


@dataclass(frozen=True, eq=False, kw_only=True)
class Measured:
    """Figures of a model; None where nothing is known to compare with."""

    n_images: int
    """Photographs that could be read."""
    n_labelled: int = 0
    accuracy: float | None = None
    """Share of the labelled photographs whose class is right; classes that the model does not know
    count as mistakes."""
    n_unknown_classes: int = 0
    """Photographs of such classes."""
    class_calibration_error: float | None = None
    n_unsure: int = 0
    accuracy_of_sure: float | None = None
    """Of the labelled photographs that the model is not unsure of."""
    n_tagged: int = 0
    """Photographs that have at least one tag."""
    f_measure: float | None = None
    """Of the five best tags, as in the paper; tags that the model does not know count as missed."""
    f_measure_of_given: float | None = None
    """Of the tags that the model gives, as many as it likes."""
    tag_calibration_error: float | None = None
    confusion: dict[str, dict[str, int]]
    """How many photographs of every class were given every class."""
    left_out: tuple[LeftOut, ...] = ()


def measure_photographs(
    model: SceneModel,
    records: Sequence[ImageRecord],
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> Measured:
    """Let a model look at photographs, and compare.

    Parameters
    ----------
    records : photographs with labels, tags or both; what is not known of one is left out.
    on_progress : called with the number of photographs done and of all.
    """
    found: list[Prediction] = []
    left_out: list[LeftOut] = []
    read: list[ImageRecord] = []
    answers = model.iter_predictions([record.path for record in records], on_error="skip")
    for number, (record, answer) in enumerate(zip(records, answers, strict=True), start=1):
        if isinstance(answer, LeftOut):
            left_out.append(answer)
        else:
            read.append(record)
            found.append(answer)
        if on_progress is not None:
            on_progress(number, len(records))
    if not found:
        raise InvalidArgument("there must be a photograph that can be read, got none.")
    figures = {**_classes(read, found), **_tags(model, read, found)}
    if not figures:
        raise InvalidArgument(
            "there is nothing to compare with: the photographs must have classes or tags, "
            "and the model must know some."
        )
    return Measured(n_images=len(found), left_out=tuple(left_out), **{"confusion": {}, **figures})


def _classes(read: Sequence[ImageRecord], found: Sequence[Prediction]) -> dict[str, Any]:
    pairs = [
        (record.label, answer)
        for record, answer in zip(read, found, strict=True)
        if record.label is not None and answer.label is not None
    ]
    if not pairs:
        return {}
    right = np.array([label == answer.label for label, answer in pairs], np.bool_)
    sure = np.array([not answer.unsure for _, answer in pairs], np.bool_)
    confidence = np.array([answer.probability for _, answer in pairs], np.float64)
    confusion: dict[str, dict[str, int]] = {}
    for label, answer in pairs:
        row = confusion.setdefault(label, dict.fromkeys(answer.probabilities, 0))
        row[str(answer.label)] += 1
    return {
        "n_labelled": len(pairs),
        "accuracy": float(right.mean()),
        "n_unknown_classes": sum(label not in answer.probabilities for label, answer in pairs),
        "class_calibration_error": calibration_error(confidence, right),
        "n_unsure": int((~sure).sum()),
        "accuracy_of_sure": float(right[sure].mean()) if sure.any() else None,
        "confusion": dict(sorted(confusion.items())),
    }


def _tags(
    model: SceneModel, read: Sequence[ImageRecord], found: Sequence[Prediction]
) -> dict[str, Any]:
    vocabulary = AnnotationVocabulary(tuple(model.tag_names_.tolist()))
    known = [number for number, record in enumerate(read) if record.tags is not None]
    if not len(vocabulary) or not any(read[number].tags for number in known):
        return {}
    present = present_tags(from_records([read[number] for number in known]), vocabulary)
    answers = [found[number] for number in known]
    place = {name: number for number, name in enumerate(vocabulary.names)}
    top = np.array([[place[tag] for tag, _ in each.ranked_tags[:TOP]] for each in answers])
    chosen = np.zeros_like(present)
    probability_BA: NDArray[np.float64] = np.zeros((len(answers), len(vocabulary)))
    for row, each in enumerate(answers):
        chosen[row, [place[tag] for tag, _ in each.tags]] = True
        for tag, probability in each.ranked_tags:
            probability_BA[row, place[tag]] = probability
    tagged = present.any(axis=1)
    inside = present[:, : len(vocabulary)]
    return {
        "n_tagged": int(tagged.sum()),
        "f_measure": f_measure(top, present).value,
        "f_measure_of_given": float(f_of_sets(chosen, present)[tagged].mean()),
        "tag_calibration_error": calibration_error(probability_BA.ravel(), inside.ravel()),
    }
