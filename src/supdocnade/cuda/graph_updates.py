"""Updates recorded once as a CUDA graph and replayed, so that the GPU never waits for Python.

An update is about eighty kernels of a few microseconds each; launching them one by one from Python
would take longer than running them. The recorded update reads everything that changes between
updates from the GPU: the documents and the learning rate. The loss is read back only when it is
needed.
"""

import math
from itertools import accumulate
from threading import Lock

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from supdocnade.corpus.documents import NO_LABEL, Documents
from supdocnade.corpus.tokens import Rows
from supdocnade.cuda.device_corpus import (
    MIN_HASH_BITS,
    DeviceCorpus,
    max_tokens,
)
from supdocnade.likelihood.contract import Batch
from supdocnade.model.network import DocNADENetwork
from supdocnade.seeding import document_keys
from supdocnade.threads import limit_threads
from supdocnade.training.config import History, TrainerConfig
from supdocnade.training.objective import (
    add_predictions,
    check_finite,
    epoch_batches,
)
from supdocnade.training.trainer import (
    ADAM_BETAS,
    ADAM_EPSILON,
    Trainer,
    clip_gradients,
    set_learning_rate,
)

CAPACITY_MARGIN = 1.02
"""Words that a recording has room for, relative to the largest batch so far. Batches differ in
size; the margin saves a new recording for every slightly larger one."""

REPORT_EVERY = 1_000
"""Updates between reports within an epoch: reading the loss means waiting for the GPU."""

_RECORDING = Lock()
"""Torch records one graph at a time, while several threads may train."""


ADAM_BLOCK = 1024
"""Numbers per program of `update_by_adam`."""


@triton.jit
def bias_correction(beta: tl.constexpr, step):
    """Return 1 - β^t in float64; in float32 it would lose its precision."""
    return 1 - tl.exp2(step * tl.log2(tl.full([], beta, tl.float64)))


