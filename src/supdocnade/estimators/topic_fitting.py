"""Fitting of topic models: in one run, or pass by pass.

If a fit fails or is interrupted, the model is as it was before.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from supdocnade.corpus.clustered_tree import clustered_tree
from supdocnade.corpus.documents import Documents
from supdocnade.devices import choose_device
from supdocnade.errors import InvalidArgument
from supdocnade.estimators.inputs import read_annotation_names, read_seed
from supdocnade.estimators.topic_model import TopicModel
from supdocnade.likelihood.operations import SOFTMAX_NLL, TREE_NLL
from supdocnade.model.config import SupDocNADEConfig
from supdocnade.model.network import DocNADENetwork, SupDocNADENetwork, random_tree
from supdocnade.runs import EpochCallback, ProgressCallback, no_progress
from supdocnade.seeding import named_generator
from supdocnade.threads import limit_threads, one_torch_thread
from supdocnade.training.checkpoint import copy_parameters, load_seed, set_parameters
from supdocnade.training.history import History
from supdocnade.training.trainer import Trainer

CHECKPOINT = "checkpoint.safetensors"
"""The file in the folder `checkpoint`."""

MIN_GPU_WORK = 2e9
"""Words × topics × epochs that take a CPU some seconds: less than a GPU takes to start."""


@one_torch_thread()
def fit_topic_model(
    model: TopicModel,
    X: Any,
    y: Any = None,
    *,
    annotations: Any = None,
    annotation_mask: ArrayLike | None = None,
    annotation_names: Sequence[str] | None = None,
    sample_weight: ArrayLike | None = None,
    global_features: ArrayLike | None = None,
    stop_after: int | None = None,
    on_epoch: EpochCallback | None = None,
    store: Callable[[int, DocNADENetwork], None] | None = None,
    progress: ProgressCallback | None = None,
    stage: str = "learning",
) -> None:
    """Train a new network and store it in the model.

    Parameters
    ----------
    X, y, annotations, annotation_mask, annotation_names, sample_weight, global_features
        As for the model's `fit`.
    stop_after : epochs after which training ends, with the schedule of all `max_epochs`.
    on_epoch : as for the model's `fit`.
    store : called before it with the number of the epoch and the network as it is now.
    progress : called with `stage`, the updates done and their total; None prints the loss of every
        epoch if `verbose` is set.
    """
    names = read_annotation_names(annotations, annotation_names)
    prints = bool(model.verbose) and progress is None
    with restore_on_failure(model):
        documents = model._read_documents(
            X, y, annotations, annotation_mask, sample_weight, global_features
        )
        model.check()  # Invalid settings draw no seed.
        seed = choose_seed(model)
        training, validation = split_for_validation(model, documents, seed)
        network = new_network(model, training, seed)
        network.to(_training_device(model, training))
        trainer = Trainer(
            network,
            model.trainer_config(seed, stop_after=stop_after),
            class_weight=model._class_weight_C(training),
            checkpoint=None if model.checkpoint is None else Path(model.checkpoint) / CHECKPOINT,
            progress=progress or no_progress,
            stage=stage,
        )
        trainer.on_epoch = partial(_end_epoch, trainer, on_epoch, store, prints)
        with limit_threads(model.n_jobs):
            trainer.fit(training, validation)
        # Inference runs on the CPU: its results do not depend on the device of the training.
        network.to("cpu")
        model._set_network(network, names, seed)
        model.history_ = trainer.state.history
        model._trainer = None


@one_torch_thread()
def run_partial_fit(model: TopicModel, documents: Documents, names: list[str] | None) -> None:
    """Pass over the documents once, at a constant learning rate.

    Parameters
    ----------
    names : of the annotations; None: not given.
    """
    model.check()
    _check_names(model, names)
    seed = getattr(model, "seed_", None)
    seed = choose_seed(model) if seed is None else seed
    config = model.trainer_config(seed, max_epochs=1, schedule="constant", early_stopping=False)
    class_weight_C = model._class_weight_C(documents)
    if not hasattr(model, "network_"):
        network = new_network(model, documents, seed)
        model._set_network(network, names, seed)
        model.history_ = History()
    trainer: Trainer | None = getattr(model, "_trainer", None)
    if trainer is None or trainer.config.optimizer != config.optimizer:
        trainer = Trainer(model.network_, config)
        trainer.state.history, trainer.state.epoch = model.history_, len(model.history_.epochs)
    trainer.config = config
    trainer.set_class_weight(class_weight_C)
    before = copy_parameters(model.network_)
    # If the pass fails half-way, the optimizer is dropped and the parameters are restored.
    model._trainer = None
    try:
        with limit_threads(model.n_jobs):
            trainer.run_epoch(documents)
    except BaseException:
        set_parameters(model.network_, before)
        raise
    model._trainer = trainer
    if model.verbose:
        _print_epoch(trainer)  # There is no last epoch: the passes are only counted.


def _print_epoch(trainer: Trainer, total: str = "") -> None:
    last = trainer.state.history.epochs[-1]
    print(f"epoch {last.epoch}{total}: loss {last.loss:.4f}", flush=True)


@contextmanager
def restore_on_failure(model: TopicModel) -> Iterator[None]:
    """Restore the attributes of a model if its fit fails or is interrupted."""
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        dropped = vars(model).get("_trainer", model) is None
        model.__dict__.clear()
        model.__dict__.update(before)
        if dropped:
            model._trainer = None
        raise


def _end_epoch(
    trainer: Trainer,
    on_epoch: EpochCallback | None,
    store: Callable[[int, DocNADENetwork], None] | None,
    prints: bool,
    epoch: int,
) -> bool:
    """Print the loss of an epoch, and call the callbacks of a fit; return True if they end it."""
    if prints:
        _print_epoch(trainer, f"/{trainer.config.max_epochs}")
    if store is not None:
        store(epoch, trainer.network)
    return on_epoch is not None and bool(on_epoch(epoch, trainer.state.history.epochs[-1].metrics))


def choose_seed(model: TopicModel) -> int:
    """Return the seed of a fit: that of the checkpoint if it resumes one without a seed."""
    if model.random_state is None and model.checkpoint is not None:
        path = Path(model.checkpoint) / CHECKPOINT
        stored = load_seed(path) if path.exists() else None
        if stored is not None:
            return stored
    return read_seed(model.random_state)


def new_network(model: TopicModel, documents: Documents, seed: int) -> DocNADENetwork:
    """Return an initialized network for some documents."""
    config = model.network_config(
        n_classes=documents.n_classes,
        several_labels=documents.label_BC is not None,
        n_visual_words=documents.n_visual_words,
        n_annotation_words=documents.n_annotation_words,
        n_global_features=documents.n_global_features,
    )
    tree = random_tree(config, seed)
    if tree is not None and model.tree == "clustered":
        tree = clustered_tree(documents, seed)
    network: DocNADENetwork
    if isinstance(config, SupDocNADEConfig):
        network = SupDocNADENetwork(config, tree, backend=model.backend)
        several = documents.label_BC is not None
        network.initialize_classes(
            *(documents.label_counts() if several else (documents.class_counts(),))
        )
    else:
        network = DocNADENetwork(config, tree, backend=model.backend)
    network.initialize(documents.word_counts(), seed)
    if config.n_tag_outputs:
        network.initialize_tags(*documents.tag_counts())
    return network


def split_for_validation(
    model: TopicModel, documents: Documents, seed: int
) -> tuple[Documents, Documents | None]:
    """Hold documents out for early stopping: the same share of every class."""
    if not model.early_stopping:
        return documents, None
    generator = named_generator(seed, "split")
    held_out = np.zeros(len(documents), np.bool_)
    for label in np.unique(documents.label_B):
        members = generator.permutation(np.flatnonzero(documents.label_B == label))
        share = min(round(model.validation_fraction * len(members)), len(members) - 1)
        held_out[members[:share]] = True
    if not held_out.any():
        raise InvalidArgument(
            f"early_stopping needs a validation part, but validation_fraction = "
            f"{model.validation_fraction:g} of {len(documents)} documents leaves none."
        )
    return documents.take(np.flatnonzero(~held_out)), documents.take(np.flatnonzero(held_out))


def _training_device(model: TopicModel, documents: Documents) -> torch.device:
    """Return the device to train on; "auto" takes a GPU only if there is enough work."""
    if model.device != "auto" or model.backend == "cuda":
        return choose_device("cuda" if model.device == "auto" else model.device)
    work = int(documents.length_B.sum()) * model.n_topics * model.max_epochs
    if callable(model.output) or callable(model.activation):
        return choose_device("cpu")
    if model.backend != "auto" or work < MIN_GPU_WORK or not torch.cuda.is_available():
        return choose_device("cpu")
    operation = TREE_NLL if model.output == "tree" else SOFTMAX_NLL
    fused = operation.choose("auto", torch.device("cuda"), torch.float32) == "cuda"
    return choose_device("cuda" if fused else "cpu")


def _check_names(model: TopicModel, names: list[str] | None) -> None:
    """Raise `InvalidArgument` if annotation columns are not named as in the first call."""
    if names is None or not hasattr(model, "network_"):
        return
    before = None if model.annotation_names_ is None else model.annotation_names_.tolist()
    if names != before:
        raise InvalidArgument(
            f"annotation_names must be those of the first call, {before}, got {names}."
        )
