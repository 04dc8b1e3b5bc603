"""Helpers of all experiments: results files, timing, tables and baseline likelihoods."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.common import metadata
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import gammaln, psi
from sklearn.decomposition import LatentDirichletAllocation

RESULTS = Path(__file__).parent / "results"


@contextmanager
def timed(record: dict[str, Any], name: str) -> Iterator[None]:
    """Add the seconds that a block takes to a record, and print them."""
    started = time.perf_counter()
    yield
    record[name] = round(time.perf_counter() - started, 1)
    print(f"  {name}: {record[name]} s", flush=True)


def write_results(name: str, command: str, results: dict[str, Any]) -> None:
    """Write the results file of an experiment, with the command and the machine."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"command": command, **metadata(), **results}, indent=2) + "\n")
    print(f"written to {path}")


def read_results(name: str) -> dict[str, Any]:
    """Return the results that an interrupted run has written, to resume from them."""
    path = RESULTS / f"{name}.json"
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return results


def mean_and_spread(values: list[float]) -> dict[str, float]:
    """Return the mean of several runs and their standard deviation."""
    spread = np.std(values, ddof=1) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "standard_deviation": float(spread)}


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def lda_log_prob_bound(model: LatentDirichletAllocation, counts: sparse.csr_array) -> float:
    """Return a lower bound of the log-likelihood of documents under a fitted LDA.

    scikit-learn's `score` also subtracts the divergence of the topics from their prior, which
    belongs to the training documents; it is added back here, in favour of LDA.
    """
    prior, beta_HK = model.topic_word_prior_, model.components_
    mean_log_HK = psi(beta_HK) - psi(beta_HK.sum(axis=1, keepdims=True))
    divergence = ((prior - beta_HK) * mean_log_HK + gammaln(beta_HK) - gammaln(prior)).sum()
    divergence += (gammaln(prior * beta_HK.shape[1]) - gammaln(beta_HK.sum(axis=1))).sum()
    return float(model.score(counts) - divergence)


def unigram_log_prob(train: sparse.csr_array, test: sparse.csr_array) -> NDArray[np.float64]:
    """Return log p of every test document under the smoothed frequencies of the training words."""
    counts = np.asarray(train.sum(axis=0), np.float64) + 0.5
    log_prob: NDArray[np.float64] = test @ np.log(counts / counts.sum())
    return log_prob
