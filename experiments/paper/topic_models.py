"""SupDocNADE and DocNADE: training, choice of settings on held-out photographs, test predictions.

Training is the stage that a GPU shortens; it needs words, not photographs.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import sparse

from experiments.paper.kernel_svm import (
    Kernel,
    add_kernels,
    best_svm,
    predict_svm,
    rbf_kernel,
    score_svms,
    standardize,
)
from experiments.paper.plans import ACCURACY, DOC, SUP, Setting, Variant
from experiments.paper.study import MissingPrediction, Study
from supdocnade.estimators.supdocnade import SupDocNADE
from supdocnade.estimators.topic_model import DocNADE
from supdocnade.metrics import N_TAGS, f_measure, top_ranked
from supdocnade.runs import RunOptions
from supdocnade.schema import load_arrays, save_arrays

N_TOPICS, N_WORDS = 3, 4
"""Topics and visual words of a class in the paper's figure."""

FIT, TRAIN = "fit", "train"
"""Parts that a model learns from: without the held-out photographs, or the whole training part."""

ALPHAS = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Weights of the predicted classes in the ranking of tags, where a recipe uses them."""

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A setting in one split: scored on held-out photographs, or with an SVM on the test part."""

    setting: Setting
    split: int
    part: str = FIT
    """FIT: SVMs are scored on the held-out photographs; TRAIN: the test part is predicted."""
    C: float = 0.0
    gamma: float = 0.0
    alpha: float = 0.0
    held_out: float = 0.0
    """Score of the chosen C, γ and α on the held-out photographs."""

    def key(self, study: Study) -> str:
        """Return the key of its prediction."""
        recipe = study.plan.recipes[self.setting.recipe]
        svm = [] if self.part == FIT else [self.C, self.gamma, self.alpha]
        more = repr((recipe.members, recipe.with_counts, recipe.class_tags, svm)).encode()
        digest = hashlib.blake2b(more, digest_size=4).hexdigest()
        return f"{model_key(study, self)}-{digest}"

    def params(self) -> dict[str, Any]:
        """Return the chosen hyper-parameters as they are stored with results."""
        svm = {"C": self.C, "gamma": self.gamma, "alpha": self.alpha}
        used = {name: value for name, value in svm.items() if value}
        return {**self.setting.values, **used, "held_out": round(self.held_out, 4)}


Job = tuple[Path, Evaluation, int]
"""The file of a model's outputs, its evaluation and its member number."""


class ModelOutput(NamedTuple):
    """Outputs of a trained model for some photographs."""

    index_B: NDArray[np.int64]
    """Indices of the photographs."""
    hidden_BH: NDArray[np.float32]
    class_log_p_BC: NDArray[np.float32] | None
    tag_log_p_BA: NDArray[np.float32] | None
    description: dict[str, Any]


def model_key(study: Study, evaluation: Evaluation, member: int = 0) -> str:
    """Return a readable name with a digest of everything that determines the model.

    The name of the recipe does not: recipes of the same settings share their models.

    Parameters
    ----------
    member : number of the model among those that differ only by their seed.
    """
    setting, recipe = (
        asdict(evaluation.setting),
        asdict(study.plan.recipes[evaluation.setting.recipe]),
    )
    del setting["recipe"], recipe["members"], recipe["with_counts"], recipe["class_tags"]
    determined_by = {
        "setting": setting,
        "split": evaluation.split,
        "part": evaluation.part,
        "member": member,
        "recipe": recipe,
        "dataset": study.photos.dataset,
        "n_images": len(study.photos),
        "max_side": study.plan.max_side,
    }
    text = json.dumps(determined_by, sort_keys=True)
    digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    name = "".join(letter for letter in setting["model"].lower() if letter.isalnum())
    return f"{evaluation.split}-{evaluation.part}-{name}-{setting['n_topics']}-{digest}"


def _model_path(study: Study, evaluation: Evaluation, member: int) -> Path:
    return study.folder / "models" / f"{model_key(study, evaluation, member)}.safetensors"


