"""The stages of a study; each resumes where it was stopped.

words   encode the photographs; the only stage that needs them (CPU)
models  train topic models, choose hyper-parameters and predict; needs words only, uses a GPU
others  the same for sLDA, MMLDA, Replicated Softmax and LDA (CPU; words of the recipe of the paper)
svms    SVMs on counts and taggers (CPU; needs words only)
page    results and their page; methods without predictions keep the results that the folder holds
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from benchmarks.common import cpu_name

from experiments.paper.baselines import run_baselines
from experiments.paper.data_sets import PhotoSet, data_set, read_photo_set
from experiments.paper.other_models import run_other_models
from experiments.paper.patches import save_patches
from experiments.paper.plans import full_plan, quick_plan, with_splits
from experiments.paper.protocol import N_SPLITS, make_protocols, protocol_for
from experiments.paper.results import PATCHES, PROVENANCE, write_results
from experiments.paper.study import PREDICTIONS, Study
from experiments.paper.topic_models import (
    Evaluation,
    device_name,
    final_evaluations,
    predict_trained,
    train_models,
)
from experiments.paper.words import encode_words, save_words
from supdocnade.checks import check_choice
from supdocnade.errors import InvalidArgument, UnwritableFile
from supdocnade.likelihood.operations import choose_device
from supdocnade.runs import ProgressCallback, RunOptions
from supdocnade.scene.prediction import current_versions
from supdocnade.storage import write_atomically

STAGES = ("words", "models", "others", "svms", "page")

PRODUCTS = {"float32": "highest", "tf32": "high", "bf16": "medium"}
"""Precision of products on a GPU, and torch's name for it."""

QUICK_PER_CLASS = 24
LOG = "seconds.json"
SECONDS_BETWEEN_WRITES = 10.0
"""At least; a killed run loses the time since the last progress report that was written."""


def open_study(
    dataset: str,
    folder: Path,
    data: Path | None,
    *,
    quick: bool,
    n_splits: int = N_SPLITS,
    options: RunOptions = RunOptions(),
) -> Study:
    """Begin a study, or resume one.

    Parameters
    ----------
    data : folder of the photographs; None if the study has its words already.
    quick : a small version: few photographs of every class, with splits of their own.
    n_splits : the number of splits, where time is short.
    """
    spec = data_set(dataset)
    whole = (quick_plan if quick else full_plan)(spec)
    plan = with_splits(whole, n_splits)
    if data is None:
        return Study.resume(folder, plan)
    photos = read_photo_set(dataset, data, options.progress)
    if not quick:
        return Study.begin(folder, photos, protocol_for(photos, options), plan)
    photos = photos.take(_first_of_every_class(photos, QUICK_PER_CLASS))
    protocol = make_protocols({dataset: photos}, n_splits=whole.n_splits)[dataset]
    return Study.begin(folder, photos, protocol, plan)


def _first_of_every_class(photos: PhotoSet, n_photographs: int) -> list[int]:
    """Return the indices of a few photographs of every class, those of the least digests."""
    order = sorted(range(len(photos)), key=lambda index: photos.digests[index])
    chosen: list[int] = []
    for label in photos.classes:
        chosen += [index for index in order if photos.labels[index] == label][:n_photographs]
    return sorted(chosen)


def run_stage(
    study: Study, stage: str, options: RunOptions = RunOptions(), *, products: str = "float32"
) -> None:
    """Run one of STAGES and record its time and machine.

    Parameters
    ----------
    products : one of PRODUCTS, the precision of products on a GPU while models are trained.
    """
    options = replace(options, device=choose_device(options.device).type)
    uses_gpu = stage == "models"
    machine = describe_machine(options.device if uses_gpu else "cpu", products)
    with record_time(study, stage, machine, options.progress) as progress:
        options = replace(options, progress=progress)
        if stage == "words":
            _make_words(study, options)
        elif stage == "models":
            with _set_products(products):
                _run_models(study, options)
        elif stage == "others":
            run_other_models(study, options)
        elif stage == "svms":
            run_baselines(study, options)
        else:
            _finish(study)


