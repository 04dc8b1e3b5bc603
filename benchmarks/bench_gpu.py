"""The operation and the training on a GPU: words per second, beside plain torch in the same run.

python -m benchmarks.bench_gpu

Times are those of the device, between two events on its stream, of a recorded call that is
replayed: that is how training runs it. `eager` is a call from Python, launch by launch.

The floor is the least that must go through memory if hidden units do not fit on the chip: each is
written once and read once, and so is its gradient, at the bandwidth of a copy measured here.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
from scipy import sparse
from torch.cuda import Event

from benchmarks.baselines import torch_gather, torch_softmax
from benchmarks.common import print_table, write_results
from supdocnade.corpus import Documents
from supdocnade.models import SupDocNADEConfig, SupDocNADENetwork
from supdocnade.models.docnade import random_tree
from supdocnade.ops.contract import DocumentBatch, Parameters, touches_few_rows
from supdocnade.ops.softmax_nll import softmax_nll
from supdocnade.ops.tree_nll import tree_nll
from supdocnade.training import Trainer, TrainerConfig
from supdocnade.training.side_by_side import fit_side_by_side
from supdocnade.tree import WordTree

LENGTH = 961
PRECISIONS = {"float32": "highest", "tf32": "high", "bf16": "medium"}
HEADLINE = "bf16"
"""The precision of the figures that have no other name."""

REPLAYS = 30


class Shape(NamedTuple):
    """Of a batch and a model."""

    documents: int = 100
    topics: int = 200
    leaves: int = 1160

    @property
    def words(self) -> int:
        return self.documents * LENGTH


TABLE = [
    Shape(),
    Shape(topics=50),
    Shape(topics=512),
    Shape(documents=8),
    Shape(documents=1000),
    Shape(leaves=20_000),
    Shape(leaves=200_000),
    Shape(documents=1000, leaves=20_000),
    Shape(documents=1000, leaves=200_000),
]


def bandwidth() -> float:
    """Return bytes a second of a large copy, read and written."""
    source = torch.empty(2**30, device="cuda").normal_()
    target = torch.empty_like(source)
    target.copy_(source)
    return 2 * 4 * source.numel() / device_seconds(lambda: target.copy_(source))


def replayed(call: Callable[[], object], replays: int = REPLAYS) -> float:
    """Return the median seconds of a call, recorded and replayed."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        for _ in range(2):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    graph.replay()
    return device_seconds(graph.replay, replays)


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


class Case:
    """Documents of equal length over equally frequent words: no row is hotter than another."""

    def __init__(self, shape: Shape):
        rng = np.random.default_rng(0)
        self.shape = shape
        ids = rng.integers(0, shape.leaves, (shape.documents, LENGTH))
        self.ids_BD = torch.from_numpy(ids).cuda()
        offsets = torch.arange(shape.documents + 1, device="cuda") * LENGTH
        self.batch = DocumentBatch(self.ids_BD.flatten().int(), offsets, checked=True)
        self.tree = WordTree.random(shape.leaves, rng)
        self.parameters = Parameters(
            _normal(shape.leaves, shape.topics, spread=0.01),
            _normal(shape.topics, spread=0.01),
            _normal(shape.leaves - 1, shape.topics),
            _normal(shape.leaves - 1),
        )
        self.words = Parameters(
            *self.parameters[:2], _normal(shape.leaves, shape.topics), _normal(shape.leaves)
        )

    def tree_call(self) -> Callable[[], None]:
        return self._with_gradients(
            lambda: tree_nll(self.batch, self.parameters, self.tree, backend="cuda").nll_B
        )

    def softmax_call(self) -> Callable[[], None]:
        return self._with_gradients(
            lambda: softmax_nll(self.batch, self.words, backend="cuda").nll_B
        )

    def plain_softmax_call(self) -> Callable[[], None]:
        return self._with_gradients(lambda: torch_softmax.softmax_nll(self.ids_BD, *self.words))

    def plain_tree_call(self) -> Callable[[], None]:
        nodes, signs = (torch.from_numpy(table).cuda() for table in self.tree.paths)
        return self._with_gradients(
            lambda: torch_gather.tree_nll(
                self.ids_BD, nodes.long(), signs.float(), *self.parameters
            )
        )

    def _with_gradients(self, nll: Callable[[], torch.Tensor]) -> Callable[[], None]:
        def run() -> None:
            for parameter in (*self.parameters, *self.words):
                parameter.grad = None
            nll().sum().backward()  # type: ignore[no-untyped-call]

        return run


def _normal(*shape: int, spread: float = 0.1) -> torch.Tensor:
    return torch.empty(shape, device="cuda").normal_(0, spread).requires_grad_()


