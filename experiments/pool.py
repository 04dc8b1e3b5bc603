"""Search for better recipes on the development pool alone; every recipe tried is logged.

python -m experiments.pool labelme words         # photographs to words (needs SUPDOCNADE_DATA)
python -m experiments.pool labelme counts        # SVMs on √counts alone: words compared in minutes
python -m experiments.pool labelme models        # train; --device cuda, --only NAME...
python -m experiments.pool labelme measure       # SVMs and tags; adds to experiments/pool.json

Five folds of the pool, near-duplicates in one fold; words, topic model and SVM are learned from
four of them. The settings of the SVM, the same grid for every recipe, are the best on all five
folds together, so results are a little too high: compare rows, and quote none. Each stage resumes
where it was stopped; `models` needs only the files words, photographs.json and protocol.json of
experiments/pool/NAME.
"""

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC

from experiments.common import markdown, timed
from experiments.data import data_folder
from experiments.paper.data_sets import PhotoSet, data_set, read_photo_set
from experiments.paper.kernel_svm import (
    C_GRID,
    GAMMA_GRID,
    Kernel,
    add_kernels,
    predict_svm,
    rbf_kernel,
)
from experiments.paper.plans import SUP, Plan, Setting, full_plan
from experiments.paper.protocol import LEARN, TEST, Protocol, protocol_for
from experiments.paper.splits import split_per_class
from experiments.paper.study import Study
from experiments.paper.topic_models import (
    ALPHAS,
    TRAIN,
    Evaluation,
    concatenate_topics,
    load_outputs,
    mean_class_log_p,
    rank_tags,
    train_models,
)
from experiments.paper.words import WordRecipe, encode_words, save_words
from experiments.pool_recipes import SETTINGS, TRIED
from supdocnade.metrics import f_measure
from supdocnade.runs import RunOptions
from supdocnade.storage import write_atomically

HERE = Path(__file__).parent
LOG = HERE / "pool.json"
N_FOLDS = 5
WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0)
"""Weights of the softmax's log-probabilities, added to the SVM's decision values."""


def study_of(dataset: str, data: Path | None = None) -> Study:
    """Return the pool as a study whose splits are folds."""
    folder = HERE / "pool" / dataset
    recipes = {_slug(name): recipe for name, recipe in TRIED.items()}
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
    fold_B = np.full(len(photos), -1)
    for fold in range(N_FOLDS - 1):
        labels = [
            None if assigned >= 0 else label
            for label, assigned in zip(photos.labels, fold_B, strict=True)
        ]
        split = split_per_class(labels, train_size=1 / (N_FOLDS - fold), seed=2, groups=picture_B)
        fold_B[split.train] = fold
    fold_B[fold_B < 0] = N_FOLDS - 1
    roles = tuple(
        "".join(TEST if own == fold else LEARN for fold in range(N_FOLDS))
        for own in fold_B.tolist()
    )
    pool_B = np.ones(len(photos), np.bool_)
    return Protocol(picture_B=picture_B, pool_B=pool_B, roles=roles, stored=False)


def _slug(name: str) -> str:
    """Return the name of a recipe in file names."""
    slug = "".join(letter if letter.isalnum() else "-" for letter in name.replace("λ", "lambda"))
    return "-".join(part for part in slug.split("-") if part)


def make_words(study: Study, names: list[str], n_jobs: int) -> None:
    """Encode the pool for every recipe and fold; recipes with the same words share them."""
    paths: dict[tuple[WordRecipe, int], Path] = {}
    for name in names:
        words_recipe = TRIED[name].words
        for fold in range(N_FOLDS):
            path = study.words_path(_slug(name), fold)
            same = paths.setdefault((words_recipe, fold), path)
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
                options=RunOptions(n_jobs=n_jobs),
            )
            save_words(path, words, study.words_description(_slug(name), fold))
            print(f"words: {name}, fold {fold}", flush=True)


