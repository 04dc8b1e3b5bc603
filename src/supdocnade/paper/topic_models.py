"""Training topic models: the stage that a GPU shortens. It needs words, not photographs."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.estimators.docnade import DocNADE
from supdocnade.estimators.supdocnade import SupDocNADE
from supdocnade.estimators.topic_fitting import fit_many
from supdocnade.paper.plans import Setting
from supdocnade.paper.study import Study, device_name
from supdocnade.report.class_words import associate
from supdocnade.storage import load_arrays, save_arrays
from supdocnade.training.parallel_fit import MAX_NETWORKS

FIT, TRAIN = "fit", "train"
"""What a model learns from: all but what is held out, or all of the training part."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One topic model to train."""

    setting: Setting
    split: int
    part: str
    """FIT or TRAIN."""
    member: int = 0
    """Of several models that differ by their seed."""


class Described(NamedTuple):
    """What a trained model says of some photographs."""

    places_B: NDArray[np.int64]
    """Which photographs."""
    hidden_BH: NDArray[np.float32]
    class_log_p_BC: NDArray[np.float32] | None
    tag_log_p_BA: NDArray[np.float32] | None
    description: dict[str, Any]


def job_key(study: Study, job: Job) -> str:
    """Return a readable name with a digest of everything that decides the model.

    The name of its recipe does not: recipes that mean the same share their models.
    """
    recipe = study.plan.recipes[job.setting.recipe]
    of_one = asdict(recipe)
    for about_many in ("members", "with_counts", "class_tags"):
        del of_one[about_many]
    setting = asdict(job.setting)
    del setting["recipe"]
    known = {
        "setting": setting,
        "split": job.split,
        "part": job.part,
        "member": job.member,
        "recipe": of_one,
        "dataset": study.photos.dataset,
        "n_images": len(study.photos),
        "max_side": study.plan.max_side,
    }
    text = json.dumps(known, sort_keys=True)
    digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    method = "sup" if job.setting.supervised else "doc"
    return f"{job.split}-{job.part}-{method}{job.setting.n_topics}-{digest}"


def model_path(study: Study, job: Job) -> Path:
    """Return the file of what a model says."""
    return study.folder / "models" / f"{job_key(study, job)}.safetensors"


