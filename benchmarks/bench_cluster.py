"""Encoding on a Ray cluster: the gain of a second worker, and the same corpus with any number.

python -m benchmarks.bench_cluster [photographs]    # about ten minutes, on an idle machine

Drawn scenes are encoded by this process and by 1, 2 and 4 workers, all on this machine. Every run
must give the same fingerprint. One worker takes about 40 seconds for the photographs; most link
to others, since drawing takes longer than encoding. Workers are warm when they are timed: a first,
short run loads the packages and the kernels.
"""

import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# A token for the clusters of this run; Ray would write one to the home folder.
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": os.urandom(32).hex()}

import ray
from ray.cluster_utils import Cluster
from tools.draw_scenes import drawn_scenes

from benchmarks.common import print_table, write_results
from supdocnade import BagOfVisualWords
from supdocnade.images.decode import write_image
from supdocnade.runs import RunOptions
from supdocnade.visual_words.encoder import ImageEncoder
from supdocnade.visual_words.to_corpus import encode_corpus

N_IMAGES, N_DRAWN_PER_CLASS, SIDE, N_WORDS, SHARD_SIZE = 4_000, 60, 512, 240, 50
WARM_SHARE = 0.05
"""Share of the photographs of the first run."""
WORKERS = (1, 2, 4)
GOAL = 1.8
"""Speed of two workers relative to one, on two idle cores."""
ROUNDS = 3


@contextmanager
def cluster_of(n_workers: int) -> Iterator[None]:
    """Start a cluster whose first node only schedules, and connect to it."""
    cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        cluster.add_node(num_cpus=n_workers)
        ray.init(cluster.address, log_to_driver=False, logging_level=logging.ERROR)
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()


def link_scenes(folder: Path, n_images: int) -> list[Path]:
    """Draw scenes, and link them until there are enough photographs; return their paths."""
    drawn = []
    for number, scene in enumerate(drawn_scenes(N_DRAWN_PER_CLASS, 0, (SIDE, SIDE))):
        drawn.append(folder / "drawn" / f"{number:04}.jpg")
        write_image(drawn[-1], scene.image)
    (folder / "photos").mkdir()
    paths = [folder / "photos" / f"{number:06}.jpg" for number in range(n_images)]
    for number, path in enumerate(paths):
        os.link(drawn[number % len(drawn)], path)
    return paths


class Encoding:
    """Encodes the same photographs again and again, each time into a new folder."""

    def __init__(self, encoder: ImageEncoder, paths: list[Path], folder: Path):
        self.encoder, self.paths, self.folder, self.n_runs = encoder, paths, folder, 0

    def run(self, cluster: str | None, share: float = 1.0) -> str:
        """Return the fingerprint of the corpus of a share of the photographs."""
        self.n_runs += 1
        corpus, _ = encode_corpus(
            self.encoder,
            self.paths[: round(share * len(self.paths))],
            self.folder / f"corpus-{self.n_runs}",
            RunOptions(n_jobs=-1 if cluster else 1, cluster=cluster),
            shard_size=SHARD_SIZE,
        )
        return corpus.fingerprint()


def time_workers(encoding: Encoding, n_workers: int) -> tuple[str, float]:
    """Return the fingerprint, and the shortest time of some runs, in seconds."""
    seconds = []
    with cluster_of(n_workers):
        encoding.run("auto", WARM_SHARE)
        for _ in range(ROUNDS):
            start = time.perf_counter()
            fingerprint = encoding.run("auto")
            seconds.append(time.perf_counter() - start)
    return fingerprint, min(seconds)


def main() -> None:
    n_images = int(sys.argv[1]) if len(sys.argv) > 1 else N_IMAGES
    with TemporaryDirectory() as name:
        folder = Path(name)
        paths = link_scenes(folder, n_images)
        bag = BagOfVisualWords(N_WORDS, random_state=0, sample_size=20_000).fit(paths[:480:10])
        encoding = Encoding(bag.encoder_, paths, folder)
        fingerprints = {"this process": encoding.run(None)}
        seconds = {}
        for n_workers in WORKERS:
            fingerprint, seconds[n_workers] = time_workers(encoding, n_workers)
            fingerprints[f"{n_workers} workers"] = fingerprint
    assert len(set(fingerprints.values())) == 1, fingerprints
    print_table(
        f"{len(paths)} drawn scenes of {SIDE} × {SIDE}, {N_WORDS} words, {SHARD_SIZE} per shard",
        ["workers", "seconds", "one worker over this"],
        [[str(n), f"{each:.1f}", f"{seconds[1] / each:.2f}"] for n, each in seconds.items()],
    )
    print(f"one fingerprint in {len(fingerprints)} runs; goal for two workers: {GOAL}")
    results = {
        "n_images": len(paths),
        "shard_size": SHARD_SIZE,
        "fingerprints": fingerprints,
        "ray": ray.__version__,
        "cores": os.cpu_count(),
        "seconds": {str(n): each for n, each in seconds.items()},
        "one_worker_over": {str(n): seconds[1] / each for n, each in seconds.items()},
        "goal_of_two": GOAL,
    }
    write_results("cluster", results)


if __name__ == "__main__":
    main()
