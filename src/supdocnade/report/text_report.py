"""The report on a topic model of texts: one HTML file without scripts or external resources."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.estimators.text_model import TextModel
from supdocnade.folders.texts import Texts
from supdocnade.metrics import top_ranked
from supdocnade.report.html import create_environment
from supdocnade.text import shorten_name

N_DOCUMENTS, N_CLASSES, EXCERPT = 3, 3, 220
"""Documents and classes shown with a topic, and characters of a document."""


def render_text_report(
    model: TextModel,
    texts: Texts,
    topics_BR: NDArray[np.floating],
    coherence_R: NDArray[np.floating],
    settings: Sequence[tuple[str, str]],
    title: str,
) -> str:
    """Return the page about a model of texts; the same model and texts give the same bytes.

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
            figures=dict.fromkeys(("accuracy", "n_labelled")) | dict(model.figures),
            n_documents=len(texts.texts),
            n_words=len(model.vocabulary),
            classes=getattr(model.estimator, "classes_", ()),
            topics=cards,
            settings=settings,
        )
    )


def _documents(texts: Texts, topic_B: NDArray[np.floating]) -> list[tuple[str, str]]:
    """Return names and beginnings of the documents that have most of a topic."""
    rows = top_ranked(topic_B[None], N_DOCUMENTS)[0].tolist()
    return [
        (texts.names[row], shorten_name(" ".join(texts.texts[row].split()), EXCERPT))
        for row in rows
        if topic_B[row] > 0
    ]


def _classes(texts: Texts, rows: NDArray[np.int64]) -> list[tuple[str, float]]:
    """Return the most frequent labels of some documents, with their shares."""
    labels = [label for label in (texts.labels[row] for row in rows) if label is not None]
    counts = sorted(Counter(labels).items(), key=lambda pair: (-pair[1], pair[0]))
    return [(label, count / len(labels)) for label, count in counts[:N_CLASSES]]