def floor_seconds(shape: Shape, precision: str, bytes_per_second: float) -> float:
    size = 2 if precision == "bf16" else 4
    return 4 * size * shape.words * shape.topics / bytes_per_second


def operation(bytes_per_second: float) -> dict[str, Any]:
    shape = Shape()
    case = Case(shape)
    by_precision = {}
    for name, setting in PRECISIONS.items():
        torch.set_float32_matmul_precision(setting)
        call = case.tree_call()
        seconds = replayed(call)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        by_precision[name] = {
            "words_per_s": shape.words / seconds,
            "eager_words_per_s": shape.words / device_seconds(call),
            "peak_bytes": torch.cuda.max_memory_allocated() - before,
            "floor_words_per_s": shape.words / floor_seconds(shape, name, bytes_per_second),
            "softmax_words_per_s": shape.words / replayed(case.softmax_call(), 5),
        }
    torch.set_float32_matmul_precision("highest")
    plain_softmax = shape.words / replayed(case.plain_softmax_call(), 5)
    plain_tree = shape.words / device_seconds(case.plain_tree_call(), 3)
    best = by_precision[HEADLINE]
    print_table(
        f"{shape.documents} documents × {LENGTH} words, {shape.topics} topics, "
        f"{shape.leaves} leaves, forward and all gradients",
        ["variant", "million words/s"],
        [
            ["plain torch, gathered rows", _millions(plain_tree)],
            ["plain torch, full softmax in bf16", _millions(plain_softmax)],
            *([f"cuda, {n}", _millions(each["words_per_s"])] for n, each in by_precision.items()),
            *(
                [f"cuda, softmax, {n}", _millions(each["softmax_words_per_s"])]
                for n, each in by_precision.items()
            ),
        ],
    )
    return {
        **{name: best[name] for name in ("words_per_s", "peak_bytes", "floor_words_per_s")},
        "precision": HEADLINE,
        "softmax_bf16_words_per_s": plain_softmax,
        "torch_gather_words_per_s": plain_tree,
        "by_precision": by_precision,
        "sums_without_atomics": determinism(case),
    }


def determinism(case: Case) -> dict[str, float]:
    """Time the sums by word of the gradient of W beside atomic additions of the same rows."""
    from supdocnade.ops.row_sums.cuda import sort_tokens, sum_rows
    from supdocnade.ops.tree_nll.cuda import tree_layer

    layer = tree_layer(case.tree, case.ids_BD.device)
    shape, batch = case.shape, case.batch
    tokens = sort_tokens(
        batch.word_ids_N, layer.key_of_word_K, batch.offsets_B1[-1:], layer.n_prefixes
    )
    rows = torch.empty(shape.words, shape.topics, device="cuda").normal_()
    out = torch.zeros(shape.leaves, shape.topics, device="cuda")
    places = batch.word_ids_N.long()
    ours = replayed(lambda: sum_rows(tokens, rows, shape.topics, layer.word_of_key, out, "tf32x3"))
    atomic = replayed(lambda: out.index_add_(0, places, rows))
    return {"seconds": ours, "atomic_seconds": atomic}


def table(bytes_per_second: float) -> list[dict[str, Any]]:
    torch.set_float32_matmul_precision(PRECISIONS[HEADLINE])
    results = []
    for shape in TABLE:
        call = Case(shape).tree_call()
        call()
        recorded = not touches_few_rows(shape.leaves)
        seconds = replayed(call, 10) if recorded else device_seconds(call, 10)
        results.append(
            {
                **shape._asdict(),
                "words_per_s": shape.words / seconds,
                "share_of_floor": floor_seconds(shape, HEADLINE, bytes_per_second) / seconds,
                "recorded": recorded,
            }
        )
        torch.cuda.empty_cache()
    print_table(
        f"as the shape changes ({HEADLINE})",
        ["documents", "topics", "leaves", "million words/s", "share of the floor"],
        [
            [
                str(each["documents"]),
                str(each["topics"]),
                str(each["leaves"]),
                _millions(each["words_per_s"]) + ("" if each["recorded"] else " (eager)"),
                f"{each['share_of_floor']:.0%}",
            ]
            for each in results
        ],
    )
    return results


def scenes(n_documents: int, length: int, n_visual: int = 960) -> Documents:
    """Return documents of the shape of Scene15's: 15 classes, 200 tags, six a document."""
    rng = np.random.default_rng(0)
    mixtures = rng.dirichlet(np.full(n_visual, 0.05), 15)
    labels = np.arange(n_documents) % 15
    bags = np.stack([rng.multinomial(length - 6, mixtures[label]) for label in labels])
    tags = np.zeros((n_documents, 200), np.int64)
    for row in tags:
        row[rng.choice(200, 6, replace=False)] = 1
    return Documents.from_counts(
        sparse.csr_array(bags), annotations=sparse.csr_array(tags), labels=labels, n_classes=15
    )


