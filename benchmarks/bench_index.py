"""Benchmark of the index: growth, opening, questions, memory and recall.

python -m benchmarks.bench_index MODEL INDEX

INDEX is an index of photographs that `supdocnade index MODEL PHOTOS` made. Copies of their topic
features make larger indexes: a copy lies between a photograph and one of its ten nearest, and each
of its features is multiplied by 1 plus normal noise, so that copies are not much closer to one
another than photographs are. Thumbnails of copies have a hundred bytes. Every size is opened and
asked in a process of its own, whose memory is reported.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import print_table, write_results
from supdocnade.gallery.build import IndexWriter
from supdocnade.gallery.photo_index import Gallery
from supdocnade.gallery.segment import Photograph
from supdocnade.scene.persistence import load_scene

SIZES = (10_000, 100_000, 1_000_000)
N_QUESTIONS, N_EXACT, TOP, N_NEAREST, NOISE, BLOCK = 100, 30, 10, 10, 0.3, 4096
N_ADDED = 100
Floats = NDArray[np.float32]


class Copies:
    """Draws copies of topic features."""

    def __init__(self, topics_NH: Floats, seed: int):
        self.topics_NH, self.rng = topics_NH, np.random.default_rng(seed)
        square_N = np.square(topics_NH).sum(axis=1)
        away_NN = square_N[:, None] + square_N - 2 * topics_NH @ topics_NH.T
        np.fill_diagonal(away_NN, np.inf)
        self.near_NX = np.argpartition(away_NN, N_NEAREST, axis=1)[:, :N_NEAREST]

    def draw(self, n: int) -> Floats:
        first = self.rng.integers(len(self.topics_NH), size=n)
        second = self.near_NX[first, self.rng.integers(N_NEAREST, size=n)]
        share = self.rng.random((n, 1), np.float32)
        mixed = share * self.topics_NH[first] + (1 - share) * self.topics_NH[second]
        noise = self.rng.standard_normal(mixed.shape, np.float32)
        return np.asarray(mixed * (1 + NOISE * noise), np.float32)


def add_copies(writer: IndexWriter, copies: Copies, first: int, n: int) -> None:
    """Add copies to an index, with numbers from `first`."""
    widths = writer.widths
    for start in range(first, first + n, BLOCK):
        topics = copies.draw(min(BLOCK, first + n - start))
        writer.add(
            [
                Photograph(
                    folder=0,
                    name=f"2024/07/copy{number}.jpg",
                    words=f" 2024 07 copy{number} jpg",
                    stamp=(number, number),
                    topics_H=topics_H,
                    proba_C=np.full(widths.classes, 1 / max(widths.classes, 1), np.float32),
                    presence_A=np.zeros(widths.tags, np.float32),
                    picture=bytes(100),
                )
                for number, topics_H in enumerate(topics, start=start)
            ]
        )


def measure_growth(model: Path, folder: Path, topics_NH: Floats) -> dict[str, Any]:
    """Return the figures of indexes of all sizes; one grows to the next."""
    fitted, _ = load_scene(model)
    folder.mkdir()
    writer, copies = IndexWriter(fitted, folder), Copies(topics_NH, seed=0)
    writer.number_folders(["/photographs"])
    figures, before = {}, 0
    for size in SIZES:
        start = time.perf_counter()
        add_copies(writer, copies, before, size - N_ADDED - before)
        writer.finish()
        added = time.perf_counter()
        add_copies(writer, copies, size - N_ADDED, N_ADDED)
        writer.finish()
        figures[str(size)] = {
            "build_seconds": added - start,
            "built_rows": size - N_ADDED - before,
            "add_seconds": time.perf_counter() - added,
            "segments": [each.rows for each in writer.manifest.segments],
            "megabytes": sum(path.stat().st_size for path in folder.iterdir()) / 1e6,
            **ask_in_process(model, folder),
        }
        print(size, json.dumps(figures[str(size)]), flush=True)
        before = size
    return figures


def ask_in_process(model: Path, folder: Path) -> dict[str, Any]:
    """Return the figures of `ask` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.bench_index", "--ask", str(model), str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


