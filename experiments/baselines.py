"""The other topic models that the paper names, on published corpora.

python -m experiments.baselines

`SLDA` and `MMLDA` on the LabelMe bags of the sLDA authors: published split, five seeds, default
arguments, which were chosen on quarters of the training part. `ReplicatedSoftmax` and `DocNADE` on
20 Newsgroups and on the same bags: perplexity of the same fifty test documents, settings chosen on
a tenth of the training part. A stopped run resumes with what is missing; remove
experiments/results/baselines.json to start again. Times need a machine that does nothing else.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from experiments.common import read_results, write_results
from experiments.data import Bags, class_slda, newsgroups
from supdocnade import MMLDA, SLDA, DocNADE, ReplicatedSoftmax

COMMAND = "python -m experiments.baselines"

SEEDS = range(5)
N_TOPICS = (10, 40, 80)

N_DOCUMENTS = 50
"""Test documents whose likelihood is measured, as Salakhutdinov and Hinton did."""

HIDDEN = 50
SOFTMAX_GRID: list[dict[str, Any]] = [
    {"learning_rate": rate, "cd_steps": steps} for rate in (3e-3, 1e-2) for steps in (1, 5)
]
DOCNADE_GRID: list[dict[str, Any]] = [
    {"learning_rate": rate, "max_epochs": epochs} for rate in (3e-4, 1e-3) for epochs in (10, 30)
]
ANNEALING: dict[str, Any] = {"n_chains": 100, "n_temperatures": 500}


def classify(model: Any, train: Bags, test: Bags) -> dict[str, float]:
    """Return accuracy, perplexity and times of one model."""
    started, started_cpu = time.perf_counter(), time.process_time()
    model.fit(train.counts, train.labels)
    record = {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - started_cpu,
    }
    record["iterations"] = model.n_iter_
    record["accuracy"] = model.score(test.counts, test.labels)
    record["perplexity"] = model.perplexity(test.counts)
    return record


def softmax_perplexity(
    settings: dict[str, Any], train: sparse.csr_array, test: sparse.csr_array, **annealing: Any
) -> tuple[float, float]:
    model = ReplicatedSoftmax(HIDDEN, random_state=0, **settings).fit(train)
    return model.perplexity(test, **annealing)


def docnade_perplexity(
    settings: dict[str, Any], train: sparse.csr_array, test: sparse.csr_array, **annealing: Any
) -> tuple[float, float]:
    model = DocNADE(HIDDEN, random_state=0, **settings).fit(train)
    return model.perplexity(test), 0.0


def compare_likelihoods(
    measure: Callable[..., tuple[float, float]],
    grid: list[dict[str, Any]],
    train: sparse.csr_array,
    test: sparse.csr_array,
) -> dict[str, Any]:
    """Return the perplexity of some test documents, with the settings of the lowest on others."""
    order = np.random.default_rng(0).permutation(train.shape[0])
    cut = train.shape[0] // 10
    held_out, known = train[order[:cut][:N_DOCUMENTS]], train[order[cut:]]
    tried = [measure(settings, known, held_out)[0] for settings in grid]
    best = grid[int(np.argmin(tried))]
    value, error = measure(best, train, test, **ANNEALING)
    return {"settings": best, "validation": tried, "perplexity": value, "standard_error": error}


def fifty(counts: sparse.csr_array) -> sparse.csr_array:
    """Return fifty documents with words, the same ones in every run."""
    rows: NDArray[np.int64] = np.flatnonzero(np.asarray(counts.sum(axis=1)) > 0)
    return counts[np.sort(np.random.default_rng(1).permutation(rows)[:N_DOCUMENTS])]


def main() -> None:
    results = read_results("baselines")
    done: dict[str, Any] = {name: results.get(name, {}) for name in ("classes", "likelihoods")}

    def keep(kind: str, name: str, record: dict[str, Any]) -> None:
        done[kind][name] = record
        print(name, record, flush=True)
        write_results("baselines", COMMAND, done)

    train, test = class_slda()
    for kind in (SLDA, MMLDA):
        for n_topics in N_TOPICS:
            for seed in SEEDS:
                name = f"{kind.__name__}, {n_topics} topics, seed {seed}"
                if name not in done["classes"]:
                    keep("classes", name, classify(kind(n_topics, random_state=seed), train, test))
    texts = [bags.counts[bags.counts.sum(axis=1) > 0] for bags in newsgroups()]
    for corpus, known, unseen in (
        ("20 Newsgroups", *texts),
        ("LabelMe bags", train.counts, test.counts),
    ):
        for model, measure, grid in (
            ("DocNADE", docnade_perplexity, DOCNADE_GRID),
            ("Replicated Softmax", softmax_perplexity, SOFTMAX_GRID),
        ):
            name = f"{corpus}, {model}, {HIDDEN} topics"
            if name not in done["likelihoods"]:
                record = compare_likelihoods(measure, grid, known, fifty(unseen))
                keep("likelihoods", name, record)


if __name__ == "__main__":
    main()
