"""Benchmark of folders: time and memory per photograph, to list a folder and to read its tags.

python -m benchmarks.bench_listing [photographs]

The folder has 20 classes, a metadata file with two tags per photograph, and empty files. Memory is
that of the result, and the largest one until then, as tracemalloc counts it.
"""

import gc
import json
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from benchmarks.common import print_table, write_results
from supdocnade.folders.photo_folder import list_folder, scan_folder

N_PHOTOGRAPHS, N_CLASSES, RUNS = 50_000, 20, 3


def write_folder(root: Path, n_photographs: int) -> None:
    """Write empty files in folders of classes, and their metadata."""
    with open(root / "metadata.jsonl", "w", encoding="utf-8") as metadata:
        for number in range(n_photographs):
            name = f"class_{number % N_CLASSES:02}/IMG_{number:07}.jpg"
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).touch()
            tags = [f"tag {number % 50}", f"tag {number % 70}"]
            metadata.write(json.dumps({"file_name": name, "tags": tags}) + "\n")


def measure(run: Callable[[], object], n_photographs: int) -> dict[str, float]:
    """Return the CPU time, the memory of a result, and the peak, per photograph."""
    seconds = []
    for _ in range(RUNS):
        started = time.process_time()
        run()
        seconds.append(time.process_time() - started)
    tracemalloc.start()
    run()  # Tables of the interpreter may grow the first time.
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    result = run()
    gc.collect()
    n_bytes, peak = (each - before for each in tracemalloc.get_traced_memory())
    tracemalloc.stop()
    del result
    return {
        "microseconds": 1e6 * min(seconds) / n_photographs,
        "bytes": n_bytes / n_photographs,
        "peak_bytes": peak / n_photographs,
    }


def main() -> None:
    n_photographs = int(sys.argv[1]) if len(sys.argv) > 1 else N_PHOTOGRAPHS
    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder), n_photographs)
        figures = {
            "list": measure(lambda: list_folder(folder), n_photographs),
            "scan": measure(lambda: scan_folder(folder), n_photographs),
        }
    rows = [[name, *(f"{value:.1f}" for value in each.values())] for name, each in figures.items()]
    print_table("Per photograph of a folder", ["result", "µs of CPU time", "bytes", "peak"], rows)
    write_results("listing", {"n_photographs": n_photographs, **figures})


if __name__ == "__main__":
    main()
