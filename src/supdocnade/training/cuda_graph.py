"""Updates on a GPU, recorded once and replayed: nothing waits for Python.

An update is some eighty kernels of a few microseconds each; to launch them one by one from Python
would take longer than to run them. So one update is recorded as a CUDA graph that reads everything
that changes from one to the next from the GPU: which documents come, the learning rate, the decay
of the average. An epoch is then as many replays, and one look at the loss when it is over.
"""

from dataclasses import dataclass
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supdocnade.corpus.documents import NO_LABEL
from supdocnade.likelihood.contract import DocumentBatch, room_for_all_rows
from supdocnade.model import DocNADENetwork
from supdocnade.training.batches import weighted_loss
from supdocnade.training.checkpoint import Tensors
from supdocnade.training.config import TrainerConfig
from supdocnade.training.device_corpus import OrderedEpoch, ResidentDocuments
from supdocnade.training.optimizers import clip_gradients, set_rate

ROOM = 1.02
"""Batches differ in their numbers of words; recorded is an update of somewhat more than the most
seen so far, so that it need not be recorded again for every epoch with a larger one."""

_RECORDING = Lock()
"""Torch records one graph at a time; several threads may train."""


def bytes_to_record(network: DocNADENetwork) -> int:
    """Return what is put aside while an update is recorded: parameters, two moments, an average."""
    return 4 * sum(p.numel() * p.element_size() for p in network.parameters())


@dataclass(frozen=True, eq=False)
class Clock:
    """What changes from one update to the next, on the GPU."""

    update: Tensor
    """() the update of the epoch that comes next."""
    rates: Tensor
    """The learning rate of every update of the epoch."""
    decays: Tensor
    """The decay of the average at every update of the epoch."""
    loss_sum: Tensor
    """() the objective, summed over the documents of the epoch so far."""


