"""Reports on scene models and on models of texts: HTML files without scripts or external resources.

Everything about a scene model comes from the model, so the photographs are not needed. The same
model, and texts, give the same bytes.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray

from supdocnade.folders.tags import normalize_tag
from supdocnade.metrics import share_interval, top_ranked
from supdocnade.report.evaluation import (
    class_results,
    frequent_confusions,
    held_out_confusion,
    share,
    tag_results,
)
from supdocnade.report.frequencies import (
    N_CLASSES,
    describe_classes,
    describe_topics,
    jpeg_uri,
    topic_frequencies,
)
from supdocnade.scene.calibration import HeldOutImage
from supdocnade.scene.novelty import MARKED_UNKNOWN
from supdocnade.scene.prediction import FittedScene
from supdocnade.scene.suggestion import CONFIDENT
from supdocnade.scene.thumbnails import Thumbnails
from supdocnade.storage import write_atomically
from supdocnade.text import clean_name, shorten_name

if TYPE_CHECKING:
    from supdocnade.estimators.text_model import TextModel
    from supdocnade.folders.texts import Texts

TITLE = "Model report"
MAX_MATRIX, MAX_CONFUSIONS = 60, 8
"""Classes of the largest confusion matrix that is still readable, and confusions that are named."""

FIRST_SHOWN = 24
"""Predictions of a kind that are shown at once; the others unfold."""

COVER, IN_CARD = 60, 4
"""Photographs at the head, and of a class."""

N_DOCUMENTS, EXCERPT = 3, 220
"""Documents that are shown with a topic of texts, and characters of a document."""

MAX_RATIO = 50
"""A larger ratio of two shares is shown as "> 50 ×": few photographs determine it."""

METRICS = (
    "f_measure",
    "f_measure_of_given",
    "tag_f1",
    "tag_precision",
    "tag_recall",
    "n_tags_found",
    "n_tags_present",
    "n_tagged",
    "class_calibration_error",
    "tag_calibration_error",
)
"""Metrics that are shown where they could be measured."""


def write_report(
    fitted: FittedScene,
    path: str | os.PathLike[str],
    *,
    title: str = TITLE,
) -> None:
    """Write one HTML file about a model.

    Parameters
    ----------
    path : of the file; it is replaced as a whole or not at all.
    """
    page = render_report(fitted, title=title)
    write_atomically(Path(path), page.encode("utf-8", "replace"))


def render_report(fitted: FittedScene, *, title: str = TITLE) -> str:
    """Return the page about a model.

    The arguments are those of `write_report`.
    """
    classes = [
        {**each, "photographs": _right(fitted, each["label"])[:IN_CARD]}
        for each in describe_classes(fitted)
    ]
    has_cards = any(each["photographs"] or each["tags"] for each in classes)
    return (
        create_environment()
        .get_template("report.html")
        .render(
            title=title,
            fitted=fitted,
            classes=classes if has_cards else [],
            topics=_topic_cards(fitted),
            cover=_cover(fitted),
            n_regions=fitted.encoder.regions.n_regions,
            n_words=fitted.encoder.n_words,
            settings=_settings(fitted),
            choices=_choices(fitted),
            marked_unknown=MARKED_UNKNOWN[
                "sift" if fitted.words.settings.features == "sift" else "network"
            ],
            **_held_out(fitted),
        )
    )


def create_environment() -> Environment:
    """Return the templates of reports and their filters."""
    environment = Environment(
        loader=PackageLoader("supdocnade.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": _percent, "number": _number, "plain": clean_name}
    environment.filters["ratio"] = _ratio
    return environment


def _held_out(fitted: FittedScene) -> dict[str, Any]:
    """Return everything about the held-out photographs."""
    images, classes = fitted.held_out.images, fitted.classes
    confusion = held_out_confusion(images, classes)
    matrix = [list(row.values()) for row in confusion.values()]
    n_labelled = sum(map(sum, matrix))
    accuracy = share(sum(row[label] for label, row in confusion.items()), n_labelled)
    comparable = len(classes) > 1 and n_labelled > 0
    cards = [_prediction_card(fitted.thumbnails, image) for image in images]
    cards = [each for each in cards if each["picture"] is not None]
    wrong = [each for each in cards if each["right"] is False]
    wrong.sort(key=lambda each: -(each["image"].probability or 0.0))
    untagged = [each for each in cards if _missing_tag(each) >= CONFIDENT and each not in wrong]
    untagged.sort(key=lambda each: -_missing_tag(each))
    others = [each for each in cards if each not in wrong and each not in untagged]
    groups = {
        "wrong": wrong,
        "untagged": untagged,
        "right": [each for each in others if each["right"]],
        "other": [each for each in others if each["right"] is None],
    }
    return {
        "metrics": dict.fromkeys(METRICS) | fitted.held_out.metrics,
        "accuracy": accuracy,
        "accuracy_interval": share_interval(accuracy["hits"], accuracy["total"]),
        "confusion": matrix if comparable and len(classes) <= MAX_MATRIX else None,
        "confusions": frequent_confusions(confusion, MAX_CONFUSIONS),
        "class_results": class_results(confusion) if comparable else (),
        "tag_results": _tag_results(fitted),
        "answers": groups,
        "first_shown": FIRST_SHOWN,
        "confident": CONFIDENT,
    }


def _tag_results(fitted: FittedScene) -> list[tuple[dict[str, Any], float]]:
    """Return tags with their frequency. Tags that no held-out photograph has come last."""
    if not any(image.tags is not None for image in fitted.held_out.images):
        return []
    found = tag_results(fitted.held_out.images, fitted.tag_names)
    pairs = list(zip(found, fitted.tag_frequency_A.tolist(), strict=True))
    return sorted(pairs, key=lambda pair: (pair[0]["recall"]["total"] == 0, -pair[1]))


def _prediction_card(examples: Thumbnails, image: HeldOutImage) -> dict[str, Any]:
    """Return a held-out photograph with its prediction, marked right or wrong."""
    picture = examples.picture(image.name)
    true = None if image.tags is None else {normalize_tag(tag) for tag in image.tags}
    given = {normalize_tag(tag) for tag, _ in image.given}
    return {
        "image": image,
        "name": PurePath(image.name).name,
        "picture": None if picture is None else jpeg_uri(picture),
        "right": image.right,
        "given": [
            (tag, p, None if true is None else normalize_tag(tag) in true) for tag, p in image.given
        ],
        "missed": sorted((true or set()) - given),
    }


def _missing_tag(card: dict[str, Any]) -> float:
    """Return the largest probability of a given tag that a photograph does not have, or 0."""
    return max((p for _, p, right in card["given"] if right is False), default=0.0)


def _cover(fitted: FittedScene) -> list[tuple[str, str]]:
    """Return captions and pictures of a few photographs for the head.

    There is one of each class that was answered rightly, with its name. With fewer than two such
    classes the captions are the names of the files.
    """
    examples = fitted.thumbnails
    shown = [
        (label, pictures[0]) for label in fitted.classes if (pictures := _right(fitted, label))
    ]
    if len(shown) < 2:
        named = [(PurePath(name).name, examples.picture(name)) for name in examples.names[:8]]
        return [(name, jpeg_uri(picture)) for name, picture in named if picture is not None]
    return shown[:COVER]


def _right(fitted: FittedScene, label: str) -> list[str]:
    """Return pictures of the held-out photographs of a class with a right answer, surest first."""
    images = [each for each in fitted.held_out.images if each.right and each.label == label]
    images.sort(key=lambda each: -(each.probability or 0.0))
    pictures = map(fitted.thumbnails.picture, (each.name for each in images))
    return [jpeg_uri(picture) for picture in pictures if picture is not None]


def _topic_cards(fitted: FittedScene) -> list[dict[str, Any]]:
    """Return the topics that have example photographs, with these."""
    topics, examples = describe_topics(fitted, *topic_frequencies(fitted)), fitted.thumbnails
    return [
        {
            **topics[number],
            "photographs": [
                (PurePath(name).name, jpeg_uri(picture))
                for name in names
                if (picture := examples.picture(name)) is not None
            ],
        }
        for number, names in examples.topics.items()
    ]


def _settings(fitted: FittedScene) -> list[tuple[str, str]]:
    return [(name, _value(value)) for name, value in fitted.used_settings().items()]


def _choices(fitted: FittedScene) -> list[tuple[str, str]]:
    choices = asdict(fitted.choices)
    svm, tags = choices.pop("svm"), choices.pop("tags") or {}
    tags.pop("precise_thresholds", None)  # One per tag, which `supdocnade info` lists.
    values = choices | {f"tags.{name}": value for name, value in tags.items()}
    if fitted.class_head is not None:
        values |= {f"svm.{name}": value for name, value in svm.items()}
    return [(name, _value(value)) for name, value in values.items()]


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f}\u202f%"


def _ratio(share: float, elsewhere: float | None) -> str:
    """Return how many times more often something occurs than elsewhere."""
    if elsewhere is None:
        return ""
    if elsewhere == 0:
        return "all here"
    ratio = share / elsewhere
    if ratio > MAX_RATIO:
        return f"> {MAX_RATIO}\u202f×"
    return f"{ratio:.0f}\u202f×" if ratio >= 10 else f"{ratio:.1f}\u202f×"


def _number(value: float) -> str:
    return f"{value:,}"


def render_text_report(
    model: "TextModel",
    texts: "Texts",
    topics_BR: NDArray[np.floating],
    coherence_R: NDArray[np.floating],
    settings: Sequence[tuple[str, str]],
    title: str,
) -> str:
    """Return the page about a model of texts.

    Parameters
    ----------
    texts, topics_BR : the documents of the fit and their topics, (documents, topics).
    coherence_R : coherence of every topic.
    settings : names and values to list.
    """
    strongest_B = topics_BR.argmax(axis=1)
    n_documents_R = np.bincount(strongest_B, minlength=topics_BR.shape[1])
    largest = max((each.correlation for words in model.words for each in words), default=1.0)
    cards: list[dict[str, Any]] = [
        {
            "number": topic,
            "words": [(each.word, each.correlation / max(largest, 1e-9)) for each in words],
            "n_documents": int(n_documents_R[topic]),
            "share": n_documents_R[topic] / len(topics_BR),
            "coherence": float(coherence_R[topic]),
            "documents": _documents(texts, topics_BR[:, topic]),
            "classes": _classes(texts, np.flatnonzero(strongest_B == topic)),
        }
        for topic, words in enumerate(model.words)
    ]
    # Topics that are the strongest of many documents come first.
    cards.sort(key=lambda card: (-card["n_documents"], card["number"]))
    return (
        create_environment()
        .get_template("text_report.html")
        .render(
            title=title,
            metrics=dict.fromkeys(("accuracy", "n_labelled")) | dict(model.metrics),
            n_documents=len(texts.texts),
            n_words=len(model.vocabulary),
            classes=getattr(model.estimator, "classes_", ()),
            topics=cards,
            settings=settings,
        )
    )


def _documents(texts: "Texts", topic_B: NDArray[np.floating]) -> list[tuple[str, str]]:
    """Return names and beginnings of the documents that have most of a topic."""
    rows = top_ranked(topic_B[None], N_DOCUMENTS)[0].tolist()
    return [
        (texts.names[row], shorten_name(" ".join(texts.texts[row].split()), EXCERPT))
        for row in rows
        if topic_B[row] > 0
    ]


def _classes(texts: "Texts", rows: NDArray[np.int64]) -> list[tuple[str, float]]:
    """Return the most frequent labels of some documents, with their shares."""
    labels = [label for label in (texts.labels[row] for row in rows) if label is not None]
    counts = sorted(Counter(labels).items(), key=lambda pair: (-pair[1], pair[0]))
    return [(label, count / len(labels)) for label, count in counts[:N_CLASSES]]
