"""Benchmark of training on a GPU: its speed, and its results against a CPU."""

import time
from typing import Any

import numpy as np
import torch
from scipy import sparse

from benchmarks.common import print_table
from benchmarks.gpu_cases import HEADLINE, PRECISIONS, millions
from supdocnade.corpus import Documents
from supdocnade.model.config import SupDocNADEConfig
from supdocnade.model.network import SupDocNADENetwork, random_tree
from supdocnade.training.config import History, TrainerConfig
from supdocnade.training.trainer import Trainer, make_trainer


def scenes(n_documents: int, length: int, n_visual: int = 960) -> Documents:
    """Return documents of the size of Scene15: 15 classes, 200 tags, six per document."""
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
    network.initialize(corpus, seed)
    network.to(device)
    settings = TrainerConfig(
        generative_weight=0.01, annotation_weight=30.0, max_epochs=max_epochs, seed=seed
    )
    return make_trainer(network, settings)


def many_leaves(n_visual: int) -> float:
    """Return the words per second of an epoch with a large vocabulary."""
    rng = np.random.default_rng(0)
    n_documents, length = 1500, 1133
    frequency = 1 / np.arange(1, n_visual + 1)
    words = rng.choice(n_visual, (n_documents, length), p=frequency / frequency.sum())
    bags = sparse.csr_array(
        (np.ones(words.size, np.int64), words.ravel(), np.arange(n_documents + 1) * length),
        shape=(n_documents, n_visual),
    )
    bags.sum_duplicates()
    corpus = Documents.from_counts(bags, labels=np.arange(n_documents) % 15, n_classes=15)
    _, seconds = time_epochs(trainer(corpus, "cuda", max_epochs=6), corpus)
    return n_documents * length / seconds


def time_epochs(made: Trainer, documents: Documents) -> tuple[History, float]:
    """Train; return the history and the median seconds of an epoch, without the first one."""
    ends = [time.perf_counter()]
    made.on_epoch = lambda *_: ends.append(time.perf_counter())
    history = made.fit(documents)
    return history, float(np.median(np.diff(ends)[1:]))


def training() -> dict[str, Any]:
    corpus = scenes(1500, 1133)
    n_words = int(corpus.length_B.sum())
    by_precision = {}
    for name, setting in PRECISIONS.items():
        torch.set_float32_matmul_precision(setting)
        trainer(corpus, "cuda", max_epochs=1).fit(corpus)
        started = time.perf_counter()
        history, epoch = time_epochs(trainer(corpus, "cuda"), corpus)
        whole = time.perf_counter() - started
        by_precision[name] = {
            "words_per_s": n_words / epoch,
            "seconds_of_60_epochs": whole,
            "loss": history.epochs[-1].loss,
        }
    torch.set_float32_matmul_precision(PRECISIONS[HEADLINE])
    many = {str(leaves): many_leaves(leaves) for leaves in (20_000, 200_000)}
    print_table(
        f"training: 1,500 documents, {n_words:,} words per epoch, batch 64, Adam, class head",
        ["variant", "million words/s", "60 epochs"],
        [
            *(
                [n, millions(each["words_per_s"]), f"{each['seconds_of_60_epochs']:.2f} s"]
                for n, each in by_precision.items()
            ),
            *([f"{n} leaves, {HEADLINE}", millions(v), ""] for n, v in many.items()),
        ],
    )
    return {
        "words_per_s": by_precision[HEADLINE]["words_per_s"],
        "precision": HEADLINE,
        "by_precision": by_precision,
        "many_leaves_words_per_s": many,
        "same_as_cpu": same_as_cpu(),
    }


def same_as_cpu() -> list[dict[str, Any]]:
    """Train on CPU and GPU from the same seeds, and compare the held-out perplexity."""
    documents = scenes(450, 300, n_visual=240)
    corpus, held_out = documents.take(np.arange(300)), documents.take(np.arange(300, 450))
    results: list[dict[str, Any]] = []
    for seed in range(3):
        losses = {}
        for name, setting in {"cpu": "highest", **PRECISIONS}.items():
            torch.set_float32_matmul_precision(setting)
            device = "cpu" if name == "cpu" else "cuda"
            history = trainer(corpus, device, seed=seed, max_epochs=20, n_topics=50).fit(
                corpus, held_out
            )
            losses[name] = history.epochs[-1].validation["perplexity"]
        results.append({"seed": seed, "validation_perplexity": losses})
    print_table(
        "the same training on CPU and GPU: perplexity of held-out documents",
        ["seed", "cpu", *PRECISIONS],
        [
            [str(each["seed"]), *(f"{v:.4f}" for v in each["validation_perplexity"].values())]
            for each in results
        ],
    )
    return results
