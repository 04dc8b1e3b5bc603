"""Training of a network on documents, from its initial parameters to its history.

`train_network` prepares a training, and a `Trainer` runs its loop: batches, objective, updates,
history, early stopping and checkpoints. Every random choice is a function of the seed and of the
position of the run, so a run that was killed and resumed from its checkpoint gives bit for bit the
network of one that was not.
"""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from supdocnade.checks import check_shape
from supdocnade.corpus.clustered_tree import clustered_tree
from supdocnade.corpus.documents import Documents
from supdocnade.corpus.tokens import Rows
from supdocnade.errors import InvalidArgument
from supdocnade.likelihood.contract import Batch
from supdocnade.likelihood.operations import choose_device, own_trainer
from supdocnade.model.config import DocNADEConfig
from supdocnade.model.network import DocNADENetwork, SupDocNADENetwork, make_network, random_tree
from supdocnade.runs import EpochCallback, ProgressCallback, RunOptions, no_progress
from supdocnade.seeding import named_generator, token_order
from supdocnade.threads import limit_threads
from supdocnade.training.checkpoint import (
    copy_parameters,
    describe_run,
    load_checkpoint,
    save_checkpoint,
    set_parameters,
)
from supdocnade.training.config import METRICS, EpochRecord, History, TrainerConfig
from supdocnade.training.objective import (
    batch_loss,
    check_finite,
    drop_features,
    epoch_batches,
    make_batch,
)
from supdocnade.training.validation import available_metrics, compute_metrics

CHECKPOINT = "checkpoint.safetensors"
"""The file in the folder `RunOptions.checkpoint`."""

ADAM_BETAS, ADAM_EPSILON = (0.9, 0.999), 1e-8
"""β and ε of Adam (Kingma and Ba 2015)."""


def train_network(
    documents: Documents,
    config: DocNADEConfig,
    training: TrainerConfig,
    run: RunOptions = RunOptions(),
    *,
    class_weight: ArrayLike | str | None = None,
    stage: str = "learning",
) -> tuple[DocNADENetwork, History]:
    """Return a network that was trained on documents, on the CPU, and the history of its training.

    Parameters
    ----------
    config : architecture; its sizes are those of the documents.
    class_weight : (C,) multiplies the class term of documents of each class; "balanced" is computed
        from the documents that are not held out for early stopping.
    stage : name of the training, for `run.progress`.
    """
    with limit_threads(run.n_jobs):
        part, validation = documents, None
        if training.early_stopping:
            part, validation = split_for_validation(documents, training)
        if isinstance(class_weight, str):
            class_weight = part.balanced_class_weight()
        network = new_network(part, config, training)
        work = 0
        if network.output.has_backends:
            work = int(part.length_B.sum()) * config.n_topics * training.max_epochs
        network.to(choose_device(run.device, work, config.activation))
        trainer = make_trainer(
            network,
            training,
            class_weight=class_weight,
            checkpoint=None if run.checkpoint is None else run.checkpoint / CHECKPOINT,
            progress=run.progress,
            stage=stage,
            on_epoch=run.on_epoch,
        )
        history = trainer.fit(part, validation)
        # Inference runs on the CPU: its results do not depend on the device of the training.
        network.to("cpu")
    return network, history


def new_network(
    documents: Documents, config: DocNADEConfig, training: TrainerConfig
) -> DocNADENetwork:
    """Return a network with its initial parameters for training on the documents."""
    seed = training.seed
    tree = random_tree(config, seed)
    if tree is not None and training.tree == "clustered":
        tree = clustered_tree(documents, seed)
    network = make_network(config, tree)
    network.initialize(documents, seed)
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


