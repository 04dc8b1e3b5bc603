"""The stages of a study, each of which goes on where it was stopped.

words   photographs become words; the only stage that needs the photographs (CPU)
models  topic models are trained, chosen and asked; needs words alone, and has a use for a GPU
others  yardsticks and sLDA (CPU)
page    results and their page
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch

from supdocnade.checks import check_choice
from supdocnade.devices import choose_device
from supdocnade.errors import InvalidArgument
from supdocnade.paper.answers import Question, answer_questions, questions_of
from supdocnade.paper.baselines import is_available, missing_slda, run_slda, run_yardsticks
from supdocnade.paper.data_sets import PhotoSet, data_set, read_photo_set
from supdocnade.paper.plans import full_plan, quick_plan, with_splits
from supdocnade.paper.protocol import N_SPLITS, make_protocols, protocol_for
from supdocnade.paper.qualitative import write_shown
from supdocnade.paper.results import collect, write_results
from supdocnade.paper.study import Study, recall, recorded, this_machine
from supdocnade.paper.topic_models import train_jobs
from supdocnade.paper.words import encode_words, save_words
from supdocnade.progress import ProgressCallback

PRODUCTS = {"float32": "highest", "tf32": "high", "bf16": "medium"}
"""How a GPU multiplies, and what torch calls it."""

STAGES = ("words", "models", "others", "page")

QUICK_PER_CLASS = 24
N_EXAMPLES = 16
"""Patches of a visual word that the pictures show, as in the paper."""


def open_study(
    dataset: str,
    folder: Path,
    data: Path | None,
    *,
    quick: bool,
    n_splits: int = N_SPLITS,
    on_stage: ProgressCallback,
    n_jobs: int,
) -> Study:
    """Begin a study, or go on with one.

    Parameters
    ----------
    data : folder of the photographs; None: the study has its words already.
    quick : a small version: few photographs of every class, with splits of their own.
    n_splits : the first of the splits, where time is short.
    """
    spec = data_set(dataset)
    whole = (quick_plan if quick else full_plan)(spec)
    plan = with_splits(whole, n_splits)
    if data is None:
        return Study.resume(folder, plan)
    photos = read_photo_set(dataset, data, on_stage)
    if not quick:
        return Study.begin(folder, photos, protocol_for(photos, n_jobs=n_jobs), plan)
    photos = photos.take(_first_of_every_class(photos, QUICK_PER_CLASS))
    protocol = make_protocols({dataset: photos}, n_splits=whole.n_splits)[dataset]
    return Study.begin(folder, photos, protocol, plan)


def _first_of_every_class(photos: PhotoSet, most: int) -> list[int]:
    """Return the places of a few photographs of every class, those of the least digests."""
    order = sorted(range(len(photos)), key=lambda place: photos.digests[place])
    chosen: list[int] = []
    for label in photos.classes:
        chosen += [place for place in order if photos.labels[place] == label][:most]
    return sorted(chosen)


def run_stage(
    study: Study,
    stage: str,
    *,
    device: str,
    products: str = "float32",
    backend: str,
    n_jobs: int,
    on_stage: ProgressCallback,
) -> None:
    """Do one of STAGES, and note how long it took.

    Parameters
    ----------
    products : one of PRODUCTS, how exactly a GPU multiplies while models are trained.
    """
    device = choose_device(device).type  # What results say they were made on.
    used = (device, products) if stage == "models" else ("cpu", "float32")
    count = partial(_n_answers, study)
    with recorded(study.folder, stage, this_machine(*used), count, on_stage) as report:
        if stage == "words":
            make_words(study, n_jobs=n_jobs, on_stage=report)
        elif stage == "models":
            with multiplying(products):
                run_models(study, device=device, backend=backend, n_jobs=n_jobs, on_stage=report)
        elif stage == "others":
            run_yardsticks(study, n_jobs=n_jobs, on_progress=partial(report, "yardsticks"))
            run_slda(study, n_jobs=n_jobs, on_progress=partial(report, "sLDA"))
        else:
            finish(study)


def _n_answers(study: Study) -> int:
    return sum(1 for _ in (study.folder / "answers").glob("*.json"))


def make_words(study: Study, *, n_jobs: int, on_stage: ProgressCallback) -> None:
    """Encode all photographs for every recipe and split."""
    wanted = [
        (recipe, split) for recipe in study.plan.recipes for split in range(study.plan.n_splits)
    ]
    for number, (recipe, split) in enumerate(wanted):
        path = study.words_path(recipe, split)
        if path.exists():
            continue
        if not study.photos.paths:
            raise InvalidArgument(f"--data must name the photographs: {path} is still to be made.")
        first = number == 0
        which = f"words of {recipe}, split {split}"
        words, bag = encode_words(
            study.photos.paths,
            study.protocol.parts(split).train,
            study.plan.recipes[recipe].words,
            max_side=study.plan.max_side,
            seed=split,
            n_examples=N_EXAMPLES if first else 0,
            n_jobs=n_jobs,
            progress=on_stage,
            stage=which,
        )
        if first:  # Its patches are what the pictures of classes and their words show.
            bag.save(study.folder / "patches.safetensors")
        save_words(path, words, study.words_made_from(recipe, split))


def run_models(
    study: Study, *, device: str, backend: str, n_jobs: int, on_stage: ProgressCallback
) -> None:
    """Train and ask: first what hyper-parameters are chosen from, then what they lead to."""
    for split in range(study.plan.n_splits):
        # Split by split: what a stopped run leaves behind is whole splits, not half of each.
        variants = study.plan.variants
        candidates = [
            Question(setting=setting, split=split)
            for variant in variants
            for setting in variant.candidates()
        ]
        _train_and_ask(study, candidates, "choosing", device, backend, n_jobs, on_stage)
        final = [each for variant in variants for each in questions_of(study, variant, split)]
        _train_and_ask(study, final, "testing", device, backend, n_jobs, on_stage)


def _train_and_ask(
    study: Study,
    questions: list[Question],
    what: str,
    device: str,
    backend: str,
    n_jobs: int,
    on_stage: ProgressCallback,
) -> None:
    # A model whose answers are all there is not needed, and may have stayed on another machine.
    split = questions[0].split
    open_ones = [each for each in questions if study.answer(each.key(study)) is None]
    train_jobs(
        study,
        [job for question in open_ones for job in question.jobs(study)],
        device=device,
        backend=backend,
        n_jobs=n_jobs,
        on_progress=partial(on_stage, f"models for {what}, split {split}"),
    )
    answer_questions(
        study,
        questions,
        n_jobs=n_jobs,
        on_progress=partial(on_stage, f"SVMs for {what}, split {split}"),
    )


def finish(study: Study) -> None:
    """Write results, pictures and what made them."""
    rows, scored = collect(study)
    cuts = list(study.plan.cuts)
    if missing := missing_slda(study):
        which = ", ".join(f"split {split} with {n_topics} topics" for split, n_topics in missing)
        why = "it takes long" if is_available() else "tomotopy is not installed"
        cuts.append(f"sLDA was not run for {which}: {why}")
    made = {
        "quick": study.plan.quick,
        "stored_protocol": study.protocol.stored,
        "n_images": len(study.photos),
        "cuts": cuts,
        **recall(study.folder),
    }
    write_results(study, rows, scored, made)
    write_shown(study)


@contextmanager
def multiplying(products: str) -> Iterator[None]:
    """Let torch multiply more or less exactly for a while, on a GPU."""
    check_choice("products", products, tuple(PRODUCTS))
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(PRODUCTS[products])
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
