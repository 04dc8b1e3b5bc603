"""Benchmark of training in two processes against one, by batch size.

python -m benchmarks.bench_processes    # a few minutes; writes the tables of docs/scaling.md

Every process has one thread. The efficiency of two is the time of one process, divided by twice the
time of both. Times are those of whole epochs, in turn, the first of each discarded.

For more workers the efficiency is computed, not measured: an update of B documents takes N workers
c B / N + s(N), where c is the measured time of a document and s(N) the time to send the gradients
twice, 2 S (N - 1) / N bytes at the bandwidth of the network, and the latency of two exchanges.
"""

import os
import statistics
from pathlib import Path
from typing import Any

from experiments.common import markdown

from benchmarks.bench_training import draw_corpus, make_network
from benchmarks.common import print_table, update_page, write_results
from supdocnade.likelihood.cpu.threads import limit_threads
from supdocnade.training.processes import training_processes
from supdocnade.training.trainer import Trainer
from supdocnade.training.trainer_config import TrainerConfig

PAGE = Path(__file__).parents[1] / "docs" / "scaling.md"
N_DOCUMENTS, N_WORDS = 2_048, 1_160
BATCHES = (64, 256, 1_024)
ROUNDS = 3
WORKERS = (8, 64)
COMPUTED_BATCHES = (64, 256, 1_024, 4_096, 16_384)
NETWORKS = {"10 Gbit/s": 1.25e9, "100 Gbit/s": 12.5e9}
LATENCY = 1e-4
"""Seconds of one exchange in the computed table, apart from the bytes."""


def epoch_seconds(batch_size: int, batch_groups: int) -> float:
    """Return the median time of an epoch after the first."""
    corpus = draw_corpus(N_DOCUMENTS, N_WORDS)
    config = TrainerConfig(
        batch_size=batch_size, batch_groups=batch_groups, generative_weight=0.01,
        schedule="constant", max_epochs=4,
    )  # fmt: skip
    history = Trainer(make_network(corpus), config).fit(corpus)
    return statistics.median(history.seconds[1:])


def measure() -> dict[str, dict[str, float]]:
    """Return the seconds of epochs, of all kinds in turn, round after round."""
    seconds: dict[int, dict[str, list[float]]] = {
        size: {"one": [], "one_two_groups": [], "two": []} for size in BATCHES
    }
    for _ in range(ROUNDS):
        with limit_threads(1):
            for size, found in seconds.items():
                found["one"].append(epoch_seconds(size, 1))
                found["one_two_groups"].append(epoch_seconds(size, 2))
            with training_processes(2):
                for size, found in seconds.items():
                    found["two"].append(epoch_seconds(size, 2))
    return {
        str(size): {name: statistics.median(values) for name, values in found.items()}
        for size, found in seconds.items()
    }


def computed_efficiency(
    batch_size: int, n_workers: int, seconds_per_document: float, n_bytes: int, bandwidth: float
) -> float:
    """Return the share of the time in which workers compute, by the formula above."""
    computing = seconds_per_document * batch_size / n_workers
    sending = 2 * n_bytes * (n_workers - 1) / n_workers / bandwidth + 2 * LATENCY
    return computing / (computing + sending)


def describe(results: dict[str, Any]) -> str:
    """Return the tables of the page."""
    measured = [
        [
            size,
            f"{found['one_two_groups'] / found['one']:.2f}",
            f"{found['one'] / found['two']:.2f}",
            f"{100 * found['one'] / found['two'] / 2:.0f} %",
        ]
        for size, found in results["seconds"].items()
    ]
    header = ["batch", "time with two groups / one, one process", "speed-up of two", "efficiency"]
    computed = [
        [str(size), *(f"{100 * value:.0f} %" for value in row.values())]
        for size, row in results["computed"].items()
    ]
    names = list(next(iter(results["computed"].values())))
    return "\n\n".join(
        [
            f"Measured on {results['cores']} cores, one thread per process:",
            markdown(header, measured),
            "**Computed, not measured**, for workers of one core:",
            markdown(["batch", *names], computed),
        ]
    )


def main() -> None:
    seconds = measure()
    corpus = draw_corpus(1, N_WORDS)
    n_bytes = sum(p.numel() * p.element_size() for p in make_network(corpus).parameters())
    per_document = min(found["one"] for found in seconds.values()) / N_DOCUMENTS
    computed = {
        str(size): {
            f"{n_workers} workers, {name}": computed_efficiency(
                size, n_workers, per_document, n_bytes, bandwidth
            )
            for n_workers in WORKERS
            for name, bandwidth in NETWORKS.items()
        }
        for size in COMPUTED_BATCHES
    }
    results = {
        "cores": len(os.sched_getaffinity(0)),
        "n_bytes": n_bytes,
        "seconds_per_document": per_document,
        "seconds": seconds,
        "computed": computed,
    }
    print_table(
        "an epoch (s)",
        ["batch", *next(iter(seconds.values()))],
        [[size, *(f"{value:.2f}" for value in found.values())] for size, found in seconds.items()],
    )
    write_results("processes", results)
    update_page(PAGE, {"processes": describe(results)})


if __name__ == "__main__":
    main()
