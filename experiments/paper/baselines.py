"""SVMs on counts and taggers, on the words, splits and held-out photographs of our models."""

from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from experiments.paper.kernel_svm import (
    Kernel,
    best_svm,
    chi2_kernel,
    intersection_kernel,
    predict_svm,
    rbf_kernel,
    score_svms,
)
from experiments.paper.plans import (
    BASELINES,
    CHI2_SVM,
    FREQUENT,
    FREQUENT_OF_CLASS,
    INTERSECTION_SVM,
    LOGISTIC,
    RBF_SVM,
    SPATIAL_PYRAMID,
    TAG_BASELINES,
    baseline_grid,
)
from experiments.paper.protocol import Parts
from experiments.paper.study import Study
from experiments.paper.words import GRIDS
from supdocnade.metrics import N_TAGS, f_measure, top_ranked
from supdocnade.runs import RunOptions
from supdocnade.threads import one_blas_thread

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
MakeKernel = Callable[[Indices, Indices], Kernel]
"""Maps the indices of training photographs and of others to their kernel."""

LOGISTIC_C = (1e-4, 1e-3, 1e-2, 1e-1)
N_NEIGHBOURS = (5, 10, 20, 40)


def baseline_key(name: str, recipe: str, split: int, tags: str | None = None) -> str:
    """Return the key of the prediction of a baseline."""
    kind = f"tags{TAG_BASELINES.index(name)}-{tags}" if tags else f"class{BASELINES.index(name)}"
    return f"baseline-{recipe}-{split}-{kind}"


def run_baselines(study: Study, options: RunOptions = RunOptions()) -> None:
    """Make the predictions of baselines that are missing."""
    plan, splits = study.plan, range(study.plan.n_splits)
    classes: list[tuple[Any, ...]] = [(*each, split) for split in splits for each in plan.baselines]
    tags: list[tuple[Any, ...]] = [
        (name, recipe, split, tag_set)
        for split in splits
        for name, recipe, tag_set in plan.tag_baselines
    ]
    total, done = len(classes) + len(tags), 0
    # Tags of the predicted class need the classes that an SVM predicted.
    for function, jobs in ((_classify, classes), (_annotate, tags)):
        missing = [job for job in jobs if study.prediction(baseline_key(*job)) is None]
        done += len(jobs) - len(missing)
        workers = Parallel(n_jobs=options.n_jobs, prefer="threads", return_as="generator_unordered")
        for _ in workers(delayed(function)(study, *job) for job in missing):
            done += 1
            options.progress("baselines", done, total)


def _classify(study: Study, name: str, recipe: str, split: int) -> None:
    make_kernel = _kernel_maker(study, name, recipe, split)
    prediction = classify(study, study.protocol.parts(split), make_kernel)
    study.write_prediction(baseline_key(name, recipe, split), prediction)


def classify(study: Study, parts: Parts, make_kernel: MakeKernel) -> dict[str, Any]:
    """Choose an SVM on the held-out photographs; classify them and the test photographs."""
    labels = study.label_B
    kernel = make_kernel(parts.fit, parts.held)
    C, gamma, accuracy = best_svm(score_svms(kernel, labels[parts.fit], labels[parts.held]))
    held = predict_svm(kernel, labels[parts.fit], C, gamma)
    test_kernel = make_kernel(parts.train, parts.test)
    return {
        "predicted": predict_svm(test_kernel, labels[parts.train], C, gamma).tolist(),
        "predicted_held": held.tolist(),
        "params": {"C": C, "gamma": gamma, "held_out": round(accuracy, 4)},
    }


def _kernel_maker(study: Study, name: str, recipe: str, split: int) -> MakeKernel:
    grid = baseline_grid(name, study.plan.recipes[recipe].grid)
    words = study.words(recipe, split)
    if name in (SPATIAL_PYRAMID, INTERSECTION_SVM):
        weights = pyramid_weights(words.n_words) if name == SPATIAL_PYRAMID else None
        counts = words.counts(GRIDS[grid])
        return lambda train, other: intersection_kernel(counts[train], counts[other], weights)
    histograms = study.histograms(recipe, split, grid)
    if name == RBF_SVM:
        roots = np.sqrt(histograms)
        return lambda train, other: rbf_kernel(roots[train], roots[other])
    assert name == CHI2_SVM
    return lambda train, other: chi2_kernel(histograms[train], histograms[other])


