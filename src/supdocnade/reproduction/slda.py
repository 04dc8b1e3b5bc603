"""Supervised LDA by tomotopy: one binary response a class, not the paper's multiclass sLDA."""

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

from supdocnade.reproduction.study import Study

METHOD = "sLDA (binary responses, not the paper's multiclass sLDA)"


def is_available() -> bool:
    """Whether tomotopy is installed."""
    return find_spec("tomotopy") is not None


def slda_key(split: int, n_topics: int) -> str:
    """Return the name of an answer."""
    return f"slda-{split}-{n_topics}"


def missing_slda(study: Study) -> list[tuple[int, int]]:
    """Return the splits and numbers of topics for which there is no answer."""
    asked = [(s, n) for s in study.plan.slda_splits for n in study.plan.slda_topics]
    return [each for each in asked if study.answer(slda_key(*each)) is None]


def run_slda(
    study: Study, *, n_jobs: int | None = None, on_progress: Callable[[int, int], None]
) -> None:
    """Find the answers that are missing; without tomotopy there are none."""
    asked = [(s, n) for s in study.plan.slda_splits for n in study.plan.slda_topics]
    for number, (split, n_topics) in enumerate(asked):
        key = slda_key(split, n_topics)
        if study.answer(key) is None and is_available():
            study.write_answer(key, _answer(study, split, n_topics, n_jobs))
        on_progress(number + 1, len(asked))


def _answer(study: Study, split: int, n_topics: int, n_jobs: int | None) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Of how tomotopy was compiled.
        import tomotopy
    parts, n_classes = study.protocol.parts(split), len(study.photos.classes)
    (counts,) = study.counts("paper", split, "2×2")
    response = np.eye(n_classes)[study.label_B]
    # Gibbs sampling is reproducible with one worker alone.
    model = tomotopy.SLDAModel(k=n_topics, vars="b" * n_classes, seed=split)
    for place in parts.train:
        model.add_doc(_words(counts, place), response[place].tolist())
    model.train(study.plan.slda_iterations, workers=1)
    documents = [model.make_doc(_words(counts, place)) for place in parts.test]
    model.infer(documents, workers=1)
    score = np.array([model.estimate(document) for document in documents])
    return {
        "predicted": score.argmax(axis=1).tolist(),
        "params": {"iterations": study.plan.slda_iterations, "tomotopy": tomotopy.__version__},
    }


def _words(counts: sparse.csr_array, place: int) -> list[str]:
    row = counts[[place]]
    return [str(word) for word in np.repeat(row.indices, row.data)]
