"""Benchmark of several hidden layers: an update relative to its matrix products in plain torch.

python -m benchmarks.bench_depth             # on one and two threads; writes results/depth.json
python -m benchmarks.bench_depth cuda        # on a GPU; writes results/depth_cuda.json

An update gathers documents, draws their split points, computes the objective and its gradients and
lets Adam change the parameters. The products are those of an update with all rows of W and V,
forward and backward by autograd, with matrices that are there already: the counts of the words
before the split and of the whole documents with W, both with the weights of the second layer, and
the hidden units with V and U.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.common import alternate, print_table, write_results
from supdocnade.corpus import Documents
from supdocnade.corpus.tokens import MemoryTokens
from supdocnade.model.config import SupDocNADEConfig
from supdocnade.model.network import SupDocNADENetwork, random_tree
from supdocnade.training.trainer import Trainer
from supdocnade.training.trainer_config import TrainerConfig

LAYERS, BATCH, N_CLASSES, N_UPDATES = (512, 512), 64, 8, 25
"""An epoch of 1,600 documents, as many as the paper takes from LabelMe."""
CASES = {
    "images: 961 of 1,160 words, tree": (961, 1_160, "tree"),
    "images: 961 of 1,160 words, softmax": (961, 1_160, "softmax"),
    "texts: 100 of 10,000 words, tree": (100, 10_000, "tree"),
    "texts: 100 of 10,000 words, softmax": (100, 10_000, "softmax"),
}
"""Length of the documents, size of the vocabulary and output layer."""


def draw_corpus(length: int, n_words: int) -> Documents:
    """Return documents of equal length; word k has a frequency proportional to 1 / (k + 10)."""
    rng, n_documents = np.random.default_rng(0), BATCH * N_UPDATES
    frequency = 1 / (np.arange(n_words) + 10)
    drawn = rng.choice(n_words, (n_documents, length), p=frequency / frequency.sum())
    ids = np.sort(drawn.astype(np.int32), axis=1)
    return Documents(
        tokens=MemoryTokens(ids.ravel(), np.arange(n_documents + 1) * length),
        n_visual_words=n_words,
        n_annotation_words=0,
        label_B=rng.integers(0, N_CLASSES, n_documents),
        n_classes=N_CLASSES,
    )


def run_updates(corpus: Documents, output: str, device: str) -> Callable[[], None]:
    """Return a call that trains one more epoch of `N_UPDATES` updates."""
    config = SupDocNADEConfig(
        n_visual_words=corpus.n_visual_words, n_topics=LAYERS, n_classes=N_CLASSES, output=output
    )
    network = SupDocNADENetwork(config, random_tree(config, 0))
    network.initialize(corpus.word_counts(), 0)
    network.initialize_classes(corpus.class_counts())
    training = TrainerConfig(batch_size=BATCH, generative_weight=0.01, schedule="constant")
    trainer = Trainer(network.to(device), training)
    return lambda: trainer.run_epoch(corpus)


def run_products(n_words: int, output: str, device: str, *, adam: bool) -> Callable[[], None]:
    """Return a call of the products of `N_UPDATES` updates, forward and backward.

    Parameters
    ----------
    adam : let torch's fused Adam change the matrices, too.
    """
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return (0.01 * torch.randn(shape, generator=generator)).to(device)

    n_rows = n_words if output == "softmax" else n_words - 1
    counts_XK = draw(2 * BATCH, n_words)
    shapes = (n_words, LAYERS[0]), LAYERS, (LAYERS[1], n_rows), (LAYERS[1], N_CLASSES)
    matrices = [draw(*shape).requires_grad_() for shape in shapes]
    delta_BT, delta_BC = draw(BATCH, n_rows), draw(BATCH, N_CLASSES)
    optimizer = torch.optim.Adam(matrices, fused=True) if adam else None

    def run() -> None:
        for _ in range(N_UPDATES):
            for matrix in matrices:
                matrix.grad = None
            W, W_2, V, U = matrices
            hidden_XH = (counts_XK @ W).relu()
            hidden_XH = (hidden_XH @ W_2).relu()
            logits = hidden_XH[:BATCH] @ V, hidden_XH[BATCH:] @ U
            torch.autograd.backward(logits, (delta_BT, delta_BC))
            if optimizer is not None:
                optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()

    return run


def measure(device: str) -> dict[str, Any]:
    """Return times and ratios of all cases, and print them."""
    results: dict[str, Any] = {}
    rows = []
    for name, (length, n_words, output) in CASES.items():
        timings = alternate(
            {
                "update": run_updates(draw_corpus(length, n_words), output, device),
                "products": run_products(n_words, output, device, adam=False),
                "products and Adam": run_products(n_words, output, device, adam=True),
            },
            rounds=5,
        )
        ms = {kind: 1e3 * timing.median / N_UPDATES for kind, timing in timings.items()}
        ratios = {
            "update_over_products": ms["update"] / ms["products"],
            "update_over_products_and_adam": ms["update"] / ms["products and Adam"],
        }
        results[name] = {"ms": ms, **ratios}
        rows.append([name, *(f"{each:.2f}" for each in (*ms.values(), *ratios.values()))])
    header = ["documents", "update (ms)", "products (ms)", "with Adam (ms)", "ratio", "with Adam"]
    print_table(f"an update of {BATCH} documents, layers {LAYERS} (limit 1.5)", header, rows)
    return results


def main() -> None:
    setting = {"layers": LAYERS, "batch": BATCH}
    if sys.argv[1:] == ["cuda"]:
        gpu = torch.cuda.get_device_name()
        write_results("depth_cuda", {**setting, "gpu": gpu, "cases": measure("cuda")})
        return
    cases = {}
    for n_threads in (1, 2):
        torch.set_num_threads(n_threads)
        cases[str(n_threads)] = measure("cpu")
    write_results("depth", {**setting, "cases_by_threads": cases})


if __name__ == "__main__":
    main()
