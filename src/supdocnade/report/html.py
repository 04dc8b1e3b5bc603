"""What a scene model has learned, in one HTML file that needs nothing else.

Everything comes from the model; the photographs may be gone. The page has no script and asks for
nothing: styles, pictures and charts are inside it. The same model gives the same bytes.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from sklearn.utils.validation import check_is_fitted

from supdocnade.folders.tags import normalize_tag
from supdocnade.report import evaluation as results
from supdocnade.report.charts import line_chart, region_chart, reliability_chart
from supdocnade.report.class_words import (
    Associations,
    ClassAssociations,
    class_associations,
    topic_associations,
)
from supdocnade.report.drawing import jpeg_uri, mosaic_uri
from supdocnade.scene.model import SceneModel
from supdocnade.scene.prediction import FittedScene
from supdocnade.scene.thumbnails import ExamplePhotographs, TopicExamples
from supdocnade.scene.training_set import HeldOutImage
from supdocnade.storage import write_atomically
from supdocnade.text import plain_name

TITLE = "What the model has learned"
MAX_MATRIX = 60
"""Classes; a larger table of confusions cannot be read."""

FIRST_SHOWN = 24
"""Answers of a kind that are shown at once; the others unfold."""

COVER, SPOKEN_FOR = 8, 3
"""Photographs at the head, and classes that are named with a topic."""

FIGURES = (
    "f_measure",
    "f_measure_of_given",
    "n_tagged",
    "class_calibration_error",
    "tag_calibration_error",
)
"""That are shown where they could be measured."""


@dataclass(frozen=True, kw_only=True)
class Word:
    """A visual word to be shown."""

    number: int
    picture: str
    regions: Markup | None


@dataclass(frozen=True, kw_only=True)
class ClassCard:
    """A class to be shown."""

    found: ClassAssociations
    n_images: int
    words: tuple[Word, ...]


@dataclass(frozen=True, kw_only=True)
class TopicCard:
    """A topic to be shown."""

    example: TopicExamples
    found: Associations
    words: tuple[Word, ...]
    photographs: tuple[tuple[str, str], ...]
    """Names and pictures."""
    classes: tuple[tuple[str, float], ...]
    """For which it speaks, with the weight in U."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A photograph that was held out, to be shown with what was said of it."""

    image: HeldOutImage
    name: str
    picture: str | None
    right: bool | None
    """Whether the label was; None where it is not known."""
    given: tuple[tuple[str, float, bool | None], ...]
    """Tags, their probabilities, and whether they are there."""
    missed: tuple[str, ...]


def write_report(
    model: SceneModel, path: str | os.PathLike[str], *, title: str | None = None
) -> None:
    """Write one HTML file about a model.

    Parameters
    ----------
    model : that is fitted.
    path : of the file; it is replaced as a whole or not at all.
    title : of the page.
    """
    write_atomically(Path(path), render_report(model, title=title).encode("utf-8", "replace"))