def setting_of(study: Study, name: str, n_topics: int) -> Setting:
    """Return the setting of a recipe: λ = 0.01, learning rate 3e-4 and annotation weight 30."""
    tags = next(iter(data_set(study.photos.dataset).tag_files), None)
    usual = {"generative_weight": 1e-2, "learning_rate": 3e-4, "annotation_weight": 30.0}
    values = {**usual, **SETTINGS.get(name, {})}
    return Setting(
        model=SUP,
        recipe=_slug(name),
        grid=TRIED[name].grid,
        n_topics=values.pop("n_topics", n_topics),
        tags=tags,
        values=values,
    )


def train(study: Study, names: list[str], n_topics: int, device: str, n_jobs: int) -> None:
    """Train the models of all folds."""
    for name in names:
        seconds: dict[str, Any] = {}
        setting = setting_of(study, name, n_topics)
        evaluations = [
            Evaluation(setting=setting, split=fold, part=TRAIN) for fold in range(N_FOLDS)
        ]
        with timed(seconds, f"models: {name}"):
            train_models(study, evaluations, RunOptions(device=device, n_jobs=n_jobs))


def measure(study: Study, name: str, n_topics: int) -> dict[str, Any]:
    """Return the metrics of a recipe over all folds."""
    n_photos, n_classes = len(study.photos), len(study.photos.classes)
    decision = {(C, gamma): np.zeros((n_photos, n_classes)) for C in C_GRID for gamma in GAMMA_GRID}
    with_counts = {each: values.copy() for each, values in decision.items()}
    softmax = np.zeros((n_photos, n_classes))
    setting = setting_of(study, name, n_topics)
    tops = {alpha: np.zeros((n_photos, 5), np.int64) for alpha in ALPHAS} if setting.tags else {}
    for fold in range(N_FOLDS):
        outputs = load_outputs(study, Evaluation(setting=setting, split=fold, part=TRAIN))
        index, test = outputs[0].index_B, study.protocol.parts(fold).test
        is_train = ~np.isin(index, test)
        hidden = concatenate_topics(outputs, is_train)
        topics = rbf_kernel(hidden[is_train], hidden[~is_train])
        roots = _root_counts(study, name, fold)[index]
        counts = rbf_kernel(roots[is_train], roots[~is_train])
        labels = study.label_B[index[is_train]]
        _decide(topics, labels, index[~is_train], decision)
        _decide(add_kernels([topics, counts]), labels, index[~is_train], with_counts)
        softmax[index[~is_train]] = mean_class_log_p(outputs)[~is_train]
        for alpha, top in tops.items():
            top[test] = rank_tags(study, setting, outputs, index[is_train], alpha)[~is_train]
    found = _accuracies(study, decision, softmax) | measure_counts(study, name)
    right = [(values.argmax(axis=1) == study.label_B).mean() for values in with_counts.values()]
    found["svm_on_topics_and_counts"] = round(float(max(right)), 4)
    if setting.tags:
        true_BA = study.photos.tag_counts(setting.tags)[0].toarray() > 0
        values = {alpha: f_measure(top, true_BA) for alpha, top in tops.items()}
        best = max(values, key=lambda alpha: values[alpha])
        found |= {
            "f_measure": round(values[0.0], 4),
            "f_measure_with_classes": round(values[best], 4),
            "alpha": best,
        }
    return found


def _decide(
    kernel: Kernel,
    label_A: NDArray[np.int64],
    indices: NDArray[np.int64],
    decision: dict[tuple[float, float], NDArray[np.float64]],
) -> None:
    """Write the decision values of one fold, for every SVM of the grid."""
    for (C, gamma), values in decision.items():
        inner, outer = kernel.values(gamma)
        classifier = SVC(C=C, kernel="precomputed", cache_size=500).fit(inner, label_A)
        values[indices] = classifier.decision_function(outer)


def _root_counts(study: Study, name: str, fold: int) -> NDArray[np.float64]:
    return np.sqrt(study.histograms(_slug(name), fold, TRIED[name].grid))