def trainer(
    corpus: Documents, device: str, *, seed: int = 0, max_epochs: int = 60, n_topics: int = 200
) -> Trainer:
    config = SupDocNADEConfig(
        n_visual_words=corpus.n_visual_words,
        n_annotation_words=corpus.n_annotation_words,
        n_topics=n_topics,
        n_classes=15,
    )
    network = SupDocNADENetwork(config, random_tree(config, seed))
    network.initialize(corpus.word_counts(), seed)
    network.initialize_classes(corpus.class_counts())
    network.to(device)
    settings = TrainerConfig(
        generative_weight=0.01, annotation_weight=30.0, max_epochs=max_epochs, seed=seed
    )
    return Trainer(network, settings)


def training() -> dict[str, Any]:
    corpus = scenes(1500, 1133)
    n_words = int(corpus.length_B.sum())
    by_precision = {}
    for name, setting in PRECISIONS.items():
        torch.set_float32_matmul_precision(setting)
        trainer(corpus, "cuda", max_epochs=1).fit(corpus)
        started = time.perf_counter()
        history = trainer(corpus, "cuda").fit(corpus)
        whole = time.perf_counter() - started
        epoch = float(np.median(history.seconds[1:]))
        by_precision[name] = {
            "words_per_s": n_words / epoch,
            "seconds_of_60_epochs": whole,
            "loss": history.epochs[-1].loss,
        }
    torch.set_float32_matmul_precision(PRECISIONS[HEADLINE])
    together = {}
    for count in (1, 2, 4, 8):
        trainers = [trainer(corpus, "cuda", seed=seed, max_epochs=8) for seed in range(count)]
        histories = fit_side_by_side(trainers, corpus)
        epoch = float(np.median(histories[0].seconds[1:]))
        together[str(count)] = count * n_words / epoch
    print_table(
        f"training: 1,500 documents, {n_words:,} words an epoch, batch 64, Adam, class head",
        ["variant", "million words/s", "60 epochs"],
        [
            *(
                [n, _millions(each["words_per_s"]), f"{each['seconds_of_60_epochs']:.2f} s"]
                for n, each in by_precision.items()
            ),
            *([f"{n} side by side, {HEADLINE}", _millions(v), ""] for n, v in together.items()),
        ],
    )
    return {
        "words_per_s": by_precision[HEADLINE]["words_per_s"],
        "precision": HEADLINE,
        "by_precision": by_precision,
        "side_by_side_words_per_s": together,
        "same_as_cpu": same_as_cpu(),
    }


def same_as_cpu() -> list[dict[str, Any]]:
    """Train on CPU and GPU from the same seeds, and measure what no one has learned from."""
    everything = scenes(450, 300, n_visual=240)
    corpus, unseen = everything.take(np.arange(300)), everything.take(np.arange(300, 450))
    results: list[dict[str, Any]] = []
    for seed in range(3):
        losses = {}
        for name, setting in {"cpu": "highest", **PRECISIONS}.items():
            torch.set_float32_matmul_precision(setting)
            device = "cpu" if name == "cpu" else "cuda"
            history = trainer(corpus, device, seed=seed, max_epochs=20, n_topics=50).fit(
                corpus, unseen
            )
            losses[name] = history.epochs[-1].validation["perplexity"]
        results.append({"seed": seed, "validation_perplexity": losses})
    print_table(
        "the same training on CPU and GPU: perplexity of unseen documents",
        ["seed", "cpu", *PRECISIONS],
        [
            [str(each["seed"]), *(f"{v:.4f}" for v in each["validation_perplexity"].values())]
            for each in results
        ],
    )
    return results


def _millions(words_per_s: float) -> str:
    return f"{words_per_s / 1e6:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="h200", help="of the file in benchmarks/results/")
    parser.add_argument("--commit", help="of this code, where git cannot be asked")
    arguments = parser.parse_args()
    bytes_per_second = bandwidth()
    results = {
        "device": torch.cuda.get_device_name(),
        "triton": triton.__version__,
        "copy_bytes_per_s": bytes_per_second,
        "op": operation(bytes_per_second),
        "table": table(bytes_per_second),
        "train": training(),
    }
    if arguments.commit:
        results["commit"] = arguments.commit
    write_results(arguments.name, results)


if __name__ == "__main__":
    main()