def train_models(
    study: Study,
    evaluations: Sequence[Evaluation],
    options: RunOptions = RunOptions(),
    stage: str = "models",
) -> None:
    """Train the models that are missing, those of the same documents one after the other."""
    jobs = {
        _model_path(study, each, member): (each, member)
        for each in evaluations
        for member in range(study.plan.recipes[each.setting.recipe].members)
    }
    missing = [(path, *job) for path, job in jobs.items() if not path.exists()]
    missing.sort(key=_documents)
    done = len(jobs) - len(missing)
    for _, group in groupby(missing, key=_documents):
        group_jobs = list(group)
        first = group_jobs[0][1]
        sides = study.counts(first.setting.recipe, first.split, first.setting.grid)
        for (path, evaluation, _), model in _fit_models(study, sides, group_jobs, options):
            _save_output(path, study, sides, evaluation, model, options.device)
            done += 1
            options.progress(stage, done, len(jobs))


def _documents(job: Job) -> tuple[int, str, str, str, str, str]:
    """Return everything that determines the documents that a model learns from."""
    _, each, _ = job
    s = each.setting
    return each.split, s.recipe, s.grid, each.part, s.tags or "", s.model


def _fit_models(
    study: Study, sides: Sequence[sparse.csr_array], jobs: Sequence[Job], options: RunOptions
) -> Iterator[tuple[Job, DocNADE | SupDocNADE]]:
    """Fit models of the same documents."""
    first = jobs[0][1]
    parts = study.protocol.parts(first.split)
    train = parts.fit if first.part == FIT else parts.train
    documents = sparse.vstack([side[train] for side in sides], format="csr")
    index_D = np.tile(train, len(sides))
    annotations = known_tags(study, first.setting.tags, index_D)
    for job in jobs:
        _, evaluation, member = job
        model = _estimator(study, evaluation, member, options)
        model.fit(documents, study.label_B[index_D], **annotations)
        yield job, model


def known_tags(study: Study, tag_set: str | None, index_D: Indices) -> dict[str, Any]:
    """Return the arguments of `fit` that give the tags of photographs."""
    if tag_set is None:
        return {}
    tags = study.photos.tags[tag_set]
    return {
        "annotations": study.photos.tag_counts(tag_set)[0][index_D],
        "annotation_mask": np.array([tags[index] is not None for index in index_D]),
    }


def _estimator(
    study: Study, evaluation: Evaluation, member: int, options: RunOptions
) -> DocNADE | SupDocNADE:
    setting, recipe = evaluation.setting, study.plan.recipes[evaluation.setting.recipe]
    return {SUP: SupDocNADE, DOC: DocNADE}[setting.model](
        setting.n_topics,
        max_epochs=recipe.max_epochs,
        batch_size=recipe.batch_size,
        random_state=1000 * member + evaluation.split,
        device=options.device,
        n_jobs=options.n_jobs,
        **setting.values,
    )


def _save_output(
    path: Path,
    study: Study,
    sides: Sequence[sparse.csr_array],
    evaluation: Evaluation,
    model: DocNADE | SupDocNADE,
    device: str,
) -> None:
    """Write the outputs for the training photographs and, once choices are made, the test part."""
    parts = study.protocol.parts(evaluation.split)
    is_fit = evaluation.part == FIT
    index_B = parts.train if is_fit else np.concatenate([parts.train, parts.test])
    sides = [side[index_B] for side in sides]
    hidden_SBH = np.stack([model.transform(side) for side in sides])
    arrays: dict[str, NDArray[Any]] = {"places": index_B, "hidden": hidden_SBH.mean(axis=0)}
    description: dict[str, Any] = {"device": device_name(device)}
    if isinstance(model, SupDocNADE):
        arrays["class_log_p"] = log_mean([model.predict_log_proba(side) for side in sides])
    if model.n_annotations_:
        arrays["tag_log_p"] = log_mean(
            [model.annotation_log_proba(side, normalize=True) for side in sides]
        )
        if isinstance(model, SupDocNADE):
            description["classes"] = _class_words(study, evaluation.setting, model)
    save_arrays(path, arrays, description)


