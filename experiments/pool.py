"""A search for better recipes, on the development pool alone; every recipe tried is logged.

python -m experiments.pool labelme words         # photographs to words (needs SUPDOCNADE_DATA)
python -m experiments.pool labelme counts        # SVMs on √counts alone: words compared in minutes
python -m experiments.pool labelme models        # train; --device cuda, --only NAME...
python -m experiments.pool labelme measure       # SVMs and tags; adds to experiments/pool.json

Five folds of the pool, copies of a picture in one fold; words, topic model and SVM are learned from
four of them. The SVM's settings, the same grid for every recipe, are the best on all five folds
together, so figures flatter a little: compare rows, and quote none. Each stage goes on where it was
stopped; the second needs only experiments/pool/NAME/{words,photographs.json,protocol.json}.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC

from experiments.common import timed
from experiments.data import data_folder
from experiments.pool_log import N_FOLDS, add_to_log
from experiments.pool_recipes import TRIED
from supdocnade.folders.splits import split_per_class
from supdocnade.metrics import f_measure
from supdocnade.paper.answers import ALPHAS, Question, class_log_proba, side_by_side, top_tags
from supdocnade.paper.data_sets import PhotoSet, data_set, read_photo_set
from supdocnade.paper.plans import Plan, Setting, full_plan
from supdocnade.paper.protocol import LEARN, TEST, Protocol, protocol_for
from supdocnade.paper.study import Study
from supdocnade.paper.svms import C_GRID, GAMMA_GRID, Kernel, joined, predict_svm, rbf
from supdocnade.paper.topic_models import TRAIN, Job, load_described, train_jobs
from supdocnade.paper.words import WordRecipe, encode_words, save_words
from supdocnade.storage import write_atomically

HERE = Path(__file__).parent
WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0)
"""Of the softmax's log-probabilities beside the SVM's decision values."""


def study_of(dataset: str, data: Path | None = None) -> Study:
    """Return the pool as a study whose splits are folds."""
    folder = HERE / "pool" / dataset
    recipes = {_slug(name): each.recipe for name, each in TRIED.items()}
    plan: Plan = replace(full_plan(data_set(dataset)), recipes=recipes, n_splits=N_FOLDS)
    if data is None:
        return Study.resume(folder, plan)
    photos = read_photo_set(dataset, data)
    whole = protocol_for(photos)
    inside = np.flatnonzero(whole.pool_B)
    pool = photos.take(inside)
    return Study.begin(folder, pool, folds(pool, whole.picture_B[inside]), plan)


def folds(photos: PhotoSet, picture_B: NDArray[np.int64]) -> Protocol:
    """Return folds: each photograph is tested once."""
    left = np.ones(len(photos), np.bool_)
    fold_B = np.full(len(photos), N_FOLDS - 1)
    for fold in range(N_FOLDS - 1):
        labels = [label if mine else None for label, mine in zip(photos.labels, left, strict=True)]
        cut = split_per_class(labels, train_size=1 / (N_FOLDS - fold), seed=2, groups=picture_B)
        fold_B[cut.train] = fold
        left[cut.train] = False
    roles = tuple(
        "".join(TEST if mine == fold else LEARN for fold in range(N_FOLDS))
        for mine in fold_B.tolist()
    )
    pool_B = np.ones(len(photos), np.bool_)
    return Protocol(
        dataset=photos.dataset, picture_B=picture_B, pool_B=pool_B, roles=roles, stored=False
    )


def _slug(name: str) -> str:
    """Return a recipe's name as files have it."""
    kept = "".join(letter if letter.isalnum() else "-" for letter in name.replace("λ", "lambda"))
    return "-".join(part for part in kept.split("-") if part)


def make_words(study: Study, only: list[str], n_jobs: int) -> None:
    """Encode the pool for every recipe and fold; recipes with the same words share them."""
    made: dict[tuple[WordRecipe, int], Path] = {}
    for name in only:
        words_recipe = TRIED[name].recipe.words
        for fold in range(N_FOLDS):
            path = study.words_path(_slug(name), fold)
            same = made.setdefault((words_recipe, fold), path)
            if path.exists():
                continue
            if same != path:
                write_atomically(path, same.read_bytes())
                continue
            words, _ = encode_words(
                study.photos.paths,
                study.protocol.parts(fold).train,
                words_recipe,
                max_side=study.plan.max_side,
                seed=fold,
                n_jobs=n_jobs,
            )
            save_words(path, words, study.words_made_from(_slug(name), fold))
            print(f"words: {name}, fold {fold}", flush=True)


def setting_of(study: Study, name: str, n_topics: int) -> Setting:
    tags = next(iter(data_set(study.photos.dataset).tag_files), None)
    settings = {
        "n_topics": n_topics,
        "generative_weight": 1e-2,
        "learning_rate": 3e-4,
        "annotation_weight": 30.0,
    }
    return Setting(
        supervised=True,
        recipe=_slug(name),
        grid=TRIED[name].recipe.grid,
        tags=tags,
        **{**settings, **TRIED[name].setting},
    )


def jobs_of(study: Study, name: str, n_topics: int, fold: int) -> list[Job]:
    setting = setting_of(study, name, n_topics)
    members = range(TRIED[name].recipe.members)
    return [Job(setting=setting, split=fold, part=TRAIN, member=member) for member in members]


def train(study: Study, only: list[str], n_topics: int, device: str, n_jobs: int) -> None:
    for name in only:
        seconds: dict[str, Any] = {}
        jobs = [job for fold in range(N_FOLDS) for job in jobs_of(study, name, n_topics, fold)]
        with timed(seconds, f"models: {name}"):
            train_jobs(study, jobs, device=device, n_jobs=n_jobs)


