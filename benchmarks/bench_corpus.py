"""Benchmark of corpora on disk: reading and appending as the number of shards grows.

python -m benchmarks.bench_corpus

All times are CPU and file system together, with the files in the system's cache. Appends flush
every file to the disk, which a disk may take longer for than all the rest; they are timed with
that.
"""

import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.common import alternate, print_table, write_results
from supdocnade import Corpus

N_DOCUMENTS, LENGTH, N_WORDS, BATCH = 10_000, 961, 1160, 64
SHARDS = (10, 100, 1000)
APPENDS = (1000, 10_000)
EPOCHS = (1000, 10_000)
"""Documents of an epoch, read in blocks."""


def fill(folder: Path, n_shards: int, n_documents: int = N_DOCUMENTS) -> Corpus:
    """Return a corpus whose documents are divided among shards."""
    rng = np.random.default_rng(0)
    corpus = Corpus.create(folder, n_words=N_WORDS)
    for size in map(len, np.array_split(np.arange(n_documents), n_shards)):
        ids = rng.integers(0, N_WORDS, (size, LENGTH))
        counts = np.stack([np.bincount(each, minlength=N_WORDS) for each in ids])
        corpus.append(counts, names=[f"photograph {number}.jpg" for number in range(size)])
    return corpus


def time_reading(folder: Path) -> dict[str, float]:
    """Return milliseconds for a batch of random documents, by the number of shards."""
    corpora = {str(n): fill(folder / f"shards-{n}", n) for n in SHARDS}
    rng = np.random.default_rng(1)
    rows = [rng.permutation(N_DOCUMENTS)[:BATCH] for _ in range(32)]

    def read_all(corpus: Corpus) -> None:
        for some in rows:
            corpus.read_tokens(some)

    timings = alternate({n: partial(read_all, each) for n, each in corpora.items()})
    return {n: 1e3 * timing.median / len(rows) for n, timing in timings.items()}


def time_appending(folder: Path) -> dict[str, float]:
    """Return milliseconds for each of the last appends, by the number of shards then."""
    corpus = Corpus.create(folder / "appended", n_words=N_WORDS)
    document = np.eye(1, N_WORDS)
    last = 200
    found = {}
    for total in APPENDS:
        while len(corpus.shards) < total - last:
            corpus.append(document)
        seconds = []
        for _ in range(last):
            start = time.perf_counter()
            corpus.append(document)
            seconds.append(time.perf_counter() - start)
        found[str(total)] = 1e3 * float(np.median(seconds))
    return found


def read_blocks(corpus: Corpus) -> None:
    """Read all documents, some at a time."""
    for _ in corpus.blocks():
        pass


def time_epochs(folder: Path) -> dict[str, float]:
    """Return microseconds per document for reading all documents, by their number."""
    corpora = {str(n): fill(folder / f"epoch-{n}", n // 100, n) for n in EPOCHS}
    timings = alternate({n: partial(read_blocks, each) for n, each in corpora.items()})
    return {n: 1e6 * timing.median / int(n) for n, timing in timings.items()}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        reading = time_reading(Path(folder))
        appending = time_appending(Path(folder))
        epochs = time_epochs(Path(folder))
    for title, header, times in (
        (f"{BATCH} documents × {LENGTH} words", ["shards", "ms"], reading),
        ("one append", ["shards", "ms"], appending),
        ("all documents in blocks", ["documents", "µs/document"], epochs),
    ):
        print_table(title, header, [[n, f"{value:.2f}"] for n, value in times.items()])
    write_results(
        "corpus",
        {
            "ms_per_batch_by_shards": reading,
            "batch_from_1000_over_10_shards": reading["1000"] / reading["10"],
            "ms_per_append_by_shards": appending,
            "append_at_10000_over_1000_shards": appending["10000"] / appending["1000"],
            "us_per_document_by_documents": epochs,
            "document_of_10000_over_1000": epochs["10000"] / epochs["1000"],
        },
    )


if __name__ == "__main__":
    main()
