"""Updates of the parameters of a network, one per batch."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import torch

from supdocnade.corpus.counts import Rows
from supdocnade.corpus.documents import Documents
from supdocnade.model.network import DocNADENetwork
from supdocnade.seeding import token_order
from supdocnade.threads import start_ahead
from supdocnade.training.batches import LabelledBatch, drop_features, make_batch
from supdocnade.training.objective import batch_loss, check_finite
from supdocnade.training.optimizers import clip_gradients, coalesce_gradients, set_learning_rate
from supdocnade.training.trainer_config import TrainerConfig

if TYPE_CHECKING:
    from supdocnade.training.distributed import TrainingProcesses


class Updates(Protocol):
    """The updates of one network on one corpus, epoch by epoch.

    Each raises `TrainingDiverged` when it finds a number that is not finite.
    """

    synchronous: bool
    """True if `run` waits for its update, so that reading the loss after it costs nothing."""

    def begin_epoch(self, epoch: int, batches: list[Rows]) -> None:
        """Prepare an epoch.

        Parameters
        ----------
        epoch : counted from 0.
        batches : the documents of every update of the epoch.
        """

    def run(self) -> None:
        """Run, or only start, the next update of the epoch."""

    def loss_sum(self) -> float:
        """Return the objective, summed over the documents of the epoch so far."""

    def end_epoch(self) -> None:
        """Check the result of the last update."""


class EagerUpdates:
    """Updates computed one after the other, on any device.

    Parameters
    ----------
    class_weight_C : multiplies the class term of documents of each class.
    processes : those that share the work; None: this one does all of it.
    """

    synchronous = True

    def __init__(
        self,
        network: DocNADENetwork,
        config: TrainerConfig,
        corpus: Documents,
        optimizers: list[torch.optim.Optimizer],
        class_weight_C: torch.Tensor | None,
        processes: "TrainingProcesses | None" = None,
    ):
        self.network, self.config, self.corpus = network, config, corpus
        self.optimizers, self.class_weight_C = optimizers, class_weight_C
        self._processes = processes
        self._epoch, self._update, self._loss_sum = 0, 0, 0.0
        self._batches: list[Rows] = []
        self._ahead: tuple[int, Callable[[], LabelledBatch]] | None = None

    def begin_epoch(self, epoch: int, batches: list[Rows]) -> None:
        """See `Updates`."""
        self._epoch, self._batches, self._ahead = epoch, batches, None
        self._update, self._loss_sum = 0, 0.0

    def run(self) -> None:
        """See `Updates`."""
        config, parameters = self.config, list(self.network.parameters())
        position = self._epoch, self._update, len(self._batches)
        when = f"in epoch {self._epoch + 1}, update {self._update + 1}"
        for parameter in parameters:
            parameter.grad = None
        loss = self._loss(self._update)
        loss.backward()  # type: ignore[no-untyped-call]
        coalesce_gradients(parameters)
        value = self._sum(loss.detach(), self.network)
        check_finite(config, "the objective", value, when)
        if config.clip_norm is not None:
            norm = clip_gradients(parameters, config.clip_norm)
            check_finite(config, "the norm of the gradients", float(norm), when)
        for optimizer in self.optimizers:
            set_learning_rate(optimizer, config.rate_at(*position))
            optimizer.step()
        self._loss_sum += value * len(self._batches[self._update])
        self._update += 1

    def loss_sum(self) -> float:
        """See `Updates`."""
        return self._loss_sum

    def end_epoch(self) -> None:
        """Compute the last objective again: no later update would notice that it diverged."""
        if not self._batches:
            return
        with torch.no_grad():
            loss = self._loss(len(self._batches) - 1)
        value = self._sum(loss)
        check_finite(self.config, "the objective", value, f"after epoch {self._epoch + 1}")

    def _sum(self, loss: torch.Tensor, network: DocNADENetwork | None = None) -> float:
        """Return the loss; if processes share the work, the sum of theirs and of gradients."""
        return float(loss) if self._processes is None else self._processes.sum(loss, network)

    def _loss(self, update: int) -> torch.Tensor:
        """Return the objective of the batch of an update, as far as this process computes it."""
        weights = self.config.generative_weight, self.class_weight_C, self.config.annotation_weight
        batch = self._take_batch(update).to(self.network.word_embedding.device)
        return batch_loss(self.network, batch, *weights, len(self._batches[update]))

    def _take_batch(self, update: int) -> LabelledBatch:
        """Return the documents of an update, and let a helper thread gather those of the next."""
        ahead, self._ahead = self._ahead, None
        batch = ahead[1]() if ahead is not None and ahead[0] == update else self._gather(update)
        if update + 1 < len(self._batches):
            self._ahead = update + 1, start_ahead(lambda: self._gather(update + 1))
        return batch

    def _gather(self, update: int) -> LabelledBatch:
        """Gather documents with their words in the order of this epoch."""
        config, rows_B = self.config, self._batches[update]
        if self._processes is not None:
            rows_B = self._processes.part(rows_B)
        length_B = self.corpus.length_B[rows_B]
        batch = make_batch(
            self.corpus,
            rows_B,
            token_order(config.seed, self._epoch, rows_B, length_B),
            annotation_weight=config.annotation_weight,
            n_summary_words=self.network.n_summary_words,
        )
        return drop_features(batch, config.global_dropout, config.seed, self._epoch, rows_B)
