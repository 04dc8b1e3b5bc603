"""Updates of the parameters of a network, one per batch."""

from collections.abc import Callable
from typing import Protocol

import torch

from supdocnade.corpus.counts import Rows
from supdocnade.corpus.documents import Documents
from supdocnade.likelihood.cpu.threads import start_ahead
from supdocnade.model.network import DocNADENetwork
from supdocnade.seeding import token_order
from supdocnade.training.batches import LabelledBatch, drop_features, make_batch
from supdocnade.training.groups import GradientLayout, GroupSum, split_groups, sum_groups
from supdocnade.training.objective import batch_loss, check_finite
from supdocnade.training.optimizers import clip_gradients, coalesce_gradients, set_learning_rate
from supdocnade.training.process_group import ProcessGroup
from supdocnade.training.trainer_config import TrainerConfig


class Updates(Protocol):
    """The updates of one network on one corpus, epoch by epoch.

    Each raises `TrainingDiverged` when it finds a number that is not finite.
    """

    synchronous: bool
    """True if `run` waits for its update, so that reading the loss after it costs nothing."""

    def begin_epoch(
        self, epoch: int, batches: list[Rows], first_update: int, loss_sum: float
    ) -> None:
        """Prepare an epoch, or what is left of it.

        Parameters
        ----------
        epoch : counted from 0.
        batches : the documents of every update of the epoch.
        first_update : the update to begin with.
        loss_sum : the objective, summed over the documents of the updates before it.
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
    group : the processes that share the work; None: this one does all of it.
    """

    synchronous = True

    def __init__(
        self,
        network: DocNADENetwork,
        config: TrainerConfig,
        corpus: Documents,
        optimizers: list[torch.optim.Optimizer],
        class_weight_C: torch.Tensor | None,
        group: ProcessGroup | None = None,
    ):
        self.network, self.config, self.corpus = network, config, corpus
        self.optimizers, self.class_weight_C = optimizers, class_weight_C
        self._group, self._layout = group, GradientLayout(network)
        self._epoch, self._update, self._loss_sum = 0, 0, 0.0
        self._batches: list[Rows] = []
        self._ahead: tuple[Rows, Callable[[], LabelledBatch]] | None = None

    def begin_epoch(
        self, epoch: int, batches: list[Rows], first_update: int, loss_sum: float
    ) -> None:
        """See `Updates`."""
        self._epoch, self._batches, self._ahead = epoch, batches, None
        self._update, self._loss_sum = first_update, loss_sum

    def run(self) -> None:
        """See `Updates`."""
        config, parameters = self.config, list(self.network.parameters())
        position = self._epoch, self._update, len(self._batches)
        when = f"in epoch {self._epoch + 1}, update {self._update + 1}"
        rows_B = self._batches[self._update]
        for parameter in parameters:
            parameter.grad = None
        value = self._compute_gradients(rows_B)
        check_finite(config, "the objective", value, when)
        if config.clip_norm is not None:
            norm = clip_gradients(parameters, config.clip_norm)
            check_finite(config, "the norm of the gradients", float(norm), when)
        for optimizer in self.optimizers:
            set_learning_rate(optimizer, config.rate_at(*position))
            optimizer.step()
        self._update += 1
        self._loss_sum += value * len(rows_B)

    def loss_sum(self) -> float:
        """See `Updates`."""
        return self._loss_sum

    def end_epoch(self) -> None:
        """Compute the last objective again: no later update would notice that it diverged."""
        if not self._batches:
            return
        rows_B = self._batches[-1]
        groups = split_groups(rows_B, self.config.batch_groups)

        def compute(number: int) -> GroupSum:
            return GroupSum(self._loss(groups[number], len(rows_B))[None])

        with torch.no_grad():
            total = self._sum(len(groups), compute, gradients=False)
        value, when = float(total.vector_P[0]), f"after epoch {self._epoch + 1}"
        check_finite(self.config, "the objective", value, when)

    def _compute_gradients(self, rows_B: Rows) -> float:
        """Set the gradients of a batch, and return its objective."""
        groups = split_groups(rows_B, self.config.batch_groups)

        def compute(number: int) -> GroupSum:
            return self._layout.read(self._backward(groups[number], len(rows_B)))

        if self._group is None and len(groups) == 1:
            return float(self._backward(rows_B, len(rows_B)))
        return self._layout.write(self._sum(len(groups), compute))

    def _sum(
        self, n_groups: int, compute: Callable[[int], GroupSum], *, gradients: bool = True
    ) -> GroupSum:
        if self._group is None:
            return sum_groups((0, n_groups), compute)
        return self._group.sum_groups(n_groups, self._layout, compute, gradients=gradients)

    def _backward(self, rows_B: Rows, n_documents: int) -> torch.Tensor:
        """Set the gradients of some documents of a batch, and return their objective."""
        loss = self._loss(rows_B, n_documents)
        loss.backward()  # type: ignore[no-untyped-call]
        coalesce_gradients(self._layout.parameters)
        return loss.detach()

    def _loss(self, rows_B: Rows, n_documents: int) -> torch.Tensor:
        weights = self.config.generative_weight, self.class_weight_C, self.config.annotation_weight
        batch = self._take_batch(rows_B).to(self.network.word_embedding.device)
        return batch_loss(self.network, batch, *weights, n_documents)

    def _take_batch(self, rows_B: Rows) -> LabelledBatch:
        """Return a batch, and let a helper thread gather the next one if both are whole batches."""
        ahead, self._ahead = self._ahead, None
        batch = ahead[1]() if ahead is not None and ahead[0] is rows_B else self._gather(rows_B)
        following = self._update + 1
        if following < len(self._batches) and rows_B is self._batches[self._update]:
            next_B = self._batches[following]
            self._ahead = next_B, start_ahead(lambda: self._gather(next_B))
        return batch

    def _gather(self, rows_B: Rows) -> LabelledBatch:
        """Gather documents with their words in the order of this epoch."""
        config, length_B = self.config, self.corpus.length_B[rows_B]
        batch = make_batch(
            self.corpus,
            rows_B,
            token_order(config.seed, self._epoch, rows_B, length_B),
            annotation_weight=config.annotation_weight,
            n_summary_words=self.network.n_summary_words,
        )
        return drop_features(batch, config.global_dropout, config.seed, self._epoch, rows_B)
