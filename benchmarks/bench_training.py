"""Benchmark of training: an epoch relative to the operation alone, and a step by vocabulary.

python -m benchmarks.bench_training
"""

from collections.abc import Callable

import numpy as np
import torch

from benchmarks.common import alternate, print_table, write_results
from supdocnade.corpus import Documents
from supdocnade.corpus.tokens import MemoryTokens
from supdocnade.model.config import SupDocNADEConfig
from supdocnade.model.network import SupDocNADENetwork, random_tree
from supdocnade.seeding import token_order
from supdocnade.training.config import TrainerConfig
from supdocnade.training.objective import epoch_batches, make_batch
from supdocnade.training.trainer import Trainer

N_TOPICS, LENGTH, BATCH, N_CLASSES = 200, 961, 64, 8


def draw_corpus(n_documents: int, n_words: int) -> Documents:
    """Return documents of equal length over equally frequent words, the worst case for caches."""
    rng = np.random.default_rng(0)
    ids = np.sort(rng.integers(0, n_words, (n_documents, LENGTH)).astype(np.int32), axis=1)
    return Documents(
        tokens=MemoryTokens(ids.ravel(), np.arange(n_documents + 1) * LENGTH),
        n_visual_words=n_words,
        n_annotation_words=0,
        label_B=rng.integers(0, N_CLASSES, n_documents),
        n_classes=N_CLASSES,
    )


def make_network(corpus: Documents) -> SupDocNADENetwork:
    config = SupDocNADEConfig(
        n_visual_words=corpus.n_visual_words, n_topics=N_TOPICS, n_classes=N_CLASSES
    )
    network = SupDocNADENetwork(config, random_tree(config, 0))
    network.initialize(corpus, 0)
    return network


def training_epoch(corpus: Documents) -> Callable[[], None]:
    """Return a call that trains one more epoch, with shuffling, class head and optimizer."""
    config = TrainerConfig(batch_size=BATCH, generative_weight=0.01, schedule="constant")
    trainer = Trainer(make_network(corpus), config)
    return lambda: trainer.run_epoch(corpus)


def operation_epoch(corpus: Documents) -> Callable[[], None]:
    """Return a call of the operation alone, with all gradients, on the same batches."""
    network = make_network(corpus)
    batches = []
    for documents in epoch_batches(len(corpus), BATCH, seed=0, epoch=0):
        order = token_order(0, 0, documents, corpus.length_B[documents])
        batches.append(make_batch(corpus, documents, order))

    def run() -> None:
        for batch in batches:
            network.zero_grad()
            network.terms(batch).nll_B.sum().backward()  # type: ignore[no-untyped-call]

    return run


def main() -> None:
    torch.set_num_threads(2)
    corpus = draw_corpus(800, 1_160)
    timings = alternate({"operation": operation_epoch(corpus), "training": training_epoch(corpus)})
    operation = timings["operation"].median
    rows = [
        [name, f"{t.median:.3f}", f"{t.spread:.3f}", f"{t.median / operation:.2f}"]
        for name, t in timings.items()
    ]
    print_table(
        f"an epoch over 800 documents × {LENGTH} words, {N_TOPICS} topics, 1160 leaves (limit 1.6)",
        ["what", "seconds", "spread", "ratio"],
        rows,
    )
    sizes = (1_000, 100_000)
    steps = alternate({f"{n}": training_epoch(draw_corpus(BATCH, n)) for n in sizes})
    first, last = (steps[f"{n}"].median for n in sizes)
    print_table(
        f"a training step with batch {BATCH} (limit 4)",
        ["leaves", "ms/document", "ratio"],
        [[n, f"{t.median / BATCH * 1e3:.3f}", f"{t.median / first:.2f}"] for n, t in steps.items()],
    )
    write_results(
        "training",
        {
            "epoch_seconds": timings["training"].median,
            "epoch_over_operation": timings["training"].median / operation,
            "step_at_100000_over_1000": last / first,
        },
    )


if __name__ == "__main__":
    main()