def device_name(device: str) -> str:
    """Return the name of a device, "cpu" or "cuda"."""
    return torch.cuda.get_device_name() if device == "cuda" else "CPU"


def log_mean(log_p: Sequence[NDArray[np.floating]]) -> NDArray[np.float32]:
    """Return the logarithm of the mean of probabilities."""
    total = np.logaddexp.reduce(np.stack(log_p).astype(np.float64), axis=0)
    mean: NDArray[np.float32] = (total - np.log(len(log_p))).astype(np.float32)
    return mean


def _class_words(study: Study, setting: Setting, model: SupDocNADE) -> dict[str, Any]:
    """Return the visual words and tags of every class, as the paper visualises them."""
    assert setting.tags is not None
    _, names = study.photos.tag_counts(setting.tags)
    n_visual_words = study.plan.recipes[setting.recipe].words.n_words
    n_columns = model.components_.shape[1] - len(names)
    found = {}
    units_CX = top_ranked(model.network_.arrays()["label_weight"], N_TOPICS)
    for label, topics in zip(study.photos.classes, units_CX, strict=True):
        weight_A = model.components_[topics, n_columns:].astype(np.float64).mean(axis=0)
        found[label] = {
            "topics": topics.tolist(),
            "words": mean_words(model.components_[:, :n_columns], topics, n_visual_words),
            "tags": [names[tag] for tag in top_ranked(weight_A[None], N_TAGS)[0].tolist()],
        }
    return found


def mean_words(
    weight_HK: NDArray[np.floating], topics: Sequence[int], n_visual_words: int
) -> list[int]:
    """Return the visual words with the largest mean weight over some topics, strongest first.

    A word has a weight in every region; the largest counts.

    Parameters
    ----------
    weight_HK : weights, topics × (regions · visual words).
    topics : topics whose weights are averaged.
    n_visual_words : number of visual words per region.
    """
    mean_K = weight_HK[list(topics)].astype(np.float64).mean(axis=0)
    best_W = mean_K.reshape(-1, n_visual_words).max(axis=0)
    words: list[int] = top_ranked(best_W[None], N_WORDS)[0].tolist()
    return words


def load_outputs(study: Study, evaluation: Evaluation) -> list[ModelOutput]:
    """Return the outputs of all models of an evaluation."""
    outputs = []
    for member in range(study.plan.recipes[evaluation.setting.recipe].members):
        arrays, description = load_arrays(_model_path(study, evaluation, member))
        class_log_p, tag_log_p = arrays.get("class_log_p"), arrays.get("tag_log_p")
        outputs.append(
            ModelOutput(arrays["places"], arrays["hidden"], class_log_p, tag_log_p, description)
        )
    return outputs


def predict_trained(
    study: Study,
    evaluations: Sequence[Evaluation],
    options: RunOptions = RunOptions(),
    stage: str = "SVMs",
) -> None:
    """Make the predictions that are missing, with trained models."""
    make_predictions(study, evaluations, _predict_trained, options, stage, prefer="threads")


def make_predictions(
    study: Study,
    evaluations: Sequence[Evaluation],
    predict: Callable[[Study, Evaluation], dict[str, Any]],
    options: RunOptions,
    stage: str,
    *,
    prefer: str = "processes",
) -> None:
    """Make the predictions that are missing.

    Parameters
    ----------
    predict : returns the prediction of an evaluation.
    prefer : kind of workers, "processes" or "threads".
    """
    keyed = {each.key(study): each for each in evaluations}
    missing = {key: each for key, each in keyed.items() if study.prediction(key) is None}
    done = len(keyed) - len(missing)

    def make(key: str) -> None:
        study.write_prediction(key, predict(study, missing[key]))

    workers = Parallel(n_jobs=options.n_jobs, prefer=prefer, return_as="generator_unordered")
    for _ in workers(delayed(make)(key) for key in missing):
        done += 1
        options.progress(stage, done, len(keyed))


