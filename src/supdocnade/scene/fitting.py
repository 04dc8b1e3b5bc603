"""How a scene model is fitted.

1. A share of the photographs is held out (`photographs.hold_out`).
2. Visual words are learned from the others, and all photographs are encoded, with `mirror` their
   mirror images, too.
3. A topic model and an SVM are fitted on the others and their mirror images; epochs, the SVM's C
   and γ, the temperature, what ranks tags and their thresholds are those that do best on the
   photographs held out, of which neither has seen either side.
4. Everything is fitted again on all photographs with these choices. Figures are those of step 3.
5. Small copies of some photographs are kept (`keeping`), to show what was learned.
"""

import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from supdocnade.checks import check_choice, check_count, check_range
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.bag_of_visual_words import BagOfVisualWords, SkippedImagesWarning
from supdocnade.estimators.docnade import DocNADE
from supdocnade.estimators.fitted_topics import FittedTopics
from supdocnade.estimators.supdocnade import SupDocNADE
from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.images.decode import DecodeConfig
from supdocnade.images.dense_sift import DenseSIFTConfig
from supdocnade.images.regions import Regions
from supdocnade.likelihood.contract import ACTIVATIONS
from supdocnade.run_options import RunOptions
from supdocnade.scene.calibration import fit_tags
from supdocnade.scene.dataset import Photographs, hold_out
from supdocnade.scene.prediction import Choices, FittedScene
from supdocnade.scene.selection import (
    DEFAULT_C,
    DEFAULT_GAMMA,
    Candidate,
    Evaluated,
    choose,
    measure,
)
from supdocnade.scene.settings import SceneSettings
from supdocnade.scene.svm import RBFSVM, fit_svm
from supdocnade.scene.tags import shares_of
from supdocnade.scene.thumbnails import make_thumbnails
from supdocnade.scene.training_set import HeldOut, SceneDocuments, TrainingSet
from supdocnade.seeding import named_generator
from supdocnade.storage import load_arrays, save_arrays
from supdocnade.training.checkpoint import copy_parameters
from supdocnade.training.history import TrainingProgress
from supdocnade.training.trainer_config import TrainerConfig
from supdocnade.visual_words.parallel import SkippedImage

EPOCH_SHARES = (0.5, 0.75, 1.0)
"""Of the schedule: after these many epochs a model is looked at."""

TUNED = {
    "generative_weight": (1e-3, 1e-2, 1e-1),
    "learning_rate": (1e-4, 3e-4),
    "annotation_weight": (1.0, 30.0),
}

MAX_SVM = 30_000
"""Labelled photographs, mirror images counted: 24 bytes for every pair, 22 GB."""


def check_settings(settings: SceneSettings) -> None:
    """Refuse settings that some later step would refuse, before any work is done."""
    DenseSIFTConfig(step=settings.step, patch_size=settings.patch_size)
    DecodeConfig(max_side=settings.max_side)
    Regions.of(settings.grid)
    check_count("n_words", settings.n_words, least=2)
    check_range("contrast_percentile", settings.contrast_percentile, least=0, most=100)
    check_choice("activation", settings.activation, ACTIVATIONS)
    TrainerConfig(
        generative_weight=settings.generative_weight,
        annotation_weight=settings.annotation_weight,
        learning_rate=settings.learning_rate,
    )