@triton.jit
def update_by_adam(
    values, gradients, means, squares, steps, rate,
    LENGTHS: tl.constexpr, FIRSTS: tl.constexpr, BETA1: tl.constexpr, BETA2: tl.constexpr,
    EPSILON: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Update several parameters; parameter i has the blocks `FIRSTS[i]:FIRSTS[i + 1]`."""
    block = tl.program_id(0)
    learning_rate = tl.load(rate).to(tl.float64)
    for each in tl.static_range(len(LENGTHS)):
        if (block >= FIRSTS[each]) & (block < FIRSTS[each + 1]):
            places = (block - FIRSTS[each]).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
            used = places < LENGTHS[each]
            step = tl.load(steps[each]).to(tl.float64)
            size = (learning_rate / bias_correction(BETA1, step)).to(tl.float32)
            spread = tl.sqrt(bias_correction(BETA2, step)).to(tl.float32)
            gradient = tl.load(gradients[each] + places, mask=used, other=0.0)
            mean = tl.load(means[each] + places, mask=used, other=0.0)
            square = tl.load(squares[each] + places, mask=used, other=0.0)
            value = tl.load(values[each] + places, mask=used, other=0.0)
            mean = BETA1 * mean + (1 - BETA1) * gradient
            square = BETA2 * square + (1 - BETA2) * gradient * gradient
            value -= size * mean / (tl.sqrt(square) / spread + EPSILON)
            tl.store(means[each] + places, mean, mask=used)
            tl.store(squares[each] + places, square, mask=used)
            tl.store(values[each] + places, value, mask=used)


class SingleKernelAdam(torch.optim.Adam):
    """Torch's Adam up to rounding, with all parameters in one kernel.

    Torch's fused Adam processes 65,536 numbers per program, so a table of 1,160 words and 200
    topics has four programs and leaves most of the GPU idle. Here a program processes about a
    thousand (Kingma and Ba 2015).
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all parameters that have a gradient."""
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            states = [self.state[parameter] for parameter in parameters]
            for parameter, state in zip(parameters, states, strict=True):
                if not state:
                    state["step"] = torch.zeros((), device=parameter.device)
                    state["exp_avg"] = torch.zeros_like(parameter)
                    state["exp_avg_sq"] = torch.zeros_like(parameter)
            gradients = [p.grad.contiguous() for p in parameters if p.grad is not None]
            torch._foreach_add_([state["step"] for state in states], 1)
            lengths = tuple(parameter.numel() for parameter in parameters)
            blocks = (triton.cdiv(length, ADAM_BLOCK) for length in lengths)
            firsts, (beta1, beta2) = tuple(accumulate(blocks, initial=0)), group["betas"]
            update_by_adam[(firsts[-1],)](
                tuple(p.detach() for p in parameters), tuple(g.detach() for g in gradients),
                *(tuple(s[name] for s in states) for name in ("exp_avg", "exp_avg_sq", "step")),
                group["lr"],
                LENGTHS=lengths, FIRSTS=firsts, BETA1=beta1, BETA2=beta2, EPSILON=group["eps"],
                BLOCK=ADAM_BLOCK,
            )  # fmt: skip


def recording_bytes(network: DocNADENetwork) -> int:
    """Return the memory for copies during a recording: parameters and two moments."""
    return 3 * sum(p.numel() * p.element_size() for p in network.parameters())


class GraphTrainer(Trainer):
    """A trainer whose updates are recorded, where that is possible.

    Progress is reported after every epoch, and after every `REPORT_EVERY` updates within it.
    """

    _updates: "tuple[Documents, GraphUpdates | None] | None" = None

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Return an optimizer whose updates a graph can record: its learning rate is on the GPU."""
        parameters = self.network.parameters()
        rate = torch.tensor(self.config.learning_rate, device=self.network.word_embedding.device)
        if self.config.optimizer == "sgd":
            # Only the fused implementation leaves the learning rate on the GPU.
            return torch.optim.SGD(parameters, lr=rate, fused=True)
        # capturable: torch then loads the numbers of steps of a checkpoint to the GPU.
        return SingleKernelAdam(
            parameters, lr=rate, betas=ADAM_BETAS, eps=ADAM_EPSILON, fused=True, capturable=True
        )

    def fit(self, documents: Documents, validation: Documents | None = None) -> History:
        """Train as any trainer; nothing recorded before or meanwhile is kept."""
        self._updates = None  # A checkpoint replaces the moments that a graph has recorded.
        history = super().fit(documents, validation)
        self._updates = None  # Frees much of a GPU's memory.
        return history

    def run_epoch(self, documents: Documents) -> None:
        """Pass over the documents once."""
        config, epoch = self.config, self.epoch
        device = torch.cuda.device_of(self.network.word_embedding)
        with limit_threads(), device:
            updates = self.updates_for(documents)
            if updates is None:
                super().run_epoch(documents)
                return
            size = config.batch_of(len(documents))
            batches = epoch_batches(len(documents), size, config.seed, epoch)
            updates.begin_epoch(epoch, batches)
            for update in range(1, len(batches) + 1):
                updates.run()
                if update == len(batches) or update % REPORT_EVERY == 0:
                    loss_sum = updates.loss_sum()
                    self.report(update, len(batches))
        self.end_epoch(loss_sum / len(documents), len(batches))

    def updates_for(self, documents: Documents) -> "GraphUpdates | None":
        """Return the updates on some documents, or None if they must be computed one by one."""
        if self._updates is None or self._updates[0] is not documents:
            given = self.network, self.config, documents, self.optimizer, self.class_weight_C
            self._updates = documents, make_updates(*given)
        return self._updates[1]


def make_updates(
    network: DocNADENetwork,
    config: TrainerConfig,
    corpus: Documents,
    optimizer: torch.optim.Optimizer,
    class_weight_C: Tensor | None,
) -> "GraphUpdates | None":
    """Return updates recorded as a graph, or None if they must be computed one by one.

    A graph needs words to model, and enough memory for the corpus.
    """
    device = network.word_embedding.device
    if network.config.n_words == 1 or not corpus.length_B.any():
        return None
    memory = torch.cuda.get_device_properties(device).total_memory
    if corpus.length_B.sum() > max_tokens(memory) or recording_bytes(network) > memory // 4:
        return None
    if 4 * len(corpus) * corpus.n_global_features > memory // 4:
        return None
    documents = DeviceCorpus(corpus, device)
    if documents.hash_bits < MIN_HASH_BITS:
        return None
    return GraphUpdates(network, config, documents, optimizer, class_weight_C)


class GraphUpdates:
    """Updates of a network on its GPU, as a recorded graph.

    `begin_epoch` comes first, then `run` for every update of the epoch.

    Parameters
    ----------
    class_weight_C : multiplies the class term of documents of each class.
    """

    def __init__(
        self,
        network: DocNADENetwork,
        config: TrainerConfig,
        documents: DeviceCorpus,
        optimizer: torch.optim.Optimizer,
        class_weight_C: Tensor | None,
    ):
        self.network, self.config, self.documents = network, config, documents
        self.optimizer, self.class_weight_C = optimizer, class_weight_C
        device = network.word_embedding.device
        self.batch_size = config.batch_of(len(documents))
        n_updates = -(-len(documents) // self.batch_size)
        # What changes from one update to the next, at addresses that the graph knows.
        self.next_update = torch.zeros((), dtype=torch.int64, device=device)
        self._rates = torch.zeros(n_updates, device=device)
        self._loss_sum = torch.zeros((), dtype=torch.float64, device=device)
        # Number of every document of the epoch, and its key for dropout.
        self._numbers_B = torch.zeros(len(documents), dtype=torch.int64, device=device)
        self._dropout_keys_B = torch.zeros_like(self._numbers_B)
        self._ordered: Batch | None = None
        self._epoch = 0
        self._capacity = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        # One stream of its own for all recordings: cuBLAS has one workspace per stream, which a
        # recording keeps using, and graphs that are replayed at the same time must not share one.
        # Torch has 32 streams and then hands out the first one again.
        self._stream = torch.cuda.Stream(device)

    def begin_epoch(self, epoch: int, batches: list[Rows]) -> None:
        """Order an epoch, and record an update if its batches do not fit the last recording."""
        config, n_updates, shuffled_B = self.config, len(batches), np.concatenate(batches)
        ordered = self.documents.order_epoch(
            config.seed, epoch, shuffled_B, self.batch_size,
            generative_weight=config.generative_weight,
            annotation_weight=config.annotation_weight,
        )  # fmt: skip
        if self._ordered is None:
            self._ordered = ordered
        else:
            # The graph reads from the memory of the first epoch.
            for target, source in zip(_tensors(self._ordered), _tensors(ordered), strict=True):
                target.copy_(source)
        if self.documents.batch.global_features_BF is not None:
            keys_B = document_keys(config.seed, "dropout", epoch, shuffled_B).view(np.int64)
            self._numbers_B.copy_(torch.from_numpy(shuffled_B))
            self._dropout_keys_B.copy_(torch.from_numpy(keys_B))
        updates = range(n_updates)
        rates = np.array([config.rate_at(epoch, update, n_updates) for update in updates])
        self._rates.copy_(torch.from_numpy(rates))
        self.next_update.zero_()
        self._loss_sum.zero_()
        self._epoch = epoch
        n_tokens = max(int(self.documents.lengths[rows_B].sum()) for rows_B in batches)
        if n_tokens > self._capacity:
            self._capacity = max(int(n_tokens * CAPACITY_MARGIN), 1)
            with _RECORDING:
                self._record()

    def run(self) -> None:
        """Start the next update of the epoch without waiting for it."""
        assert self._graph is not None, "begin_epoch comes first"
        self._graph.replay()

    def loss_sum(self) -> float:
        """Wait for all updates; return the objective, summed over the documents so far."""
        when = f"in epoch {self._epoch + 1}"
        value = float(self._loss_sum)
        check_finite(self.config, "the objective", value, when)
        finite = [p.isfinite().all() for p in self.network.parameters()]
        if not bool(torch.stack(finite).all()):
            check_finite(self.config, "a parameter", math.nan, when)
        return value

    def _record(self) -> None:
        """Record an update: run it once so that everything is compiled, undo that, record."""
        before = {id(tensor): tensor.detach().clone() for tensor in self._state()}
        self._graph = None
        stream = self._stream
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._update()
        torch.cuda.current_stream().wait_stream(stream)
        # Moments that the optimizer created meanwhile were zero before.
        with torch.no_grad():
            for tensor in self._state():
                tensor.copy_(before[id(tensor)]) if id(tensor) in before else tensor.zero_()
        del before
        for parameter in self.network.parameters():
            parameter.grad = None
        self._graph = torch.cuda.CUDAGraph()
        # thread_local: calls of other threads, such as requests for memory, are not recorded.
        with torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"):
            self._update()

    def _state(self) -> list[Tensor]:
        """Return every tensor that an update changes."""
        tensors: list[Tensor] = list(self.network.parameters())
        tensors += [self.next_update, self._loss_sum]
        for moments in self.optimizer.state.values():
            tensors += [value for value in moments.values() if isinstance(value, Tensor)]
        return tensors

    def _update(self) -> None:
        """Run one update."""
        config, parameters = self.config, list(self.network.parameters())
        for parameter in parameters:
            parameter.grad = None
        batch, n_documents = self._batch()
        nll_B, summary_BH = self.network.terms(batch)
        assert batch.weight_B is not None, "documents on a GPU have weights"
        loss = add_predictions(
            nll_B.sum(), self.network, summary_BH, batch, batch.weight_B, self.class_weight_C,
            config.annotation_weight,
        )  # fmt: skip
        loss.backward()
        if config.clip_norm is not None:
            clip_gradients(parameters, config.clip_norm)
        index = self.next_update[None]
        set_learning_rate(self.optimizer, self._rates[index][0])
        self.optimizer.step()
        with torch.no_grad():
            self._loss_sum.add_(loss.detach().double() * n_documents)
            self.next_update.add_(1)

    def _batch(self) -> tuple[Batch, Tensor]:
        """Return the next batch, padded with empty documents to the batch size, and its size."""
        assert self._ordered is not None, "begin_epoch comes first"
        epoch, device = self._ordered, self.next_update.device
        n_documents, size = len(self.documents), self.batch_size
        rows_B1 = self.next_update * size + torch.arange(size + 1, device=device)
        offsets_B1 = epoch.offsets_B1[rows_B1.clamp_max(n_documents)]
        tokens = offsets_B1[0] + torch.arange(self._capacity, device=device)
        tokens = tokens.clamp_max(len(epoch.word_ids_N) - 1)
        exists_B = rows_B1[:-1] < n_documents
        rows_B = rows_B1[:-1].clamp_max(n_documents - 1)
        input_N, loss_N = epoch.input_weight_N, epoch.loss_weight_N
        features_BF = None
        if self.documents.batch.global_features_BF is not None:
            features_BF = self.documents.gather_features(
                self._numbers_B[rows_B], self._dropout_keys_B[rows_B], self.config.global_dropout
            )
        assert epoch.label_B is not None, "documents on a GPU have labels"
        assert epoch.weight_B is not None, "documents on a GPU have weights"
        batch = Batch(
            epoch.word_ids_N[tokens],
            offsets_B1 - offsets_B1[0],
            None if input_N is None else input_N[tokens],
            None if loss_N is None else loss_N[tokens],
            self.network.n_summary_words,
            checked=True,
            global_features_BF=features_BF,
            label_B=torch.where(exists_B, epoch.label_B[rows_B], NO_LABEL),
            weight_B=torch.where(exists_B, epoch.weight_B[rows_B], 0.0),
            tag_BA=None if epoch.tag_BA is None else epoch.tag_BA[rows_B],
            label_BC=None if epoch.label_BC is None else epoch.label_BC[rows_B],
        )
        return batch, exists_B.sum()


def _tensors(batch: Batch) -> list[Tensor]:
    return [each for each in batch if isinstance(each, Tensor)]