def pyramid_weights(n_words: int) -> Floats:
    """Return the weights of the columns of a pyramid of three levels: 1/4, 1/4 and 1/2.

    (Lazebnik, Schmid and Ponce 2006, equation 3.)
    """
    cells = [rows * columns for rows, columns in GRIDS["pyramid"]]
    return np.repeat([0.25, 0.25, 0.5], np.array(cells) * n_words)


def _annotate(study: Study, name: str, recipe: str, split: int, tag_set: str) -> None:
    parts = study.protocol.parts(split)
    tag_BA: Floats = study.photos.tag_counts(tag_set)[0].toarray().astype(np.float64)
    params: dict[str, Any] = {}
    if name == FREQUENT:
        scores = np.tile(tag_BA[parts.train].sum(axis=0), (len(parts.test), 1))
    elif name == FREQUENT_OF_CLASS:
        predicted = study.prediction(baseline_key(RBF_SVM, recipe, split))
        assert predicted is not None, "classes are predicted before tags"
        scores = _class_frequencies(study, parts, tag_BA)[np.array(predicted["predicted"])]
        params = {"classes": RBF_SVM}
    else:
        roots = np.sqrt(study.histograms(recipe, split, study.plan.recipes[recipe].grid))
        tagger, grid = (_logistic, LOGISTIC_C) if name == LOGISTIC else (_neighbours, N_NEIGHBOURS)
        scores, params = _choose_tagger(parts, roots, tag_BA, tagger, grid)
    prediction = {"top_tags": top_ranked(scores, N_TAGS).tolist(), "params": params}
    study.write_prediction(baseline_key(name, recipe, split, tag_set), prediction)


def _class_frequencies(study: Study, parts: Parts, tag_BA: Floats) -> Floats:
    """Return the frequency of every tag among the training photographs of every class, (C, A)."""
    labels, tags = study.label_B[parts.train], tag_BA[parts.train]
    # Overall frequencies break the ties of a class.
    overall = tags.mean(axis=0) * 1e-6
    classes = range(len(study.photos.classes))
    return np.stack([tags[labels == each].mean(axis=0) + overall for each in classes])


def _choose_tagger(
    parts: Parts,
    values_BD: Floats,
    tag_BA: Floats,
    tagger: Callable[[Floats, Floats, Floats, Any], Floats],
    grid: tuple[Any, ...],
) -> tuple[Floats, dict[str, Any]]:
    """Choose the setting of a tagger on the held-out photographs; return the test scores."""
    f_measures = []
    for setting in grid:
        scores = tagger(values_BD[parts.fit], tag_BA[parts.fit], values_BD[parts.held], setting)
        f_measures.append(f_measure(top_ranked(scores, N_TAGS), tag_BA[parts.held] > 0))
    chosen = grid[int(np.argmax(f_measures))]
    scores = tagger(values_BD[parts.train], tag_BA[parts.train], values_BD[parts.test], chosen)
    return scores, {"setting": chosen, "held_out": round(max(f_measures), 4)}


@one_blas_thread()  # Hundreds of small fits, which threads make slower.
def _logistic(train: Floats, tags: Floats, other: Floats, C: float) -> Floats:
    """Return the log-odds of every tag, by one logistic regression per tag."""
    scaler = StandardScaler().fit(train)
    train, other = scaler.transform(train), scaler.transform(other)
    if train.shape[1] > len(train):
        # The weights lie in the span of the photographs: a rotation only saves time.
        axes = np.linalg.svd(train, full_matrices=False)[2].T
        train, other = train @ axes, other @ axes
    scores = np.empty((len(other), tags.shape[1]))
    for column in range(tags.shape[1]):
        present = tags[:, column] > 0
        if present.all() or not present.any():
            scores[:, column] = np.inf if present.all() else -np.inf
            continue
        model = LogisticRegression(C=C, max_iter=1000).fit(train, present)
        scores[:, column] = model.decision_function(other)
    return np.nan_to_num(scores, posinf=1e9, neginf=-1e9)


def _neighbours(train: Floats, tags: Floats, other: Floats, k: int) -> Floats:
    """Return the weight of every tag among the nearest photographs by cosine similarity."""
    nearest = NearestNeighbors(n_neighbors=min(k, len(train)), metric="cosine").fit(train)
    distance, index = nearest.kneighbors(other)
    # Nearer ones count a little more, which also breaks ties.
    weight = 1.0 - distance + 1e-9
    scores: Floats = (weight[:, :, None] * tags[index]).sum(axis=1)
    return scores