def check_size(photographs: Photographs, settings: SceneSettings) -> None:
    """Refuse what would need more memory than there is, before any work is done."""
    n_labelled = len(photographs) - photographs.labels.count(None)
    most, also = (MAX_SVM // 2, ", or mirror=False") if settings.mirror else (MAX_SVM, "")
    if settings.classifier == "svm" and n_labelled > most:
        raise InvalidArgument(
            f"classifier 'svm' takes at most {most} labelled photographs, since its memory "
            f"grows with their square, got {n_labelled}; use classifier 'softmax'{also}."
        )


def fit_scene(
    photographs: Photographs, settings: SceneSettings, seed: int, options: RunOptions
) -> tuple[FittedScene, tuple[SkippedImage, ...]]:
    """Fit a scene model; return it with the photographs that could not be read."""
    _check(photographs)
    check_size(photographs, settings)
    photographs = photographs.with_keys(options.progress)
    held_B = _held_out(photographs, settings, seed)
    bag = _learn_words(photographs.take(np.flatnonzero(~held_B)), settings, seed, options)
    learned, skipped = _read(bag, photographs, ~held_B, settings, options)
    return _fit_read(bag, learned, ~learned.in_words_B, settings, seed, options), skipped


def extend_scene(
    previous: FittedScene,
    photographs: Photographs,
    settings: SceneSettings,
    seed: int,
    options: RunOptions,
) -> tuple[FittedScene, tuple[SkippedImage, ...]]:
    """Fit a model on what another was learned from and on more photographs, with its words."""
    _check(photographs)
    bag = copy(previous.bag)
    bag.set_params(
        n_jobs=options.n_jobs,
        device=options.device,
        on_error=options.on_error,
        cache=options.cache,
    )
    new = photographs.with_keys(options.progress)
    learned, skipped = _read(bag, new, np.zeros(len(new), np.bool_), settings, options)
    both = previous.training_set.joined(learned)
    # Of what the words were learned from nothing can be held out.
    held_B = _held_out(both.photographs, settings, seed, both.in_words_B)
    fitted = _fit_read(bag, both, held_B, settings, seed, options)
    held_out = [image.name for image in fitted.held_out.images]
    examples = fitted.thumbnails.with_those_of(previous.thumbnails, held_out)
    return replace(fitted, thumbnails=examples), skipped


def _held_out(
    photographs: Photographs,
    settings: SceneSettings,
    seed: int,
    never_B: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    if settings.held_out == 0:
        return np.zeros(len(photographs), np.bool_)
    return hold_out(photographs, settings.held_out, seed, never_B)


def _read(
    bag: BagOfVisualWords,
    photographs: Photographs,
    in_words_B: NDArray[np.bool_],
    settings: SceneSettings,
    options: RunOptions,
) -> tuple[TrainingSet, tuple[SkippedImage, ...]]:
    """Return photographs as words, and those that could not be read."""
    encoded = bag.encode(photographs.sources, both_sides=settings.mirror, progress=options.progress)
    read = np.flatnonzero(encoded.read)
    _check(photographs.take(read))
    mirrored = None if encoded.mirrored is None else encoded.mirrored[read]
    learned = TrainingSet(photographs.take(read), encoded.counts[read], in_words_B[read], mirrored)
    return learned, encoded.skipped


def _fit_read(
    bag: BagOfVisualWords,
    learned: TrainingSet,
    held_B: NDArray[np.bool_],
    settings: SceneSettings,
    seed: int,
    options: RunOptions,
) -> FittedScene:
    """Choose, and fit on all, with the photographs as words."""
    data = SceneDocuments.of(learned, settings.damping)
    choices, held_out = _choose(data, held_B, settings, seed, options)
    final = settings.tuned(choices.tuned)
    vocabulary = AnnotationVocabulary.of(data.photographs.tags, min_count=settings.min_tag_count)
    topics = _fit_topics(
        data, vocabulary, final, seed, options, "learning from all", stop_after=choices.n_epochs
    )
    svm = _final_svm(topics, data, choices, settings, options)
    classes = tuple(data.photographs.classes)
    share_CA = shares_of(data.photographs, classes, vocabulary)
    examples = make_thumbnails(
        data.photographs,
        topics.transform(data.counts),
        topics,
        held_out.images,
        options,
    )
    # Where and how the work was done is no part of the model.
    bag.set_params(n_jobs=None, cache=None, device="auto")
    topics.set_params(n_jobs=None, checkpoint=None, device="auto")
    return FittedScene(
        settings=settings,
        bag=bag,
        topics=topics,
        classes=classes,
        svm=svm,
        tag_names=vocabulary.names,
        tag_frequency_A=_frequency(vocabulary, data.photographs),
        class_tag_share_CA=share_CA if choices.class_tag_weight else None,
        choices=choices,
        held_out=held_out,
        data=_describe(data),
        training_set=learned,
        thumbnails=examples,
    )


def _check(photographs: Photographs) -> None:
    if not len(photographs):
        raise InvalidArgument("images must have a photograph that can be read, got none.")


def _learn_words(
    photographs: Photographs, settings: SceneSettings, seed: int, options: RunOptions
) -> BagOfVisualWords:
    bag = BagOfVisualWords(
        settings.n_words,
        settings.grid,
        settings.step,
        settings.patch_size,
        settings.max_side,
        upscale=False,
        contrast_percentile=settings.contrast_percentile,
        n_jobs=options.n_jobs,
        device=options.device,
        random_state=seed,
        on_error=options.on_error,
        cache=options.cache,
    )
    with warnings.catch_warnings():
        # They are reported once, when all photographs have been read.
        warnings.simplefilter("ignore", SkippedImagesWarning)
        bag.fit(photographs.sources, progress=options.progress)
    return bag


def _choose(
    data: SceneDocuments,
    held_B: NDArray[np.bool_],
    settings: SceneSettings,
    seed: int,
    options: RunOptions,
) -> tuple[Choices, HeldOut]:
    """Fit on the photographs that are not held out, and choose what does best on the others."""
    if not held_B.any():
        return _unchosen(data, settings), HeldOut()
    part, rest = data.take(np.flatnonzero(~held_B)), data.take(np.flatnonzero(held_B))
    vocabulary = AnnotationVocabulary.of(part.photographs.tags, min_count=settings.min_tag_count)
    best: Evaluated | None = None
    trials = _trials(settings, seed)
    for number, tuned in enumerate(trials):
        stage = "learning" if len(trials) == 1 else f"trial {number + 1} of {len(trials)}"
        candidates = _candidates(
            part, rest, vocabulary, settings.tuned(tuned), seed, options, stage
        )
        found = choose(
            candidates,
            part.photographs,
            rest.photographs,
            vocabulary,
            settings.classifier,
            tuned=tuned,
            options=options,
            stage="choosing" if len(trials) == 1 else f"{stage}, choosing",
        )
        best = found if best is None or found.score > best.score else best
    assert best is not None, "there is always one trial"
    return measure(best, rest.photographs, vocabulary, _frequency(vocabulary, part.photographs))


def _unchosen(data: SceneDocuments, settings: SceneSettings) -> Choices:
    """Return what is taken where there is nothing to choose on: the model at its word."""
    tags = AnnotationVocabulary.of(data.photographs.tags, min_count=settings.min_tag_count)
    nothing = np.empty((0, len(tags)))
    frequency_A = _frequency(tags, data.photographs)
    calibration = fit_tags(nothing, frequency_A, nothing > 0) if len(tags) else None
    return Choices(n_epochs=settings.n_passes, C=DEFAULT_C, gamma=DEFAULT_GAMMA, tags=calibration)


def _trials(settings: SceneSettings, seed: int) -> list[dict[str, float]]:
    """Return the settings to try: those given, and with `tune` others of the grid at random."""
    if not settings.tune:
        return [{}]
    grid = [
        {"generative_weight": weight, "learning_rate": rate, "annotation_weight": tags}
        for weight in TUNED["generative_weight"]
        for rate in TUNED["learning_rate"]
        for tags in TUNED["annotation_weight"]
    ]
    given = {name: getattr(settings, name) for name in TUNED}
    order = named_generator(seed, "tuning").permutation(len(grid))
    others = [grid[i] for i in order if grid[i] != given]
    return [{}, *others[: settings.tune_trials - 1]]


def _candidates(
    part: SceneDocuments,
    rest: SceneDocuments,
    vocabulary: AnnotationVocabulary,
    settings: SceneSettings,
    seed: int,
    options: RunOptions,
    stage: str,
) -> list[Candidate]:
    """Fit a topic model and look at it after several numbers of epochs."""
    epochs = sorted({max(round(share * settings.n_passes), 1) for share in EPOCH_SHARES})
    kept: dict[int, Any] = {}
    folder = None if options.checkpoint is None else options.checkpoint / stage.replace(" ", "-")

    def keep(network: Any, epoch: int) -> None:
        if epoch in epochs:
            # They are looked at here, wherever the network learns.
            kept[epoch] = {name: p.cpu() for name, p in copy_parameters(network).items()}
            if folder is not None:
                arrays = {name: value.numpy() for name, value in kept[epoch].items()}
                save_arrays(folder / f"epoch-{epoch}.safetensors", arrays, {"epoch": epoch})

    topics = _fit_topics(part, vocabulary, settings, seed, options, stage, on_epoch=keep)
    candidates = []
    for epoch in epochs:
        if epoch not in kept and folder is not None:  # Of a run that was resumed.
            arrays, _ = load_arrays(folder / f"epoch-{epoch}.safetensors")
            kept[epoch] = {name: torch.from_numpy(array) for name, array in arrays.items()}
        seen, unseen = part.counts_of_sides, rest.counts
        candidates.append(Candidate.of(topics, kept[epoch], epoch, seen, unseen))
    return candidates


def _fit_topics(
    data: SceneDocuments,
    vocabulary: AnnotationVocabulary,
    settings: SceneSettings,
    seed: int,
    options: RunOptions,
    stage: str,
    *,
    stop_after: int | None = None,
    on_epoch: Any = None,
) -> Any:
    """Fit DocNADE, or SupDocNADE where there are labels."""
    shared: dict[str, Any] = {
        "n_topics": settings.n_topics,
        "activation": settings.activation,
        "annotation_weight": settings.annotation_weight,
        "learning_rate": settings.learning_rate,
        "batch_size": settings.batch_of(len(data.photographs)),
        "max_epochs": settings.n_passes,
        "n_jobs": options.n_jobs,
        "device": options.device,
        "random_state": seed,
        "checkpoint": (
            None if options.checkpoint is None else options.checkpoint / stage.replace(" ", "-")
        ),
    }
    topics: FittedTopics
    labels: list[str | None] | None = None
    if data.photographs.classes:
        topics = SupDocNADE(**shared, generative_weight=settings.generative_weight)
        labels = data.labels_of_sides
    else:
        topics = DocNADE(**shared)
    topics._stop_after, topics._on_epoch = stop_after, on_epoch
    topics._on_progress = _by_updates(options, stage, stop_after or settings.n_passes)
    try:
        topics.fit(data.counts_of_sides, labels, **data.tags_of_sides(vocabulary))
    finally:
        topics._stop_after = topics._on_epoch = topics._on_progress = None
    return topics


def _by_updates(
    options: RunOptions, stage: str, n_epochs: int
) -> Callable[[TrainingProgress], None]:
    """Count the updates of all epochs."""

    def on_progress(progress: TrainingProgress) -> None:
        done = (progress.epoch - 1) * progress.n_updates + progress.update
        options.progress(stage, done, n_epochs * progress.n_updates)

    return on_progress


def _final_svm(
    topics: Any,
    data: SceneDocuments,
    choices: Choices,
    settings: SceneSettings,
    options: RunOptions,
) -> RBFSVM | None:
    classes = data.photographs.classes
    if settings.classifier != "svm" or len(classes) < 2:
        return None
    C, gamma = choices.C or DEFAULT_C, choices.gamma or DEFAULT_GAMMA
    numbers = np.tile(data.photographs.label_numbers(classes), data.n_sides)
    known = np.flatnonzero(numbers >= 0)
    hidden = topics.transform(data.counts_of_sides[known])
    return fit_svm(
        hidden,
        numbers[known],
        len(classes),
        C=C,
        gamma=gamma,
        n_jobs=options.n_jobs,
    )


def _frequency(vocabulary: AnnotationVocabulary, photographs: Photographs) -> Any:
    tags = vocabulary.encode(photographs.tags)
    total = np.asarray(tags.annotations.sum(axis=0), np.float64)
    return total / max(int(tags.known.sum()), 1)


def _describe(data: SceneDocuments) -> dict[str, Any]:
    photographs = data.photographs
    return {
        "n_images": len(photographs),
        "images_of_class": {
            label: photographs.labels.count(label) for label in photographs.classes
        },
        "n_unlabelled": photographs.labels.count(None),
        "n_tagged": sum(tags is not None for tags in photographs.tags),
        "fingerprint": photographs.fingerprint(),
    }