class Trainer:
    """Trains a network on documents, one update after the other.

    Parameters
    ----------
    network : an initialized network, trained in place.
    config : settings of the run.
    class_weight : (C,) multiplies the class term of documents of each class.
    checkpoint : file that is written after every epoch, and resumed from if it exists.
    progress : called with `stage`, the updates done and their total. The trainer itself
        prints nothing.
    on_epoch : called with the number of every completed epoch and its metrics before its checkpoint
        is written; after a kill it is called again for an epoch whose checkpoint was not written.
        If it returns True, training ends.
    """

    substitute: "ClassVar[type[Trainer] | None]" = None
    """Class that `make_trainer` makes instead of any other, if it is set."""

    def __init__(
        self,
        network: DocNADENetwork,
        config: TrainerConfig,
        *,
        class_weight: ArrayLike | None = None,
        checkpoint: Path | None = None,
        progress: ProgressCallback = no_progress,
        stage: str = "learning",
        on_epoch: EpochCallback | None = None,
    ):
        self.network = network
        self.config = config
        self.set_class_weight(class_weight)
        self.checkpoint = checkpoint
        self.progress, self.stage = progress, stage
        self.on_epoch = on_epoch
        self.optimizer = self.make_optimizer()
        self.history = History()
        self.best: dict[str, Tensor] | None = None
        """Parameters of the best epoch."""

    def set_class_weight(self, class_weight: ArrayLike | None) -> None:
        """Replace the factors of the class terms, (C,)."""
        self.class_weight_C = check_class_weight(self.network, class_weight)

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Return an optimizer of all parameters of the network."""
        parameters, rate = self.network.parameters(), self.config.learning_rate
        if self.config.optimizer == "sgd":
            return torch.optim.SGD(parameters, lr=rate)
        # fused: one pass over each parameter; elementwise, so threads do not change its bits.
        return torch.optim.Adam(parameters, lr=rate, betas=ADAM_BETAS, eps=ADAM_EPSILON, fused=True)

    def fit(self, documents: Documents, validation: Documents | None = None) -> History:
        """Train until `max_epochs` or until the validation metric stops improving.

        Parameters
        ----------
        validation : measured after every epoch; early stopping needs it.
        """
        self._check(documents, validation)
        config, path, described = self.config, self.checkpoint, {}
        if path is not None:
            given = self.network, config, self.class_weight_C, documents, validation
            described = describe_run(*given)
        with limit_threads():
            if path is not None and path.exists():
                found = load_checkpoint(path, described, self.network, self.optimizer)
                self.history, self.best = found
            while not self.history.stopped_early and self.epoch < config.max_epochs:
                self.run_epoch(documents)
                if validation is not None:
                    self._validate(validation)
                metrics = self.history.epochs[-1].metrics
                if self.on_epoch is not None and self.on_epoch(self.epoch, metrics):
                    self.history.stopped_early = True
                if path is not None:
                    run = self.history, self.best, self.network, self.optimizer
                    save_checkpoint(path, described, *run)
            if self.best is not None:
                set_parameters(self.network, self.best)
        return self.history

    @property
    def epoch(self) -> int:
        """The number of epochs that are completed."""
        return len(self.history.epochs)

    def run_epoch(self, documents: Documents) -> None:
        """Pass over the documents once."""
        config, epoch = self.config, self.epoch
        parameters, loss_sum = list(self.network.parameters()), 0.0
        device = self.network.word_embedding.device
        size = config.batch_of(len(documents))
        batches = epoch_batches(len(documents), size, config.seed, epoch)
        weights = config.generative_weight, self.class_weight_C, config.annotation_weight
        with limit_threads():
            for update, rows_B in enumerate(batches):
                batch, n_documents = self.gather(documents, rows_B).to(device), len(rows_B)
                when = f"in epoch {epoch + 1}, update {update + 1}"
                for parameter in parameters:
                    parameter.grad = None
                value = self.differentiate(batch_loss(self.network, batch, *weights, n_documents))
                check_finite(config, "the objective", value, when)
                if config.clip_norm is not None:
                    norm = clip_gradients(parameters, config.clip_norm)
                    check_finite(config, "the norm of the gradients", float(norm), when)
                set_learning_rate(self.optimizer, config.rate_at(epoch, update, len(batches)))
                self.optimizer.step()
                loss_sum += value * n_documents
                self.report(update + 1, len(batches))
            # No later update would notice that the last one diverged.
            with torch.no_grad():
                batch = self.gather(documents, batches[-1]).to(device)
                value = self.differentiate(
                    batch_loss(self.network, batch, *weights, len(batches[-1]))
                )
            check_finite(config, "the objective", value, f"after epoch {epoch + 1}")
        self.end_epoch(loss_sum / len(documents), len(batches))

    def gather(self, documents: Documents, rows_B: Rows) -> Batch:
        """Return some documents with their words in the order of this epoch."""
        config, epoch = self.config, self.epoch
        batch = make_batch(
            documents,
            rows_B,
            token_order(config.seed, epoch, rows_B, documents.length_B[rows_B]),
            annotation_weight=config.annotation_weight,
            n_summary_words=self.network.n_summary_words,
        )
        return drop_features(batch, config.global_dropout, config.seed, epoch, rows_B)

    def differentiate(self, loss: Tensor) -> float:
        """Return the value of a loss, and compute its gradients unless autograd is disabled."""
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def report(self, update: int, n_updates: int) -> None:
        """Report the progress after an update of an epoch."""
        done = self.epoch * n_updates + update
        self.progress(self.stage, done, self.config.max_epochs * n_updates)

    def end_epoch(self, loss: float, n_updates: int) -> None:
        """Record an epoch."""
        rate = self.config.rate_at(self.epoch, max(n_updates - 1, 0), n_updates)
        record = EpochRecord(epoch=self.epoch + 1, learning_rate=rate, loss=loss)
        self.history.epochs.append(record)

    def _validate(self, validation: Documents) -> None:
        """Measure the validation set, keep the best epoch and decide whether to stop early."""
        config, history = self.config, self.history
        metrics = history.epochs[-1].validation
        metrics.update(
            compute_metrics(
                self.network,
                validation,
                generative_weight=config.generative_weight,
                annotation_weight=config.annotation_weight,
                seed=config.seed,
                class_weight_C=self.class_weight_C,
            )
        )
        for name, value in metrics.items():
            when = f"after epoch {self.epoch}"
            check_finite(config, f"the {name} of the validation set", value, when)
        if not config.early_stopping:
            return
        best, name, sign = history.best_epoch, config.metric, METRICS[config.metric]
        if best is None or sign * metrics[name] > sign * history.epochs[best - 1].validation[name]:
            history.best_epoch, self.best = self.epoch, copy_parameters(self.network)
        elif self.epoch - best >= config.n_epochs_no_change:
            history.stopped_early = True

    def _check(self, documents: Documents, validation: Documents | None) -> None:
        """Raise `InvalidArgument` if there is nothing to learn, or to stop early by."""
        if len(documents) == 0:
            raise InvalidArgument("documents must be at least one, got none.")
        if self.config.early_stopping:
            if validation is None or len(validation) == 0:
                raise InvalidArgument("early_stopping needs a validation set, got none.")
            available = available_metrics(self.network, validation)
            if self.config.metric not in available:
                raise InvalidArgument(
                    f"metric must be one of {available} for this network and validation set, "
                    f"got {self.config.metric!r}."
                )


def make_trainer(network: DocNADENetwork, config: TrainerConfig, **options: Any) -> Trainer:
    """Return a `Trainer`, or what the backend of the network has in its place."""
    kind = Trainer.substitute or own_trainer(network.backend) or Trainer
    trainer: Trainer = kind(network, config, **options)
    return trainer


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float | Tensor) -> None:
    """Set the learning rate of the next update."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].copy_(torch.as_tensor(rate))
        else:
            group["lr"] = rate


@torch.no_grad()
def clip_gradients(parameters: list[nn.Parameter], clip_norm: float) -> Tensor:
    """Scale all gradients down if their common norm is larger than this; return the norm before."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    norms = [torch.linalg.vector_norm(gradient, dtype=torch.float64) for gradient in gradients]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    factor = (clip_norm / norm).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor)
    return norm


def check_class_weight(network: DocNADENetwork, class_weight: ArrayLike | None) -> Tensor | None:
    """Return class weights on the device of the network, (C,), or raise `InvalidArgument`."""
    if class_weight is None:
        return None
    if not isinstance(network, SupDocNADENetwork):
        raise InvalidArgument("class_weight needs a network with classes.")
    weight_C = torch.as_tensor(np.asarray(class_weight, np.float32))
    check_shape("class_weight", weight_C.shape, (network.config.n_classes,))
    if not bool((weight_C.isfinite() & (weight_C >= 0)).all()):
        raise InvalidArgument(
            f"class_weight must be finite and not negative, got {weight_C.tolist()}."
        )
    return weight_C.to(network.word_embedding.device)