def _predict_trained(study: Study, evaluation: Evaluation) -> dict[str, Any]:
    outputs = load_outputs(study, evaluation)
    score = _score_held_out if evaluation.part == FIT else _predict_test
    prediction = score(study, evaluation, outputs)
    return prediction | {"device": outputs[0].description["device"]}


def _score_held_out(
    study: Study, evaluation: Evaluation, outputs: Sequence[ModelOutput]
) -> dict[str, Any]:
    """Score every SVM, and the tags, on the held-out photographs."""
    parts, index_B = study.protocol.parts(evaluation.split), outputs[0].index_B
    fit, held = np.isin(index_B, parts.fit), np.isin(index_B, parts.held)
    labels = study.label_B[index_B]
    kernel = _topic_kernel(study, evaluation, outputs, fit, held)
    prediction: dict[str, Any] = {
        "svm": [list(each) for each in score_svms(kernel, labels[fit], labels[held])]
    }
    if evaluation.setting.tags is not None:
        counts, _ = study.photos.tag_counts(evaluation.setting.tags)
        true_TA = counts.toarray()[index_B[held]] > 0
        uses_classes = study.plan.recipes[evaluation.setting.recipe].class_tags
        prediction["f_measure"] = []
        for alpha in ALPHAS if uses_classes else ALPHAS[:1]:
            top = rank_tags(study, evaluation.setting, outputs, index_B[fit], alpha)[held]
            prediction["f_measure"].append([alpha, f_measure(top, true_TA)])
    return prediction


def _predict_test(
    study: Study, evaluation: Evaluation, outputs: Sequence[ModelOutput]
) -> dict[str, Any]:
    """Predict classes and tags of the test photographs, in their order."""
    parts, index_B = study.protocol.parts(evaluation.split), outputs[0].index_B
    train, test = np.isin(index_B, parts.train), np.isin(index_B, parts.test)
    kernel = _topic_kernel(study, evaluation, outputs, train, test)
    labels = study.label_B[index_B[train]]
    predicted = predict_svm(kernel, labels, evaluation.C, evaluation.gamma)
    prediction: dict[str, Any] = {"predicted": predicted.tolist()}
    if outputs[0].class_log_p_BC is not None:
        prediction["softmax"] = mean_class_log_p(outputs)[test].argmax(axis=1).tolist()
    if evaluation.setting.tags is not None:
        top = rank_tags(study, evaluation.setting, outputs, index_B[train], evaluation.alpha)
        prediction["top_tags"] = top[test].tolist()
    if "classes" in outputs[0].description:
        prediction["classes"] = outputs[0].description["classes"]
    return prediction


def _topic_kernel(
    study: Study,
    evaluation: Evaluation,
    outputs: Sequence[ModelOutput],
    train_B: NDArray[np.bool_],
    other_B: NDArray[np.bool_],
) -> Kernel:
    """Return the kernel of topics, and of √counts if the recipe says so."""
    hidden = concatenate_topics(outputs, train_B)
    topics = rbf_kernel(hidden[train_B], hidden[other_B])
    setting = evaluation.setting
    if not study.plan.recipes[setting.recipe].with_counts:
        return topics
    roots = np.sqrt(study.histograms(setting.recipe, evaluation.split, setting.grid))
    index_B = outputs[0].index_B
    return add_kernels([topics, rbf_kernel(roots[index_B[train_B]], roots[index_B[other_B]])])


def concatenate_topics(outputs: Sequence[ModelOutput], train_B: NDArray[np.bool_]) -> Floats:
    """Return the topics of all models, standardised by the training photographs."""
    return np.hstack([standardize(each.hidden_BH.astype(np.float64), train_B) for each in outputs])


def mean_class_log_p(outputs: Sequence[ModelOutput]) -> Floats:
    """Return the logarithm of the mean class probabilities of all models."""
    parts = [each.class_log_p_BC for each in outputs if each.class_log_p_BC is not None]
    return log_mean(parts).astype(np.float64)