def render_report(model: SceneModel, *, title: str | None = None) -> str:
    """Return the page about a model.

    Parameters
    ----------
    model, title : as for `write_report`.
    """
    check_is_fitted(model, "fitted_")
    fitted: FittedScene = model.fitted_
    environment = Environment(
        loader=PackageLoader("supdocnade.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": _percent, "number": _number, "plain": plain_name}
    return environment.get_template("report.html").render(
        title=title or TITLE,
        fitted=fitted,
        classes=_class_cards(fitted),
        topics=_topic_cards(fitted),
        history=_history_chart(fitted),
        cover=_cover(fitted),
        n_regions=fitted.bag.encoder_.regions.n_regions,
        n_words=fitted.bag.encoder_.codebook.n_words,
        settings=_settings(model, fitted),
        choices=_choices(fitted),
        **_held_out(fitted),
    )


def _held_out(fitted: FittedScene) -> dict[str, Any]:
    """Return everything about the photographs held out."""
    images, classes = fitted.held_out.images, fitted.classes
    counts = results.confusion_matrix(images, classes)
    right = results.Share(hits=int(np.trace(counts)), total=int(counts.sum()))
    told_apart = len(classes) > 1 and right.total > 0
    class_bins, tag_bins = results.class_reliability(images), results.tag_reliability(images)
    answers = [_answer(fitted.examples, image) for image in images]
    answers = [each for each in answers if each.picture is not None]
    wrong = [each for each in answers if each.right is False]
    wrong.sort(key=lambda each: -(each.image.probability or 0.0))
    groups = {
        "wrong": wrong,
        "right": _by_turns([each for each in answers if each.right]),
        "other": [each for each in answers if each.right is None],
    }
    return {
        "figures": dict.fromkeys(FIGURES) | fitted.held_out.figures,
        "accuracy": right,
        "accuracy_interval": results.interval(right),
        "confusion": counts.tolist() if told_apart and len(classes) <= MAX_MATRIX else None,
        "confusions": results.frequent_confusions(counts, classes),
        "class_results": results.class_results(counts, classes) if told_apart else (),
        "tag_results": _tag_results(fitted),
        "class_reliability": _reliability(class_bins, "classes") if len(classes) > 1 else None,
        "tag_reliability": _reliability(tag_bins, "tags"),
        "answers": groups,
        "first_shown": FIRST_SHOWN,
    }


def _reliability(bins: Sequence[results.Bin], what: str) -> Markup | None:
    if not bins:
        return None
    said = "; ".join(
        f"said {100 * each.confidence:.0f} %, right {each.right.hits} of {each.right.total}"
        for each in bins
    )
    return reliability_chart(
        bins,
        title=f"Reliability of {what}: {said}.",
        x_label="probability that was given",
        y_label="share that was right",
    )


def _tag_results(fitted: FittedScene) -> list[tuple[results.Found, float]]:
    """Return tags with their frequency, those that were not among photographs held out last."""
    if not any(image.tags is not None for image in fitted.held_out.images):
        return []
    found = results.tag_results(fitted.held_out.images, fitted.tag_names)
    pairs = list(zip(found, fitted.tag_frequency_A.tolist(), strict=True))
    return sorted(pairs, key=lambda pair: (pair[0].recall.total == 0, -pair[1]))


def _answer(examples: ExamplePhotographs, image: HeldOutImage) -> Answer:
    picture = examples.picture(image.name)
    true = None if image.tags is None else {normalize_tag(tag) for tag in image.tags}
    said = {tag for tag, _ in image.given}
    known = image.label is not None and image.predicted is not None
    return Answer(
        image=image,
        name=PurePath(image.name).name,
        picture=None if picture is None else jpeg_uri(picture),
        right=image.label == image.predicted if known else None,
        given=tuple((tag, p, None if true is None else tag in true) for tag, p in image.given),
        missed=tuple(sorted((true or set()) - said)),
    )


def _by_turns(answers: Sequence[Answer]) -> list[Answer]:
    """Return the first of every class, then the second of every class, and so on."""
    turn: dict[str | None, int] = {}
    ranked = []
    for number, each in enumerate(answers):
        turn[each.image.label] = turn.get(each.image.label, 0) + 1
        ranked.append((turn[each.image.label], number, each))
    return [each for *_, each in sorted(ranked, key=lambda some: some[:2])]


def _cover(fitted: FittedScene) -> list[tuple[str, str]]:
    """Return names and pictures of a few photographs, one of each class, for the head."""
    examples = fitted.examples
    shown: dict[str, str] = {}
    for image in fitted.held_out.images:
        if image.label is not None and image.name in examples.names:
            shown.setdefault(image.label, image.name)
    if len(shown) < 2:
        shown = {f"{name} {number}": name for number, name in enumerate(examples.names)}
    step = max(len(shown) / COVER, 1.0)
    labels = list(shown)
    chosen = [labels[int(step * k)] for k in range(min(COVER, len(labels)))]
    pictures = [examples.picture(shown[label]) for label in chosen]
    return [
        (label if fitted.classes else "", jpeg_uri(picture))
        for label, picture in zip(chosen, pictures, strict=True)
        if picture is not None
    ]


def _class_cards(fitted: FittedScene) -> list[ClassCard]:
    counts = fitted.data.get("images_of_class", {})
    return [
        ClassCard(found=each, n_images=counts.get(each.label, 0), words=_words(fitted, each))
        for each in class_associations(fitted)
    ]


def _topic_cards(fitted: FittedScene) -> list[TopicCard]:
    cards = []
    weight = getattr(fitted.topics.network_, "label_weight", None)
    for example in fitted.examples.topics:
        found = topic_associations(fitted, [example.topic])
        spoken: list[tuple[str, float]] = []
        if weight is not None:
            column = weight.detach().numpy()[:, example.topic].tolist()
            spoken = sorted(zip(fitted.classes, column, strict=True), key=lambda pair: -pair[1])
        pictures = [(name, fitted.examples.picture(name)) for name in example.names]
        cards.append(
            TopicCard(
                example=example,
                found=found,
                words=_words(fitted, found),
                photographs=tuple(
                    (PurePath(name).name, jpeg_uri(picture))
                    for name, picture in pictures
                    if picture is not None
                ),
                classes=tuple(pair for pair in spoken[:SPOKEN_FOR] if pair[1] > 0),
            )
        )
    return cards


def _words(fitted: FittedScene, found: Associations) -> tuple[Word, ...]:
    grids = fitted.bag.encoder_.regions.grids
    several = len(grids) == 1 and grids[0] != (1, 1)
    return tuple(
        Word(
            number=each.word,
            picture=mosaic_uri(fitted.bag.example_patches(each.word)),
            regions=region_chart(each.region_weights, grids[0]) if several else None,
        )
        for each in found.words
    )


def _history_chart(fitted: FittedScene) -> Markup | None:
    losses = [record.loss for record in fitted.topics.history_.epochs]
    if not losses:
        return None
    return line_chart(
        losses,
        title=f"The objective fell from {losses[0]:.4g} to {losses[-1]:.4g} in "
        f"{len(losses)} epochs.",
        x_label="epoch",
        y_label="mean objective of a photograph",
    )


def _settings(model: SceneModel, fitted: FittedScene) -> list[tuple[str, str]]:
    values = {**asdict(fitted.settings), "random_state": model.random_state}
    return [(name, _value(value)) for name, value in values.items()]


def _choices(fitted: FittedScene) -> list[tuple[str, str]]:
    choices = asdict(fitted.choices)
    tags, tuned = choices.pop("tags") or {}, choices.pop("tuned")
    values = {**choices, **{f"tags.{name}": value for name, value in tags.items()}, **tuned}
    return [(name, _value(value)) for name, value in values.items()]


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f}\u202f%"


def _number(value: float) -> str:
    return f"{value:,}".replace(",", "\u202f")
