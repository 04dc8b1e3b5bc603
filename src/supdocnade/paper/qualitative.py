"""Classes and their words, and some predictions, right and wrong (experiment 5).

What is written as text may be shown to anyone. Pictures are made of the photographs themselves and
stay in the folder of the study.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from supdocnade.estimators.bag_of_visual_words import BagOfVisualWords
from supdocnade.images.decode import write_image
from supdocnade.paper.answers import questions_of
from supdocnade.paper.data_sets import data_set
from supdocnade.paper.plans import F_MEASURE, SUP
from supdocnade.paper.study import Study
from supdocnade.storage import write_atomically

SHOWN = "shown.json"
N_SHOWN = 4
"""Photographs classified rightly, and as many wrongly."""

_GAP = 2


def write_shown(study: Study) -> None:
    """Write what the page shows of a data set with tags; nothing for one without."""
    variants = [
        each
        for each in study.plan.variants
        if each.method == SUP and each.recipe == "paper" and each.chosen_for == F_MEASURE
    ]
    if not variants:
        return
    question = questions_of(study, variants[0], 0)[-1]
    answer = study.answer(question.key(study))
    assert answer is not None, "answers are complete before they are shown"
    classes = {
        label: answer["classes"][label]
        for label in data_set(study.photos.dataset).shown
        if label in answer["classes"]
    }
    tags = variants[0].tags
    assert tags is not None
    shown = {"tags": tags, "classes": classes, "examples": _examples(study, answer, tags)}
    text = json.dumps(shown, indent=1, ensure_ascii=False)
    write_atomically(study.folder / SHOWN, text.encode() + b"\n")
    patches = study.folder / "patches.safetensors"
    if patches.is_file():
        _draw_words(patches, classes, study.folder / "pictures")


def _examples(study: Study, answer: dict[str, Any], tags: str) -> list[dict[str, Any]]:
    """Return some test photographs with what was said of them: right ones, then wrong ones."""
    test = study.protocol.parts(0).test
    predicted, (given, _, names) = np.array(answer["predicted"]), study.photos.annotations(tags)
    right = predicted == study.label_B[test]
    # Spread over the classes, which are in order.
    chosen = [
        place
        for each in (np.flatnonzero(right), np.flatnonzero(~right))
        for place in each[np.linspace(0, len(each) - 1, min(N_SHOWN, len(each))).astype(int)]
    ]
    return [
        {
            "photograph": study.photos.names[test[place]],
            "class": study.photos.labels[test[place]],
            "predicted": study.photos.classes[predicted[place]],
            "tags": sorted(names[tag] for tag in given[[test[place]]].indices),
            "predicted_tags": [names[tag] for tag in answer["top_tags"][place]],
        }
        for place in chosen
    ]


def _draw_words(patches: Path, classes: dict[str, Any], folder: Path) -> None:
    """Draw the visual words of every class: a row a word, of patches that belong to it."""
    bag = BagOfVisualWords.load(patches)
    for label, found in classes.items():
        rows = [bag.example_patches(word) for word in found["words"]]
        widest, side = max(map(len, rows)), rows[0].shape[1] + _GAP
        sheet = np.full((len(rows) * side, widest * side, 3), 255, np.uint8)
        for row, some in enumerate(rows):
            for column, patch in enumerate(some):
                sheet[
                    row * side : (row + 1) * side - _GAP, column * side : (column + 1) * side - _GAP
                ] = patch
        write_image(folder / f"{label}.png", sheet)