def _make_words(study: Study, options: RunOptions) -> None:
    """Encode all photographs for every recipe and split."""
    for recipe in study.plan.recipes:
        for split in range(study.plan.n_splits):
            path = study.words_path(recipe, split)
            if path.exists():
                continue
            if not study.photos.paths:
                raise InvalidArgument(f"--data must name the photographs: {path} does not exist.")
            # The pictures of words are made of patches of the first recipe and split.
            with_patches = split == 0 and recipe == next(iter(study.plan.recipes))
            words, bag = encode_words(
                study.photos.paths,
                study.protocol.parts(split).train,
                study.plan.recipes[recipe].words,
                max_side=study.plan.max_side,
                seed=split,
                options=options,
                stage=f"words of {recipe}, split {split}",
            )
            if with_patches:
                save_patches(study.folder / PATCHES, bag.encoder_, study.photos.paths)
            save_words(path, words, study.words_description(recipe, split))


def _run_models(study: Study, options: RunOptions) -> None:
    """Train candidates, choose among them, and predict the test part.

    Split by split, so that a stopped run leaves whole splits.
    """
    for split in range(study.plan.n_splits):
        variants = study.plan.variants
        candidates = [
            Evaluation(setting=setting, split=split)
            for variant in variants
            for setting in variant.candidates()
        ]
        _train_and_evaluate(study, candidates, f"for choosing, split {split}", options)
        final = [each for variant in variants for each in final_evaluations(study, variant, split)]
        _train_and_evaluate(study, final, f"for testing, split {split}", options)


def _train_and_evaluate(
    study: Study, evaluations: list[Evaluation], purpose: str, options: RunOptions
) -> None:
    # Models whose predictions exist are not needed, and may have stayed on another machine.
    missing = [each for each in evaluations if study.prediction(each.key(study)) is None]
    train_models(study, missing, options, f"models {purpose}")
    predict_trained(study, evaluations, options, f"SVMs {purpose}")


def _finish(study: Study) -> None:
    """Write results and provenance."""
    provenance = {
        "quick": study.plan.quick,
        "stored_protocol": study.protocol.stored,
        "n_images": len(study.photos),
        "cuts": list(study.plan.cuts),
        **read_log(study.folder),
    }
    write_results(study, provenance)


@contextmanager
def _set_products(products: str) -> Iterator[None]:
    """Set torch's precision of products on a GPU for a while."""
    check_choice("products", products, tuple(PRODUCTS))
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(PRODUCTS[products])
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def record_time(
    study: Study, stage: str, machine: dict[str, Any], progress: ProgressCallback
) -> Iterator[ProgressCallback]:
    """Add the time of a stage to the log, also while it runs, so that a killed run has its time.

    The machine is logged if the stage made predictions. Yields the callback to use for progress.
    """
    folder = study.folder
    n_before, last = _count_predictions(folder), time.perf_counter()

    def write() -> None:
        nonlocal last
        log, now = read_log(folder), time.perf_counter()
        spent = log.get("seconds", {}).get(stage, 0.0) + now - last
        log["seconds"] = log.get("seconds", {}) | {stage: round(spent, 3)}
        machines = log.setdefault("machines", {})
        # Predictions that were there before may come from another machine.
        if _count_predictions(folder) > n_before and machine not in machines.get(stage, []):
            machines[stage] = [*machines.get(stage, []), machine]
        # A failure does not stop the stage: the next write counts from the last success.
        with suppress(UnwritableFile):
            write_atomically(folder / LOG, json.dumps(log, indent=1).encode())
            last = now

    def report(*arguments: Any) -> None:
        progress(*arguments)
        if time.perf_counter() - last >= SECONDS_BETWEEN_WRITES:
            write()

    try:
        yield report
    finally:
        write()


def _count_predictions(folder: Path) -> int:
    return sum(1 for _ in (folder / PREDICTIONS).glob("*.json"))


def read_log(folder: Path) -> dict[str, Any]:
    """Return the seconds and the machines of every stage so far, also those of stored results."""
    log: dict[str, Any] = {}
    for path in (folder / PROVENANCE, folder / LOG):
        stored = json.loads(path.read_text()) if path.is_file() else {}
        for name in ("seconds", "machines"):
            if name in stored:
                log.setdefault(name, {})
        log.get("seconds", {}).update(stored.get("seconds", {}))
        for stage, machines in stored.get("machines", {}).items():
            known = log["machines"].setdefault(stage, [])
            known += [machine for machine in machines if machine not in known]
    return log


def describe_machine(device: str, products: str) -> dict[str, Any]:
    """Return the device, the processor and the versions of packages."""
    return {
        "device": device_name(device),
        **({} if device == "cpu" else {"products": products}),
        "cpu": cpu_name(),
        **current_versions(),
    }