def ask(model: Path, folder: Path) -> dict[str, float]:
    """Open an index and ask for the photographs nearest to new copies."""
    fitted, _ = load_scene(model)
    memory = resident_mib()
    start = time.perf_counter()
    gallery = Gallery.load(folder, fitted)
    opened = time.perf_counter() - start
    topics_NH = np.stack([gallery.topics(number) for number in range(0, len(gallery), 10)][:5000])
    questions = Copies(topics_NH, seed=1).draw(N_QUESTIONS)
    before = resident_mib()
    milliseconds, found = [], []
    for topics_H in questions:
        start = time.perf_counter()
        found.append({number for number, _ in gallery.nearest(topics_H, TOP)})
        milliseconds.append(1e3 * (time.perf_counter() - start))
    after = resident_mib()
    exact_ms, hits = [], 0
    for topics_H, numbers in zip(questions[:N_EXACT], found[:N_EXACT], strict=True):
        start = time.perf_counter()
        true = {number for number, _ in gallery.nearest(topics_H, TOP, exact=True)}
        exact_ms.append(1e3 * (time.perf_counter() - start))
        hits += len(true & numbers)
    start = time.perf_counter()
    rows, _ = gallery.search(words="copy77")
    word_ms = 1e3 * (time.perf_counter() - start)
    return {
        "open_seconds": opened,
        "question_ms": float(np.median(milliseconds)),
        "question_ms_p95": float(np.quantile(milliseconds, 0.95)),
        "exact_ms": float(np.median(exact_ms)),
        "recall_at_10": hits / (TOP * N_EXACT),
        "first_word_search_ms": word_ms,
        "found_by_word": float(len(rows)),
        "open_mib": before - memory,
        "questions_mib": after - before,
    }


def resident_mib() -> float:
    """Return the memory of this process without the pages of mapped files."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 1024


def median_nearest(topics_NH: Floats) -> float:
    """Return the median distance of some features from their nearest."""
    square_N = np.square(topics_NH).sum(axis=1)
    away_NN = square_N[:, None] + square_N - 2 * topics_NH @ topics_NH.T
    np.fill_diagonal(away_NN, np.inf)
    return float(np.median(np.sqrt(np.maximum(away_NN.min(axis=1), 0))))


def main(model: Path, index: Path) -> None:
    gallery = Gallery.load(index, load_scene(model)[0])
    topics_NH = np.stack([gallery.topics(number) for number in range(len(gallery))])
    with tempfile.TemporaryDirectory() as temporary:
        growth = measure_growth(model, Path(temporary) / "copies", topics_NH)
    print_table(
        f"{topics_NH.shape[1]} topics, copies of {len(topics_NH)} photographs",
        ["photographs", "build s", "add s", "open s", "question ms", "exact ms", "recall", "MiB"],
        [
            [
                size,
                f"{each['build_seconds']:.0f}",
                f"{each['add_seconds']:.1f}",
                f"{each['open_seconds']:.1f}",
                f"{each['question_ms']:.1f}",
                f"{each['exact_ms']:.0f}",
                f"{each['recall_at_10']:.3f}",
                f"{each['questions_mib']:.0f}",
            ]
            for size, each in growth.items()
        ],
    )
    results = {
        "photographs": len(topics_NH),
        "n_topics": int(topics_NH.shape[1]),
        "nearest_photograph": median_nearest(topics_NH),
        "nearest_of_as_many_copies": median_nearest(Copies(topics_NH, seed=2).draw(len(topics_NH))),
        "sizes": growth,
    }
    write_results("index", results)


if __name__ == "__main__":
    if sys.argv[1] == "--ask":
        print(json.dumps(ask(Path(sys.argv[2]), Path(sys.argv[3]))))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
