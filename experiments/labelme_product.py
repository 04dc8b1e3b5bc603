"""LabelMe through the command line, as a user runs it.

python -m experiments.labelme_product

Three splits (100 photographs per class for training, 100 for testing; seeds 0, 1, 2 for both split
and model), default settings with both kinds of features, one attempt each. Tags are LabelMe's free
ones, without those on fewer than three photographs of the whole data set, as in the paper. The
folders hold links. Training (from JPEG files to the saved model) and evaluation are two commands,
timed from outside.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments.common import write_results
from experiments.data import data_folder
from experiments.paper.data_sets import MIN_TAG_COUNT, read_labelme
from experiments.paper.protocol import split_records
from supdocnade.folders.photo_folder import ImageRecord
from supdocnade.images.network_library import DEFAULT_NETWORK

SEEDS = (0, 1, 2)
FEATURES = ("sift", DEFAULT_NETWORK)


def link_photographs(records: list[ImageRecord], vocabulary: set[str], folder: Path) -> None:
    """Make a photo folder of links, one folder per class, and its tag file."""
    lines = ["file_name\ttags"]
    for record in records:
        name = f"{record.label}/{record.path.name}"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(record.path.resolve(), folder / name)
        lines.append(f"{name}\t{'|'.join(tag for tag in record.tags or () if tag in vocabulary)}")
    (folder / "metadata.csv").write_text("\n".join(lines) + "\n")


def run_command(*arguments: str | Path) -> tuple[dict[str, Any], float]:
    """Run a command that prints JSON; return its output and its seconds."""
    started = time.perf_counter()
    program = [str(Path(sys.executable).with_name("supdocnade"))]
    done = subprocess.run(
        [*program, *map(str, arguments), "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(done.stderr)
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed, round(time.perf_counter() - started, 1)


def run(records: list[ImageRecord], features: str, seed: int) -> dict[str, Any]:
    counts = Counter(tag for record in records for tag in set(record.tags or ()))
    vocabulary = {tag for tag, count in counts.items() if count >= MIN_TAG_COUNT}
    train, test = split_records("labelme", records, seed=seed)
    with TemporaryDirectory() as name:
        folder = Path(name)
        link_photographs([records[i] for i in train], vocabulary, folder / "train")
        link_photographs([records[i] for i in test], vocabulary, folder / "test")
        options = ("--features", features, "--seed", str(seed))
        trained, train_seconds = run_command(
            "train", folder / "train", "-o", folder / "model", *options
        )
        measured, test_seconds = run_command("evaluate", folder / "model", folder / "test")
    trained.pop("model", None)
    measured.pop("tags", None)  # Metrics of single tags.
    return {
        "trained": trained,
        "train_seconds": train_seconds,
        "evaluated": measured,
        "evaluate_seconds": test_seconds,
    }


def main() -> None:
    records = read_labelme(data_folder("labelme"))
    results = {}
    for features in FEATURES:
        results[features] = {f"seed {seed}": run(records, features, seed) for seed in SEEDS}
        print(features, results[features], flush=True)
    write_results("labelme_product", "python -m experiments.labelme_product", {"runs": results})


if __name__ == "__main__":
    main()
