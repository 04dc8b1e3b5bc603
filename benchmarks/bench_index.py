"""Benchmark of the index: building, opening, questions and memory.

python -m benchmarks.bench_index [SIZES ...] [--other CHECKOUT] [--rounds 5]

Photographs are drawn: clustered topic features, random probabilities, and thumbnails of a hundred
bytes, so that reading photographs is not part of it. Indexes are made and asked in processes of
their own, in turns with those of another checkout if there is one, since other programs may be busy
at the same time. Each process reports the median of its questions, and the least of all rounds
counts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import print_table, write_results
from supdocnade.cli.demo import drawn_scenes
from supdocnade.gallery.build import IndexWriter
from supdocnade.gallery.photo_index import Gallery
from supdocnade.images.decode import JPEG_START
from supdocnade.scene.model import scene_model
from supdocnade.scene.persistence import load_scene

ROOT = Path(__file__).parents[1]
SIZES, N_TOPICS, N_CLUSTERS, BLOCK, N_QUESTIONS, TOP = (100_000,), 512, 500, 1024, 30, 24
Figures = dict[str, float]


def make_model(folder: Path) -> None:
    """Write a model with many topics."""
    scenes = list(drawn_scenes(8, max_side=96))
    model = scene_model(n_topics=N_TOPICS, n_words=20, max_epochs=2, random_state=0)
    model.fit(
        [each.image for each in scenes],
        [each.label for each in scenes],
        [each.tags for each in scenes],
    )
    model.save(folder)


def build(model: Path, folder: Path, size: int) -> Figures:
    """Make an index of drawn photographs, and add one block to it."""
    fitted = load_scene(model)
    rng = np.random.default_rng(0)
    centres = rng.gamma(0.3, 2.0, (N_CLUSTERS, N_TOPICS)).astype(np.float32)
    folder.mkdir()
    writer = IndexWriter(fitted, folder)
    start = time.perf_counter()
    for first in range(0, size, BLOCK):
        n = min(BLOCK, size - first)
        names = [f"2024/{number % 12}/copy{number}.jpg" for number in range(first, first + n)]
        near = centres[rng.integers(N_CLUSTERS, size=n)]
        writer.add(
            [f"/photographs/{name}" for name in names],
            [(name, number, number) for number, name in enumerate(names, start=first)],
            [JPEG_START + number.to_bytes(97, "little") for number in range(first, first + n)],
            [("2024-07-21T14:03:00", f"Camera {number % 5}", number % 6) for number in range(n)],
            near * (1 + 0.3 * rng.standard_normal(near.shape, np.float32)),
            np.hstack(
                [
                    rng.dirichlet(np.full(len(fitted.classes), 0.3), n),
                    rng.random((n, len(fitted.tag_names))) ** 8,
                ]
            ).astype(np.float32),
            np.arange(n) % 20 == 0,
        )
    writer.finish(fitted)
    size_bytes = sum(path.stat().st_size for path in folder.iterdir())
    return {"build_s": time.perf_counter() - start, "megabytes": size_bytes / 1e6}


def ask(model: Path, folder: Path) -> Figures:
    """Open an index and ask for similar photographs, tags and words."""
    fitted = load_scene(model)
    before = memory()
    start = time.perf_counter()
    gallery = Gallery.load(folder, fitted)
    figures = {"open_s": time.perf_counter() - start}
    tags, label = gallery.tag_names, gallery.classes[0]

    def search(**terms: Any) -> None:
        """Do what the server does for a page of the gallery."""
        rows, _ = gallery.search(**terms)
        gallery.count_classes(rows)
        gallery.count_tags(rows)
        for row in rows[:60].tolist():
            gallery.tags(row), gallery.label(row), gallery.paths[row]

    questions: dict[str, Callable[[int], object]] = {
        "similar_ms": lambda n: gallery.nearest(gallery.topics_NH[n * 97], TOP, but=n * 97),
        "tag_ms": lambda n: search(tags=[tags[n % len(tags)]]),
        "tag_in_class_ms": lambda n: search(tags=[tags[n % len(tags)]], label=label),
        "rare_word_ms": lambda n: search(words=f"copy{n + 1000}"),
        "frequent_word_ms": lambda n: search(words="jpg"),
        "everything_ms": lambda n: search(),
        "picture_ms": lambda n: gallery.picture(n * 89),
    }
    for name, question in questions.items():
        milliseconds = []
        for number in range(N_QUESTIONS):
            start = time.perf_counter()
            question(number)
            milliseconds.append(1e3 * (time.perf_counter() - start))
        figures[name] = float(np.median(milliseconds))
    after = memory()
    return figures | {f"{name}_mib": after[name] - before[name] for name in after}


def memory() -> Figures:
    """Return the memory of this process in MiB: its own, and that of mapped files."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {name: int(lines[key].split()[0]) / 1024 for name, key in _MEMORY.items()}


_MEMORY = {"own": "RssAnon", "mapped": "RssFile"}


def run(checkout: Path, *arguments: object) -> Figures:
    """Return the measurements of this program in a process of a checkout."""
    path = os.pathsep.join([str(checkout / "src"), str(checkout)])
    command = [sys.executable, "-m", "benchmarks.bench_index", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, cwd=checkout, env=environment
    )
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def compare(model: Path, folder: Path, size: int, checkouts: list[Path], rounds: int) -> Any:
    """Return the least of every measurement of all checkouts, which take turns."""
    found: list[list[Figures]] = [[] for _ in checkouts]
    indexes = [folder / f"{size}-{number}" for number in range(len(checkouts))]
    built = [
        run(checkout, "--build", model, index, size)
        for checkout, index in zip(checkouts, indexes, strict=True)
    ]
    for _ in range(rounds):
        for figures, checkout, index in zip(found, checkouts, indexes, strict=True):
            figures.append(run(checkout, "--ask", model, index))
    return [
        first | {name: min(each[name] for each in some) for name in some[0]}
        for first, some in zip(built, found, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int)
    parser.add_argument("--other", type=Path, help="checkout of another commit to compare with")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--ask", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.build:
        model, index, size = given.build
        print(json.dumps(build(Path(model), Path(index), int(size))))
        return
    if given.ask:
        print(json.dumps(ask(*map(Path, given.ask))))
        return
    checkouts = [ROOT] if given.other is None else [ROOT, given.other.resolve()]
    results: dict[str, Any] = {"n_topics": N_TOPICS, "rounds": given.rounds, "sizes": {}}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make_model(folder / "model")
        fitted = load_scene(folder / "model")
        results |= {"n_classes": len(fitted.classes), "n_tags": len(fitted.tag_names)}
        for size in given.sizes or SIZES:
            figures, *others = compare(folder / "model", folder, size, checkouts, given.rounds)
            results["sizes"][str(size)] = {"figures": figures}
            for other in others:
                ratios = {name: figures[name] / max(other[name], 1e-9) for name in figures}
                results["sizes"][str(size)] |= {"other": other, "ratio": ratios}
            rows = [
                [name, *(f"{each[name]:.2f}" for each in (figures, *others))] for name in figures
            ]
            print_table(f"{size} photographs", ["", "here", "other"][: 2 + len(others)], rows)
    write_results("index", results)


if __name__ == "__main__":
    main()
