"""Cases and timing of the GPU benchmarks.

Times are measured on the device, between two events on its stream.
"""

from collections.abc import Callable
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch.cuda import Event
from torch.profiler import ProfilerActivity, profile

from benchmarks.baselines import torch_gather, torch_softmax
from supdocnade.likelihood.contract import Batch, Parameters
from supdocnade.likelihood.operations import softmax_nll, tree_nll
from supdocnade.tree import WordTree

LENGTH = 961
PRECISIONS = {"float32": "highest", "tf32": "high", "bf16": "medium"}
HEADLINE = "bf16"
"""Precision of the measurements that do not name one."""

REPLAYS = 30


class Shape(NamedTuple):
    """Sizes of a batch and a model."""

    documents: int = 100
    topics: int = 200
    leaves: int = 1160

    @property
    def words(self) -> int:
        return self.documents * LENGTH


def bandwidth() -> float:
    """Return the bytes per second of a large copy, read and written."""
    source = torch.empty(2**30, device="cuda").normal_()
    target = torch.empty_like(source)
    target.copy_(source)
    return 2 * 4 * source.numel() / device_seconds(lambda: target.copy_(source))


def record(call: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """Return a recording of a call."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        for _ in range(2):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    graph.replay()
    return graph


def replay_seconds(call: Callable[[], object], replays: int = REPLAYS) -> float:
    """Return the median seconds of the replays of a recorded call."""
    return device_seconds(record(call).replay, replays)


def kernel_seconds(call: Callable[[], object], replays: int = 10) -> dict[str, dict[str, float]]:
    """Return the number of runs and the total time of every kernel of a recorded call.

    Kernels that run concurrently are counted separately.
    """
    graph = record(call)
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(replays):
            graph.replay()
        torch.cuda.synchronize()
    return {
        each.key: {
            "count": each.count / replays,
            "seconds": each.self_device_time_total / 1e6 / replays,
        }
        for each in profiler.key_averages()
        if each.self_device_time_total
    }


def device_seconds(call: Callable[[], object], repeats: int = REPLAYS) -> float:
    """Return the median seconds between two events around a call."""
    seconds = []
    for _ in range(repeats):
        begin, end = (Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        seconds.append(begin.elapsed_time(end) / 1e3)
    return float(np.median(seconds))


@cache
def tree_of(leaves: int) -> WordTree:
    return WordTree.random(leaves, np.random.default_rng(0))


class Case:
    """Documents of equal length over equally frequent words, the worst case for caches."""

    def __init__(self, shape: Shape):
        rng = np.random.default_rng(0)
        self.shape = shape
        ids = rng.integers(0, shape.leaves, (shape.documents, LENGTH))
        self.ids_BD = torch.from_numpy(ids).cuda()
        offsets = torch.arange(shape.documents + 1, device="cuda") * LENGTH
        self.batch = Batch(self.ids_BD.flatten().int(), offsets, checked=True)
        self.tree = tree_of(shape.leaves)
        self.parameters = Parameters(
            _normal(shape.leaves, shape.topics, spread=0.01),
            _normal(shape.topics, spread=0.01),
            _normal(shape.leaves - 1, shape.topics),
            _normal(shape.leaves - 1),
        )

    @cached_property
    def words(self) -> Parameters:
        """Parameters of a softmax, with a row of V for every word."""
        K, H = self.parameters.word_embedding_KH.shape
        return Parameters(*self.parameters[:2], _normal(K, H), _normal(K))

    def tree_call(self) -> Callable[[], None]:
        return self._with_gradients(
            self.parameters,
            lambda: tree_nll(self.batch, self.parameters, self.tree).nll_B,
        )

    def softmax_call(self) -> Callable[[], None]:
        return self._with_gradients(self.words, lambda: softmax_nll(self.batch, self.words).nll_B)

    def plain_softmax_call(self) -> Callable[[], None]:
        return self._with_gradients(
            self.words, lambda: torch_softmax.softmax_nll(self.ids_BD, *self.words)
        )

    def plain_tree_call(self) -> Callable[[], None]:
        nodes, signs = (torch.from_numpy(table).cuda() for table in self.tree.paths)
        return self._with_gradients(
            self.parameters,
            lambda: torch_gather.tree_nll(
                self.ids_BD, nodes.long(), signs.float(), *self.parameters
            ),
        )

    def _with_gradients(
        self, parameters: Parameters, nll: Callable[[], torch.Tensor]
    ) -> Callable[[], None]:
        def run() -> None:
            for parameter in parameters:
                parameter.grad = None
            nll().sum().backward()  # type: ignore[no-untyped-call]

        return run


def _normal(*shape: int, spread: float = 0.1) -> torch.Tensor:
    return torch.empty(shape, device="cuda").normal_(0, spread).requires_grad_()


def floor_seconds(shape: Shape, precision: str, bytes_per_second: float) -> float:
    size = 2 if precision == "bf16" else 4
    return 4 * size * shape.words * shape.topics / bytes_per_second


def millions(words_per_s: float) -> str:
    return f"{words_per_s / 1e6:.1f}"