def rank_tags(
    study: Study,
    setting: Setting,
    outputs: Sequence[ModelOutput],
    train: NDArray[np.int64],
    alpha: float,
) -> NDArray[np.int64]:
    """Return the most probable tags of every photograph of the models' outputs, (B, N_TAGS).

    Parameters
    ----------
    train : indices of the photographs from which the tags of a class are counted.
    alpha : weight of the predicted classes.
    """
    parts = [each.tag_log_p_BA for each in outputs if each.tag_log_p_BA is not None]
    log_p_BA = log_mean(parts).astype(np.float64)
    if alpha and outputs[0].class_log_p_BC is not None:
        assert setting.tags is not None
        counts, _ = study.photos.tag_counts(setting.tags)
        share_CA = class_tag_shares(counts[train], study.label_B[train], len(study.photos.classes))
        log_p_BA = add_class_term(log_p_BA, np.exp(mean_class_log_p(outputs)), share_CA, alpha)
    return top_ranked(log_p_BA, N_TAGS)


def choose_setting(study: Study, variant: Variant, split: int) -> Evaluation:
    """Return the best candidate on the held-out photographs. On a tie, prefer the first."""
    candidates = []
    for setting in variant.candidates():
        prediction = study.prediction(Evaluation(setting=setting, split=split).key(study))
        if prediction is None:
            raise MissingPrediction(study.folder, variant.method)
        C, gamma, accuracy = best_svm(prediction["svm"])
        alpha, f = max(prediction.get("f_measure", [[0.0, 0.0]]), key=lambda each: float(each[1]))
        candidates.append(
            Evaluation(
                setting=setting,
                split=split,
                part=TRAIN,
                C=C,
                gamma=gamma or 0.0,
                alpha=alpha,
                held_out=accuracy if variant.chosen_for == ACCURACY else f,
            )
        )
    return max(candidates, key=lambda each: each.held_out)


def final_evaluations(study: Study, variant: Variant, split: int) -> list[Evaluation]:
    """Return the evaluations of a variant on the test part, one per number of topics."""
    best = choose_setting(study, variant, split)
    return [
        replace(best, setting=replace(best.setting, n_topics=n_topics))
        for n_topics in variant.topics
    ]


def class_tag_shares(
    annotations: sparse.csr_array, label_N: NDArray[np.integer], n_classes: int
) -> Floats:
    """Return the share of every tag among all tags of a class, (classes, tags).

    Add-one smoothing, divided among all tags, keeps tags that no document of a class has possible;
    the shares of a class without any known tag are equal.

    Parameters
    ----------
    annotations : (documents, tags) counts.
    label_N : (documents,) class numbers; below 0: unknown.

    >>> class_tag_shares(sparse.csr_array([[1, 0], [1, 1], [0, 1]]), np.array([0, 0, -1]), 2)
    array([[0.625, 0.375],
           [0.5  , 0.5  ]])
    """
    known = np.flatnonzero(label_N >= 0)
    member_NC = np.eye(n_classes)[label_N[known]]
    share_CA: Floats = member_NC.T @ annotations[known] + 1 / annotations.shape[1]
    share_CA /= share_CA.sum(axis=1, keepdims=True)
    return share_CA


def add_class_term(log_p_BA: Floats, proba_BC: Floats, share_CA: Floats, weight: float) -> Floats:
    """Return log p(a | v) + weight · log Σ_c p(c | v) share(a | c), (B, A).

    Parameters
    ----------
    log_p_BA : (documents, tags) log p(a | v), or its log odds.
    proba_BC : (documents, classes) p(c | v).
    share_CA : of `class_tag_shares`.
    """
    # Class by class: a matrix product would round a row differently in another batch.
    mixed_BA = np.zeros_like(log_p_BA)
    for proba_B, share_A in zip(proba_BC.T, share_CA, strict=True):
        mixed_BA += proba_B[:, None] * share_A
    scores_BA: Floats = log_p_BA + weight * np.log(mixed_BA)
    return scores_BA
