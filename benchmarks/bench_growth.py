"""Benchmark of growth: time and memory per photograph as their number rises.

python -m benchmarks.bench_growth                     # 10⁴ and 10⁵ photographs
python -m benchmarks.bench_growth --million           # and 10⁶
python -m benchmarks.bench_growth 1000 2000           # other numbers

The visual words of photographs are drawn, some of each class more often than others, so that
reading photographs, which takes a constant time for each, is not part of it. Then a corpus is
written, a model is fitted on it (two epochs), all photographs are predicted, and an index of them
is made, each in a process of its own, whose largest memory is reported: all of it, and without the
pages of files.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.common import print_table, write_results
from supdocnade import BagOfVisualWords, Corpus, SceneModel
from supdocnade.cli.demo import drawn_scenes
from supdocnade.gallery.build import IndexWriter
from supdocnade.scene.model import scene_model
from supdocnade.scene.prediction import FittedScene
from supdocnade.visual_words.to_corpus import WORDS

SIZES, MILLION = (10_000, 100_000), 1_000_000
LENGTH, N_CLASSES, N_TAGS, N_TOPICS, N_EPOCHS = 100, 10, 20, 64, 2
BLOCK = 1000
"""Photographs of a shard, and those that are predicted at a time."""
GOAL_BYTES, GOAL_BYTES_EACH, GOAL_RATIO = 1e9, 300, 1.2
STAGES = ("encode", "fit", "predict", "index")
COLUMNS = ("us_per_photograph", "peak_mib", "peak_anonymous_mib")
SAMPLING_SECONDS = 0.02


def encode(folder: Path, n_photographs: int) -> None:
    """Write a corpus of drawn words with names, keys, labels and tags."""
    images = [scene.image for scene in drawn_scenes(2, max_side=128)]
    words = BagOfVisualWords(n_words=240, random_state=0).fit(images)
    encoder = words.encoder_
    corpus = Corpus.create(
        folder / "corpus", n_words=encoder.n_features, encoder=encoder.fingerprint()
    )
    words.save(corpus.folder / WORDS)
    rng = np.random.default_rng(0)
    sum_CK = np.cumsum(rng.dirichlet(np.full(encoder.n_features, 0.3), N_CLASSES), axis=1)
    for start in range(0, n_photographs, BLOCK):
        numbers = range(start, min(start + BLOCK, n_photographs))
        label_B = rng.integers(N_CLASSES, size=len(numbers))
        drawn_BN = rng.random((len(numbers), LENGTH))
        ids = [np.searchsorted(sum_CK[c], row) for c, row in zip(label_B, drawn_BN, strict=True)]
        corpus.append(
            [np.minimum(each, encoder.n_features - 1).astype(np.int32) for each in ids],
            names=[f"/photographs/2024/07/photograph-{number}.jpg" for number in numbers],
            keys=[f"{number:032x}" for number in numbers],
            labels=[f"class {label}" for label in label_B],
            tags=[[f"tag {label}", f"tag {label + N_CLASSES}"] for label in label_B],
        )


def fit(folder: Path, n_photographs: int) -> dict[str, float]:
    """Fit a model on the corpus; return the seconds of its stages."""
    seconds: dict[str, float] = {}
    last = [time.perf_counter()]

    def report(stage: str, *_: Any) -> None:
        now = time.perf_counter()
        seconds[stage] = seconds.get(stage, 0.0) + now - last[0]
        last[0] = now

    model = scene_model(n_topics=N_TOPICS, max_epochs=N_EPOCHS, device="cpu", random_state=0)
    model.set_params(n_jobs=-1).fit(Corpus.open(folder / "corpus"), progress=report)
    model.save(folder / "model")
    return {f"{stage.replace(' ', '_')}_seconds": value for stage, value in seconds.items()}


def blocks(folder: Path, n_photographs: int) -> Iterator[tuple[range, sparse.csr_array]]:
    """Yield the numbers and the word counts of some photographs at a time."""
    corpus = Corpus.open(folder / "corpus")
    for start in range(0, n_photographs, BLOCK):
        numbers = range(start, min(start + BLOCK, n_photographs))
        yield numbers, sparse.csr_array(corpus.counts(np.arange(numbers.start, numbers.stop)))


def outputs(
    fitted: FittedScene, counts: sparse.csr_array
) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]:
    """Return topics, probabilities of classes and probabilities of tags."""
    photographs = fitted.compare_counts(counts)
    proba_BC, proba_BA = fitted.class_proba(photographs), fitted.tag_proba(photographs)
    return photographs.topics_BH, proba_BC, proba_BA


def predict(folder: Path, n_photographs: int) -> dict[str, float]:
    """Predict all photographs; return the accuracy on them."""
    fitted = SceneModel.load(folder / "model").fitted_
    labels, n_right = Corpus.open(folder / "corpus").labels, 0
    for numbers, counts in blocks(folder, n_photographs):
        best = outputs(fitted, counts)[1].argmax(axis=1)
        pairs = zip(numbers, best, strict=True)
        n_right += sum(fitted.classes[each] == labels[number] for number, each in pairs)
    return {"accuracy": n_right / n_photographs}


def index(folder: Path, n_photographs: int) -> None:
    """Make an index of all photographs, with thumbnails of a hundred bytes."""
    fitted = SceneModel.load(folder / "model").fitted_
    (folder / "index").mkdir()
    writer = IndexWriter(fitted, folder / "index")
    for numbers, counts in blocks(folder, n_photographs):
        hidden_BH, proba_BC, presence_BA = outputs(fitted, counts)
        writer.add(
            [f"/photographs/2024/07/photograph-{number}.jpg" for number in numbers],
            [(f"2024/07/photograph-{number}.jpg", number, number) for number in numbers],
            [bytes(100)] * len(numbers),
            [("2024-07-21T14:03:00", "Camera", 3)] * len(numbers),
            hidden_BH,
            np.hstack([proba_BC, presence_BA]).astype(np.float32),
            np.zeros(len(numbers), np.bool_),
        )
    writer.finish(fitted)


class PeakMemory(threading.Thread):
    """Watches the memory of this process, in MiB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = {"VmHWM": 0.0, "RssAnon": 0.0}
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(SAMPLING_SECONDS):
            self.look()

    def look(self) -> None:
        for line in Path("/proc/self/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in self.peak:
                self.peak[name] = max(self.peak[name], int(value.split()[0]) / 1024)


def run_stage(stage: str, folder: Path, n_photographs: int) -> dict[str, float]:
    """Return the seconds and the largest memory of a stage, in this process."""
    memory = PeakMemory()
    memory.look()
    before = memory.peak["RssAnon"]
    memory.start()
    start = time.perf_counter()
    figures: dict[str, float] = globals()[stage](folder, n_photographs) or {}
    seconds = time.perf_counter() - start
    memory.ended.set()
    memory.join()
    memory.look()
    return {
        "seconds": seconds,
        "us_per_photograph": 1e6 * seconds / n_photographs,
        "peak_mib": memory.peak["VmHWM"],
        "peak_anonymous_mib": memory.peak["RssAnon"],
        "anonymous_mib_before": before,
        **figures,
    }


def run_in_process(stage: str, folder: Path, n_photographs: int) -> dict[str, float]:
    """Return the measurements of `run_stage` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.bench_growth", str(n_photographs)]
    command += ["--stage", stage, "--folder", str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("sizes", nargs="*", type=int)
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stage:
        print(json.dumps(run_stage(given.stage, given.folder, given.sizes[0])))
        return
    sizes = given.sizes or [*SIZES, *([MILLION] if given.million else [])]
    found: dict[str, dict[str, Any]] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            found[str(size)] = {
                stage: run_in_process(stage, Path(folder), size) for stage in STAGES
            }
    first, last = found[str(sizes[0])], found[str(sizes[-1])]
    rows = [
        [size, stage, *(f"{each[name]:.0f}" for name in COLUMNS)]
        for size, stages in found.items()
        for stage, each in stages.items()
    ]
    print_table("growth", ["photographs", "stage", "µs each", "MiB", "anonymous"], rows)
    fit_bytes = last["fit"]["peak_anonymous_mib"] * 2**20
    write_results(
        "growth",
        {
            "words_per_photograph": LENGTH,
            "n_topics": N_TOPICS,
            "n_epochs": N_EPOCHS,
            "sizes": found,
            "time_of_largest_over_smallest": {
                stage: last[stage]["us_per_photograph"] / first[stage]["us_per_photograph"]
                for stage in STAGES
            },
            "goal_ratio": GOAL_RATIO,
            "fit_memory_over_goal": fit_bytes / (GOAL_BYTES + GOAL_BYTES_EACH * sizes[-1]),
        },
    )


if __name__ == "__main__":
    main()