def measure_counts(study: Study, name: str) -> dict[str, Any]:
    """Return the accuracy of an SVM on √counts, without a topic model, over all folds."""
    grid = tuple((C, gamma) for C in C_GRID for gamma in GAMMA_GRID)
    correct = np.zeros((len(grid), len(study.photos)))
    for fold in range(N_FOLDS):
        parts = study.protocol.parts(fold)
        roots = _root_counts(study, name, fold)
        kernel = rbf_kernel(roots[parts.train], roots[parts.test])
        for row, (C, gamma) in enumerate(grid):
            predicted = predict_svm(kernel, study.label_B[parts.train], C, gamma)
            correct[row, parts.test] = predicted == study.label_B[parts.test]
    return {"svm_on_counts": round(float(correct.mean(axis=1).max()), 4)}


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


def read_log() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(LOG.read_text()) if LOG.is_file() else []
    return entries


def add_to_log(dataset: str, name: str, n_topics: int, found: dict[str, Any]) -> None:
    """Log a recipe, in place of an earlier run of the same one."""
    recipe = TRIED[name]
    entry = {
        "dataset": dataset,
        "name": name,
        "n_topics": n_topics,
        "recipe": {**asdict(recipe), "words": recipe.words.settings()},
        "setting": SETTINGS.get(name, {}),
        **found,
    }
    same = ("dataset", "name", "n_topics", "recipe", "setting")
    others = [each for each in read_log() if any(each[key] != entry[key] for key in same)]
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in [*others, entry])
    write_atomically(LOG, f"[\n{lines}\n]\n".encode())


def pool_section() -> str:
    """Return the section of the page that lists every recipe tried."""
    names = (
        "accuracy", "softmax", "svm_and_softmax", "svm_on_counts",
        "svm_on_topics_and_counts", "f_measure",
        "f_measure_with_classes",
    )  # fmt: skip
    rows = [
        [
            each["dataset"],
            each["name"],
            str(each["setting"].get("n_topics", each["n_topics"]) or "–"),
            *(f"{100 * each[name]:.1f}" if name in each else "–" for name in names),
        ]
        for each in sorted(read_log(), key=lambda each: str(each["dataset"]))
    ]
    header = [
        "data set", "recipe", "topics", "SVM on topics", "softmax", "SVM + softmax",
        "SVM on √counts", "SVM on topics and √counts", "F", "F, with classes",
    ]  # fmt: skip
    return "\n\n".join(
        [
            "### Recipes tried on the development pool",
            f"{N_FOLDS} folds of the pool, λ = 0.01, learning rate 3e-4, "
            "annotation weight 30 unless the name says otherwise; SVM settings and weights are the "
            "best on all folds together, the same grid for every row: compare rows, quote none "
            "(`experiments/pool.py`; names: `pool_recipes.py`). All numbers in per cent.",
            '<!-- recipes: begin -->\n\n<details markdown="1">\n<summary>All recipes</summary>',
            markdown(header, rows),
            "</details>\n\n<!-- recipes: end -->",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("dataset", choices=("labelme", "scene15"))
    parser.add_argument("stage", choices=("words", "counts", "models", "measure"))
    parser.add_argument("--only", nargs="*", choices=tuple(TRIED), default=list(TRIED))
    parser.add_argument("--topics", type=int, default=200)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    data = data_folder(arguments.dataset) if arguments.stage == "words" else None
    study = study_of(arguments.dataset, data)
    if arguments.stage == "words":
        make_words(study, arguments.only, arguments.jobs)
    elif arguments.stage == "models":
        train(study, arguments.only, arguments.topics, arguments.device, arguments.jobs)
    else:
        for name in arguments.only:
            counts_alone = arguments.stage == "counts"
            topics = 0 if counts_alone else arguments.topics
            found = measure_counts(study, name) if counts_alone else measure(study, name, topics)
            add_to_log(arguments.dataset, name, topics, found)
            print(name, found, flush=True)


if __name__ == "__main__":
    main()