class GraphedUpdates:
    """The updates of a network, on the GPU that it is on.

    Parameters
    ----------
    average : parameters that follow those of the network, if they are averaged.
    """

    def __init__(
        self,
        network: DocNADENetwork,
        config: TrainerConfig,
        documents: ResidentDocuments,
        optimizers: list[torch.optim.Optimizer],
        class_weight_C: Tensor | None,
        average: Tensors | None,
    ):
        self.network, self.config, self.documents = network, config, documents
        self.optimizers, self.class_weight_C, self.average = optimizers, class_weight_C, average
        device = network.word_embedding.device
        n_updates = -(-len(documents) // config.batch_size)
        self.clock = Clock(
            torch.zeros((), dtype=torch.int64, device=device),
            torch.zeros(n_updates, device=device),
            torch.zeros(n_updates, device=device),
            torch.zeros((), dtype=torch.float64, device=device),
        )
        self.capacity = 0
        self._epoch: OrderedEpoch | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        # A stream of its own: cuBLAS has one workspace a stream, which a recording keeps using, and
        # recordings that are replayed at the same time must not share one. It serves all recordings
        # made here: torch has 32 streams and then hands out the first one again.
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def begin(
        self,
        epoch: int,
        shuffled_B: NDArray[np.int64],
        first_update: int,
        loss_sum: float,
        rates: NDArray[np.float64],
        decays: NDArray[np.float64],
    ) -> None:
        """Put an epoch in order, and record an update if it does not fit the last recording."""
        config = self.config
        ordered = self.documents.ordered(
            config.seed, epoch, shuffled_B, config.batch_size,
            generative_weight=config.generative_weight,
            annotation_weight=config.annotation_weight,
        )  # fmt: skip
        if self._epoch is None:
            self._epoch = ordered
        else:
            # The recording reads from where the first epoch lies.
            for there, new in zip(self._epoch, ordered, strict=True):
                if there is not None and new is not None:
                    there.copy_(new)
        clock = self.clock
        clock.rates.copy_(torch.from_numpy(rates))
        clock.decays.copy_(torch.from_numpy(decays))
        clock.update.fill_(first_update)
        clock.loss_sum.fill_(loss_sum)
        firsts = np.arange(0, len(shuffled_B), config.batch_size)
        largest = int(np.add.reduceat(self.documents.lengths[shuffled_B], firsts).max())
        if largest > self.capacity:
            self.capacity = max(int(largest * ROOM), 1)
            with _RECORDING:
                self._record()

    def run(self) -> None:
        """Start the next update of the epoch; this does not wait for it."""
        assert self._graph is not None, "an epoch was begun"
        self._graph.replay()

    def loss_sum(self) -> float:
        """Wait for all updates; return the objective, summed over the documents so far."""
        return float(self.clock.loss_sum)

    def _record(self) -> None:
        """Record an update: run it once to have everything compiled, undo that, record."""
        kept = {id(tensor): tensor.detach().clone() for tensor in self._changing()}
        self._graph = None
        stream = self._stream
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), room_for_all_rows():
            self._update()
        torch.cuda.current_stream().wait_stream(stream)
        # The optimisers have made moments meanwhile; where there were none, they were zero.
        with torch.no_grad():
            for tensor in self._changing():
                tensor.copy_(kept[id(tensor)]) if id(tensor) in kept else tensor.zero_()
        del kept
        for parameter in self.network.parameters():
            parameter.grad = None
        self._graph = torch.cuda.CUDAGraph()
        # What other threads do meanwhile, as to ask for memory, is no part of it.
        with torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"):
            self._update()

    def _changing(self) -> list[Tensor]:
        """Return everything that an update changes."""
        tensors: list[Tensor] = list(self.network.parameters())
        tensors += list((self.average or {}).values())
        tensors += [self.clock.update, self.clock.loss_sum]
        for optimizer in self.optimizers:
            for moments in optimizer.state.values():
                tensors += [value for value in moments.values() if isinstance(value, Tensor)]
        return tensors

    def _update(self) -> None:
        """Move the parameters by one step."""
        config, clock, parameters = self.config, self.clock, list(self.network.parameters())
        for parameter in parameters:
            parameter.grad = None
        documents, label_B, weight_B, n_documents = self._batch()
        loss = weighted_loss(self.network, documents, label_B, weight_B, self.class_weight_C)
        loss.backward()  # type: ignore[no-untyped-call]
        if config.clip_norm is not None:
            clip_gradients(parameters, config.clip_norm)
        place = clock.update[None]
        for optimizer in self.optimizers:
            set_rate(optimizer, clock.rates[place][0])
            optimizer.step()
        with torch.no_grad():
            if self.average is not None:
                weight = 1 - clock.decays[place][0]
                for name, parameter in self.network.named_parameters():
                    self.average[name].lerp_(parameter, weight)
            clock.loss_sum.add_(loss.detach().double() * n_documents)
            clock.update.add_(1)

    def _batch(self) -> tuple[DocumentBatch, Tensor, Tensor, Tensor]:
        """Return the documents of the next update, filled up with empty ones where too few."""
        assert self._epoch is not None, "an epoch was begun"
        epoch, n_all, size = self._epoch, len(self.documents), self.config.batch_size
        device = epoch.ids_N.device
        numbers_B1 = self.clock.update * size + torch.arange(size + 1, device=device)
        offsets_B1 = epoch.offsets_B1[numbers_B1.clamp_max(n_all)]
        tokens = offsets_B1[0] + torch.arange(self.capacity, device=device)
        tokens = tokens.clamp_max(len(epoch.ids_N) - 1)
        there_B = numbers_B1[:-1] < n_all
        numbers_B = numbers_B1[:-1].clamp_max(n_all - 1)
        batch = DocumentBatch(
            epoch.ids_N[tokens],
            offsets_B1 - offsets_B1[0],
            None if epoch.input_weight_N is None else epoch.input_weight_N[tokens],
            epoch.loss_weight_N[tokens],
            self.network.n_summary_words,
            checked=True,
        )
        label_B = torch.where(there_B, epoch.label_B[numbers_B], NO_LABEL)
        weight_B = torch.where(there_B, epoch.weight_B[numbers_B], 0.0)
        return batch, label_B, weight_B, there_B.sum()
