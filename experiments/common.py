"""What every experiment does: note what made a result, and keep it."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.common import metadata
from numpy.typing import NDArray
from scipy import sparse

RESULTS = Path(__file__).parent / "results"


@contextmanager
def timed(record: dict[str, Any], name: str) -> Iterator[None]:
    """Add the seconds that a block takes to a record, and say that it is over."""
    started = time.perf_counter()
    yield
    record[name] = round(time.perf_counter() - started, 1)
    print(f"  {name}: {record[name]} s", flush=True)


def write_results(name: str, command: str, results: dict[str, Any]) -> None:
    """Write a results file; the experiment is the only one who does."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"command": command, **metadata(), **results}, indent=2) + "\n")
    print(f"written to {path}")


def mean_and_error(values: list[float]) -> dict[str, float]:
    """Return the mean of several runs and its standard error."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "standard_error": float(error)}


def unigram_log_prob(train: sparse.csr_array, test: sparse.csr_array) -> NDArray[np.float64]:
    """Return log p of every test document under the smoothed frequencies of the training words."""
    counts = np.asarray(train.sum(axis=0), np.float64) + 0.5
    log_prob: NDArray[np.float64] = test @ np.log(counts / counts.sum())
    return log_prob