def train_jobs(
    study: Study,
    jobs: Sequence[Job],
    *,
    device: str = "auto",
    backend: str = "auto",
    n_jobs: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> None:
    """Train the models that are missing, those on the same counts one after the other."""
    wanted = sorted(dict.fromkeys(jobs), key=_corpus_of)
    missing = [job for job in wanted if not model_path(study, job).exists()]
    done = len(wanted) - len(missing)
    for (split, recipe, grid, *_), together in groupby(missing, key=_corpus_of):
        sides = study.counts(recipe, split, grid)
        for job, model in _fit_together(study, sides, list(together), device, backend, n_jobs):
            _describe(study, sides, job, model, device)
            done += 1
            if on_progress is not None:
                on_progress(done, len(wanted))


def _corpus_of(job: Job) -> tuple[int, str, str, str, str, bool]:
    """Return what decides the documents that a model learns from."""
    setting = job.setting
    return (
        job.split, setting.recipe, setting.grid, job.part, setting.tags or "", setting.supervised
    )  # fmt: skip


def _fit_together(
    study: Study,
    sides: Sequence[sparse.csr_array],
    jobs: Sequence[Job],
    device: str,
    backend: str,
    n_jobs: int | None,
) -> Iterator[tuple[Job, DocNADE | SupDocNADE]]:
    """Fit models of the same documents."""
    tags, parts = jobs[0].setting.tags, study.protocol.parts(jobs[0].split)
    places = parts.fit if jobs[0].part == FIT else parts.train
    options: dict[str, Any] = {}
    if tags is not None:
        found = study.photos.annotations(tags)
        options = {
            "annotations": sparse.vstack([found.annotations[places]] * len(sides), format="csr"),
            "annotation_mask": np.tile(found.known[places], len(sides)),
        }
    counts = sparse.vstack([side[places] for side in sides], format="csr")
    label_A = np.tile(study.label_B[places], len(sides))
    where = {"device": device, "backend": backend, "n_jobs": n_jobs}
    # On a GPU several at a time; few enough that little is lost if the run is stopped.
    at_once = MAX_NETWORKS if device == "cuda" else 1
    for first in range(0, len(jobs), at_once):
        part = jobs[first : first + at_once]
        models = [_estimator(study, job, **where) for job in part]
        fit_many(models, counts, label_A, **options)
        yield from zip(part, models, strict=True)


def _estimator(study: Study, job: Job, **where: Any) -> DocNADE | SupDocNADE:
    setting, recipe = job.setting, study.plan.recipes[job.setting.recipe]
    options: dict[str, Any] = {
        "annotation_weight": setting.annotation_weight,
        "learning_rate": setting.learning_rate,
        "max_epochs": recipe.max_epochs,
        "batch_size": recipe.batch_size,
        "random_state": 1000 * job.member + job.split,
        **where,
    }
    if not setting.supervised:
        return DocNADE(setting.n_topics, **options)
    return SupDocNADE(
        setting.n_topics,
        generative_weight=setting.generative_weight,
        class_input=setting.class_input,
        **options,
    )


def _describe(
    study: Study,
    sides: Sequence[sparse.csr_array],
    job: Job,
    model: DocNADE | SupDocNADE,
    device: str,
) -> None:
    """Keep what a model says of the photographs that it is asked about."""
    parts = study.protocol.parts(job.split)
    places = parts.train if job.part == FIT else np.concatenate([parts.train, parts.test])
    sides = [side[places] for side in sides]
    hidden_SBH = np.stack([model.transform(side) for side in sides])
    arrays: dict[str, NDArray[Any]] = {"places": places, "hidden": hidden_SBH.mean(axis=0)}
    description: dict[str, Any] = {
        "seconds": round(sum(model.history_.seconds), 2),
        "device": device_name(device),
    }
    if isinstance(model, SupDocNADE):
        arrays["class_log_p"] = log_mean([model.predict_log_proba(side) for side in sides])
    if model.n_annotations_:
        arrays["tag_log_p"] = log_mean(
            [model.annotation_log_proba(side, normalize=True) for side in sides]
        )
        if isinstance(model, SupDocNADE):
            description["classes"] = class_words(study, job, model)
    save_arrays(model_path(study, job), arrays, description)


def log_mean(log_p: Sequence[NDArray[np.floating]]) -> NDArray[np.float32]:
    """Return the logarithm of the mean of probabilities."""
    total = np.logaddexp.reduce(np.stack(log_p).astype(np.float64), axis=0)
    mean: NDArray[np.float32] = (total - np.log(len(log_p))).astype(np.float32)
    return mean


def load_described(study: Study, job: Job) -> Described:
    """Return what a trained model says."""
    arrays, description = load_arrays(model_path(study, job))
    return Described(
        arrays["places"],
        arrays["hidden"],
        arrays.get("class_log_p"),
        arrays.get("tag_log_p"),
        description,
    )


def class_words(study: Study, job: Job, model: SupDocNADE) -> dict[str, Any]:
    """Return the visual words and tags of every class, as the paper visualises them."""
    assert job.setting.tags is not None
    names = study.photos.annotations(job.setting.tags).names
    n_visual_words = study.plan.recipes[job.setting.recipe].words.n_words
    found = {}
    for label, topics in zip(study.photos.classes, model.class_topics(), strict=True):
        each = associate(model.components_, topics.tolist(), names, n_visual_words=n_visual_words)
        found[label] = {
            "topics": list(each.topics),
            "words": [word.word for word in each.words],
            "tags": [tag for tag, _ in each.tags],
        }
    return found
