"""Methods without our topic models, on the same words and splits, chosen on the same hold-out."""

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from supdocnade.metrics import f_measure, top_ranked
from supdocnade.paper.answers import TOP
from supdocnade.paper.plans import (
    CHI2_SVM,
    FREQUENT,
    FREQUENT_OF_CLASS,
    INTERSECTION_SVM,
    LDA_SVM,
    LOGISTIC,
    RBF_SVM,
    SPATIAL_PYRAMID,
    TAG_YARDSTICKS,
    YARDSTICKS,
    yardstick_grid,
)
from supdocnade.paper.protocol import Parts
from supdocnade.paper.study import Study
from supdocnade.paper.svms import Kernel, best, chi2, intersection, predict_svm, rbf, try_svms
from supdocnade.paper.words import GRID_NAMES, PYRAMID

Floats = NDArray[np.float64]
MakeKernel = Callable[[NDArray[np.int64], NDArray[np.int64]], Kernel]
"""From the places to learn from and the places to ask about."""

LOGISTIC_C = (1e-4, 1e-3, 1e-2, 1e-1)
N_NEIGHBOURS = (5, 10, 20, 40)


def yardstick_key(name: str, recipe: str, split: int, tags: str | None = None) -> str:
    """Return the name of the answer of a yardstick."""
    kind = f"tags{TAG_YARDSTICKS.index(name)}-{tags}" if tags else f"class{YARDSTICKS.index(name)}"
    return f"yardstick-{recipe}-{split}-{kind}"


