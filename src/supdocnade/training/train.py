"""Training of a network on documents, from its initial parameters to its history."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike

from supdocnade.corpus.clustered_tree import clustered_tree
from supdocnade.corpus.documents import Documents
from supdocnade.devices import choose_device
from supdocnade.errors import InvalidArgument
from supdocnade.likelihood.operations import SOFTMAX_NLL, TREE_NLL
from supdocnade.model.config import DocNADEConfig, SupDocNADEConfig
from supdocnade.model.network import DocNADENetwork, SupDocNADENetwork, random_tree
from supdocnade.runs import RunOptions
from supdocnade.seeding import named_generator
from supdocnade.threads import limit_threads
from supdocnade.training.config import History, TrainerConfig
from supdocnade.training.trainer import make_trainer

CHECKPOINT = "checkpoint.safetensors"
"""The file in the folder `RunOptions.checkpoint`."""

MIN_GPU_WORK = 2e9
"""Words × topics × epochs that take a CPU some seconds: less than a GPU takes to start."""


def train_network(
    documents: Documents,
    config: DocNADEConfig,
    training: TrainerConfig,
    run: RunOptions = RunOptions(),
    *,
    class_weight: ArrayLike | str | None = None,
    stage: str = "learning",
    store: Callable[[int, DocNADENetwork], None] | None = None,
) -> tuple[DocNADENetwork, History]:
    """Return a network that was trained on documents, on the CPU, and the history of its training.

    Parameters
    ----------
    config : architecture; its sizes are those of the documents.
    class_weight : (C,) multiplies the class term of documents of each class; "balanced" is computed
        from the documents that are not held out for early stopping.
    stage : name of the training, for `run.progress`.
    store : called after every epoch, before `run.on_epoch`, with its number and the network.
    """
    with limit_threads(run.n_jobs):
        part, validation = documents, None
        if training.early_stopping:
            part, validation = split_for_validation(documents, training)
        if isinstance(class_weight, str):
            class_weight = part.balanced_class_weight()
        network = new_network(part, config, training, run.backend)
        network.to(_choose_device(part, config, training, run))
        trainer = make_trainer(
            network,
            training,
            class_weight=class_weight,
            checkpoint=None if run.checkpoint is None else run.checkpoint / CHECKPOINT,
            progress=run.progress,
            stage=stage,
        )

        def end_epoch(epoch: int) -> bool:
            metrics = trainer.state.history.epochs[-1].metrics
            if store is not None:
                store(epoch, network)
            return run.on_epoch is not None and bool(run.on_epoch(epoch, metrics))

        trainer.on_epoch = end_epoch
        history = trainer.fit(part, validation)
        # Inference runs on the CPU: its results do not depend on the device of the training.
        network.to("cpu")
        network.backend = "auto" if run.backend == "cuda" else run.backend
    return network, history


def new_network(
    documents: Documents, config: DocNADEConfig, training: TrainerConfig, backend: str = "auto"
) -> DocNADENetwork:
    """Return a network with the parameters with which training on the documents begins."""
    seed = training.seed
    tree = random_tree(config, seed)
    if tree is not None and training.tree == "clustered":
        tree = clustered_tree(documents, seed)
    network: DocNADENetwork
    if isinstance(config, SupDocNADEConfig):
        network = SupDocNADENetwork(config, tree, backend=backend)
        several = documents.label_BC is not None
        network.initialize_classes(
            *(documents.label_counts() if several else (documents.class_counts(),))
        )
    else:
        network = DocNADENetwork(config, tree, backend=backend)
    network.initialize(documents.word_counts(), seed)
    if config.n_tag_outputs:
        network.initialize_tags(*documents.tag_counts())
    return network


def split_for_validation(
    documents: Documents, training: TrainerConfig
) -> tuple[Documents, Documents]:
    """Return the documents to learn from, and those held out: the same share of every class."""
    generator, share = named_generator(training.seed, "split"), training.validation_fraction
    held_out = np.zeros(len(documents), np.bool_)
    for label in np.unique(documents.label_B):
        members = generator.permutation(np.flatnonzero(documents.label_B == label))
        held_out[members[: min(round(share * len(members)), len(members) - 1)]] = True
    if not held_out.any():
        raise InvalidArgument(
            f"early_stopping needs a validation part, but validation_fraction = {share:g} of "
            f"{len(documents)} documents leaves none."
        )
    return documents.take(np.flatnonzero(~held_out)), documents.take(np.flatnonzero(held_out))


def _choose_device(
    documents: Documents, config: DocNADEConfig, training: TrainerConfig, run: RunOptions
) -> torch.device:
    """Return the device to train on; "auto" takes a GPU only if there is enough work."""
    if run.device != "auto" or run.backend == "cuda":
        return choose_device("cuda" if run.device == "auto" else run.device)
    work = int(documents.length_B.sum()) * config.n_topics * training.max_epochs
    is_plain = callable(config.output) or callable(config.activation) or run.backend != "auto"
    if is_plain or work < MIN_GPU_WORK or not torch.cuda.is_available():
        return torch.device("cpu")
    operation = TREE_NLL if config.output == "tree" else SOFTMAX_NLL
    fused = operation.choose("auto", torch.device("cuda"), torch.float32) == "cuda"
    return choose_device("cuda" if fused else "cpu")