def measure(study: Study, name: str, n_topics: int) -> dict[str, Any]:
    """Return the figures of a recipe over all folds."""
    n_photos, n_classes = len(study.photos), len(study.photos.classes)
    decision = {(C, gamma): np.zeros((n_photos, n_classes)) for C in C_GRID for gamma in GAMMA_GRID}
    with_counts = {each: values.copy() for each, values in decision.items()}
    softmax = np.zeros((n_photos, n_classes))
    setting = setting_of(study, name, n_topics)
    tops = {alpha: np.zeros((n_photos, 5), np.int64) for alpha in ALPHAS} if setting.tags else {}
    seconds = 0.0
    for fold in range(N_FOLDS):
        members = [load_described(study, job) for job in jobs_of(study, name, n_topics, fold)]
        seconds += sum(each.description["seconds"] for each in members)
        place, test = members[0].places_B, study.protocol.parts(fold).test
        learn = ~np.isin(place, test)
        hidden = side_by_side(members, learn)
        topics = rbf(hidden[learn], hidden[~learn])
        counts = _roots(study, name, fold)[place]
        plain = rbf(counts[learn], counts[~learn])
        label = study.label_B[place[learn]]
        _decide(topics, label, place[~learn], decision)
        _decide(joined([topics, plain]), label, place[~learn], with_counts)
        softmax[place[~learn]] = class_log_proba(members)[~learn]
        question = Question(setting=setting, split=fold)
        for alpha, top in tops.items():
            top[test] = top_tags(study, question, members, place[learn], alpha)[~learn]
    found = _accuracies(study, decision, softmax) | measure_counts(study, name)
    right = [(values.argmax(axis=1) == study.label_B).mean() for values in with_counts.values()]
    found["svm_on_topics_and_counts"] = round(float(max(right)), 4)
    if setting.tags:
        true_BA = study.photos.annotations(setting.tags).annotations.toarray() > 0
        values = {alpha: f_measure(top, true_BA).value for alpha, top in tops.items()}
        best = max(values, key=lambda alpha: values[alpha])
        found |= {
            "f_measure": round(values[0.0], 4),
            "f_measure_with_classes": round(values[best], 4),
            "alpha": best,
        }
    return {**found, "seconds_of_training": round(seconds, 1)}


def _decide(
    kernel: Kernel,
    label_A: NDArray[np.int64],
    places: NDArray[np.int64],
    decision: dict[tuple[float, float], NDArray[np.float64]],
) -> None:
    """Fill in the decision values of one fold, for every SVM of the grid."""
    for (C, gamma), values in decision.items():
        inner, outer = kernel.of(gamma)
        classifier = SVC(C=C, kernel="precomputed", cache_size=500).fit(inner, label_A)
        values[places] = classifier.decision_function(outer)


def _roots(study: Study, name: str, fold: int) -> NDArray[np.float64]:
    return np.sqrt(study.histograms(_slug(name), fold, TRIED[name].recipe.grid))


def measure_counts(study: Study, name: str) -> dict[str, Any]:
    """Return the accuracy of an SVM on √counts, without a topic model, over all folds."""
    grid = tuple((C, gamma) for C in C_GRID for gamma in GAMMA_GRID)
    right = np.zeros((len(grid), len(study.photos)))
    for fold in range(N_FOLDS):
        parts = study.protocol.parts(fold)
        roots = _roots(study, name, fold)
        kernel = rbf(roots[parts.train], roots[parts.test])
        for row, (C, gamma) in enumerate(grid):
            predicted = predict_svm(kernel, study.label_B[parts.train], C, gamma)
            right[row, parts.test] = predicted == study.label_B[parts.test]
    return {"svm_on_counts": round(float(right.mean(axis=1).max()), 4)}


def _accuracies(
    study: Study,
    decision: dict[tuple[float, float], NDArray[np.float64]],
    softmax: NDArray[np.float64],
) -> dict[str, Any]:
    label = study.label_B
    right = {each: values.argmax(axis=1) == label for each, values in decision.items()}
    C, gamma = max(right, key=lambda each: right[each].mean())
    # One vote of a pair of classes is one unit of a decision value.
    mixed = {
        weight: float(((decision[C, gamma] + weight * softmax).argmax(axis=1) == label).mean())
        for weight in WEIGHTS
    }
    best = max(mixed, key=lambda weight: mixed[weight])
    by_fold = [
        float(right[C, gamma][study.protocol.parts(fold).test].mean()) for fold in range(N_FOLDS)
    ]
    return {
        "accuracy": round(float(right[C, gamma].mean()), 4),
        "of_every_fold": [round(each, 4) for each in by_fold],
        "C": C,
        "gamma": gamma,
        "softmax": round(float((softmax.argmax(axis=1) == label).mean()), 4),
        "svm_and_softmax": round(mixed[best], 4),
        "weight": best,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("dataset", choices=("labelme", "scene15"))
    parser.add_argument("stage", choices=("words", "counts", "models", "measure"))
    parser.add_argument("--only", nargs="*", choices=tuple(TRIED), default=list(TRIED))
    parser.add_argument("--topics", type=int, default=200)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    data = data_folder(given.dataset) if given.stage == "words" else None
    study = study_of(given.dataset, data)
    if given.stage == "words":
        make_words(study, given.only, given.jobs)
    elif given.stage == "models":
        train(study, given.only, given.topics, given.device, given.jobs)
    else:
        for name in given.only:
            counts_alone = given.stage == "counts"
            topics = 0 if counts_alone else given.topics
            found = measure_counts(study, name) if counts_alone else measure(study, name, topics)
            add_to_log(given.dataset, name, TRIED[name], topics, found)
            print(name, found, flush=True)


if __name__ == "__main__":
    main()