def run_yardsticks(
    study: Study,
    *,
    n_jobs: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> None:
    """Find the answers that are missing."""
    plan = study.plan
    wanted = [
        (yardstick_key(*each, split=split), split, each)
        for split in range(plan.n_splits)
        for each in plan.yardsticks
    ]
    wanted_tags = [
        (yardstick_key(name, recipe, split, tags), split, (name, recipe, tags))
        for split in range(plan.n_splits)
        for name, recipe, tags in plan.tag_yardsticks
    ]
    total, done = len(wanted) + len(wanted_tags), 0
    # Tags of the predicted class need the classes that an SVM predicted.
    for function, asked in ((_classify, wanted), (_tag, wanted_tags)):
        missing = [each for each in asked if study.answer(each[0]) is None]
        done += len(asked) - len(missing)
        workers = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered")
        for _ in workers(delayed(function)(study, *each) for each in missing):
            done += 1
            if on_progress is not None:
                on_progress(done, total)


def _classify(study: Study, key: str, split: int, which: tuple[str, str]) -> None:
    name, recipe = which
    parts = study.protocol.parts(split)
    study.write_answer(key, classify(study, parts, _kernels(study, name, recipe, split, parts)))


def classify(study: Study, parts: Parts, make: MakeKernel) -> dict[str, Any]:
    """Choose an SVM on the photographs held out; classify them and the test photographs."""
    label = study.label_B
    kernel = make(parts.fit, parts.held)
    chosen = best(try_svms(kernel, label[parts.fit], label[parts.held]))
    held = predict_svm(kernel, label[parts.fit], chosen.C, chosen.gamma)
    final = make(parts.train, parts.test)
    predicted = predict_svm(final, label[parts.train], chosen.C, chosen.gamma)
    return {
        "predicted": predicted.tolist(),
        "predicted_held": held.tolist(),
        "params": {"C": chosen.C, "gamma": chosen.gamma, "held_out": round(chosen.accuracy, 4)},
    }


def _kernels(study: Study, name: str, recipe: str, split: int, parts: Parts) -> MakeKernel:
    grid = yardstick_grid(name, study.plan.recipes[recipe].grid)
    if name in (SPATIAL_PYRAMID, INTERSECTION_SVM):
        words = study.words(recipe, split)
        weight = pyramid_weights(words.n_words) if name == SPATIAL_PYRAMID else None
        sparse_counts = words.counts(GRID_NAMES[grid])
        return lambda learn, ask: intersection(sparse_counts[learn], sparse_counts[ask], weight)
    if name == LDA_SVM:
        # Sparse: with a dense matrix scikit-learn goes through the words that are not there, too.
        sparse_counts = study.words(recipe, split).counts(GRID_NAMES[grid])
        return _topic_kernels(study, sparse_counts, parts, split)
    counts = study.histograms(recipe, split, grid)
    if name == RBF_SVM:
        roots = np.sqrt(counts)
        return lambda learn, ask: rbf(roots[learn], roots[ask])
    assert name == CHI2_SVM
    return lambda learn, ask: chi2(counts[learn], counts[ask])


def _topic_kernels(study: Study, counts: sparse.csr_array, parts: Parts, split: int) -> MakeKernel:
    lda = LatentDirichletAllocation(
        study.plan.lda_topics, max_iter=study.plan.lda_passes, random_state=split
    ).fit(counts[parts.train])  # It sees no labels: what is held out stays unseen in what matters.
    shares = lda.transform(counts)
    return lambda learn, ask: rbf(shares[learn], shares[ask], standardise=True)


def pyramid_weights(n_words: int) -> Floats:
    """Return the weights of the columns of a pyramid of three levels: 1/4, 1/4 and 1/2.

    (Lazebnik, Schmid and Ponce 2006, equation 3.)
    """
    cells = [rows * columns for rows, columns in PYRAMID]
    return np.repeat([0.25, 0.25, 0.5], np.array(cells) * n_words)


def _tag(study: Study, key: str, split: int, which: tuple[str, str, str]) -> None:
    name, recipe, tags = which
    parts = study.protocol.parts(split)
    tag_BA: Floats = study.photos.annotations(tags).annotations.toarray().astype(np.float64)
    if name == FREQUENT:
        score = np.tile(tag_BA[parts.train].sum(axis=0), (len(parts.test), 1))
        answer = {"top_tags": top_ranked(score, TOP).tolist(), "params": {}}
    elif name == FREQUENT_OF_CLASS:
        predicted = study.answer(yardstick_key(RBF_SVM, recipe, split))
        assert predicted is not None, "classes are predicted before tags"
        score = _by_class(study, parts, tag_BA)[np.array(predicted["predicted"])]
        answer = {"top_tags": top_ranked(score, TOP).tolist(), "params": {"classes": RBF_SVM}}
    else:
        roots = np.sqrt(study.histograms(recipe, split, study.plan.recipes[recipe].grid))
        tagger, grid = (_logistic, LOGISTIC_C) if name == LOGISTIC else (_neighbours, N_NEIGHBOURS)
        answer = _chosen_tagger(parts, roots, tag_BA, tagger, grid)
    study.write_answer(key, answer)


def _by_class(study: Study, parts: Parts, tag_BA: Floats) -> Floats:
    """Return how often every tag is on photographs of every class, (classes, tags)."""
    label = study.label_B[parts.train]
    classes = range(len(study.photos.classes))
    # The whole part's frequencies settle what a class leaves equal.
    overall = tag_BA[parts.train].mean(axis=0) * 1e-6
    return np.stack([tag_BA[parts.train][label == each].mean(axis=0) + overall for each in classes])


def _chosen_tagger(
    parts: Parts,
    values_BD: Floats,
    tag_BA: Floats,
    tagger: Callable[[Floats, Floats, Floats, Any], Floats],
    grid: tuple[Any, ...],
) -> dict[str, Any]:
    """Choose the setting of a tagger on the photographs held out, and tag those of the test."""
    found = []
    for setting in grid:
        score = tagger(values_BD[parts.fit], tag_BA[parts.fit], values_BD[parts.held], setting)
        found.append(f_measure(top_ranked(score, TOP), tag_BA[parts.held] > 0).value)
    chosen = grid[int(np.argmax(found))]
    score = tagger(values_BD[parts.train], tag_BA[parts.train], values_BD[parts.test], chosen)
    params = {"setting": chosen, "held_out": round(max(found), 4)}
    return {"top_tags": top_ranked(score, TOP).tolist(), "params": params}


def _logistic(learn: Floats, tags: Floats, ask: Floats, C: float) -> Floats:
    """Return the log-odds of every tag by a logistic regression of its own."""
    scaler = StandardScaler().fit(learn)
    learn, ask = scaler.transform(learn), scaler.transform(ask)
    if learn.shape[1] > len(learn):
        # The weights lie in the span of the photographs: turned axes change nothing but the time.
        axes = np.linalg.svd(learn, full_matrices=False)[2].T
        learn, ask = learn @ axes, ask @ axes
    score = np.empty((len(ask), tags.shape[1]))
    for column in range(tags.shape[1]):
        present = tags[:, column] > 0
        if present.all() or not present.any():
            score[:, column] = np.inf if present.all() else -np.inf
            continue
        model = LogisticRegression(C=C, max_iter=1000).fit(learn, present)
        score[:, column] = model.decision_function(ask)
    return np.nan_to_num(score, posinf=1e9, neginf=-1e9)


def _neighbours(learn: Floats, tags: Floats, ask: Floats, k: int) -> Floats:
    """Return the share of every tag among the most similar photographs, by the cosine."""
    near = NearestNeighbors(n_neighbors=min(k, len(learn)), metric="cosine").fit(learn)
    distance, place = near.kneighbors(ask)
    # Nearer ones count a little more, which also settles ties.
    weight = 1.0 - distance + 1e-9
    score: Floats = (weight[:, :, None] * tags[place]).sum(axis=1)
    return score


# Supervised LDA by tomotopy: one binary response a class, not the paper's multiclass sLDA.

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
