"""Encoding on a Ray cluster: the same corpus whatever happens, and the gain of a second worker.

python -m benchmarks.bench_cluster

All nodes of the cluster run on this machine, each with its own processes, as `ray start` would have
them. Drawn scenes are encoded by this process, by 1, 2 and 4 workers, and by two nodes of which one
is killed while another one joins. Every run must give the same fingerprint. Workers are warm when
they are timed: a first run loads the packages and the kernels.
"""

import logging
import os
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

from benchmarks.common import print_table, write_results
from supdocnade import BagOfVisualWords
from supdocnade.demo import write_scenes
from supdocnade.progress import ProgressCallback, no_progress
from supdocnade.run_options import RunOptions
from supdocnade.visual_words.encoder import ImageEncoder
from supdocnade.visual_words.to_corpus import encode_shuffled

N_PER_CLASS, SIDE, N_WORDS, SHARD_SIZE = 60, 512, 240, 20
WORKERS = (1, 2, 4)
ROUNDS = 3


@contextmanager
def cluster_of(*cores: int) -> Iterator[Any]:
    """Start a cluster whose first node only schedules, with one more node for each number."""
    cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        for number in cores:
            cluster.add_node(num_cpus=number)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


class Encoding:
    """Encodes the same photographs again and again, each time into a new folder."""

    def __init__(self, encoder: ImageEncoder, paths: list[Path], folder: Path):
        self.encoder, self.paths, self.folder, self.n_runs = encoder, paths, folder, 0

    def run(self, cluster: str | None, progress: ProgressCallback = no_progress) -> str:
        """Return the fingerprint of the corpus."""
        self.n_runs += 1
        corpus, _ = encode_shuffled(
            self.encoder,
            self.paths,
            self.folder / f"corpus-{self.n_runs}",
            RunOptions(n_jobs=-1 if cluster else 1, cluster=cluster, progress=progress),
            shard_size=SHARD_SIZE,
        )
        return corpus.fingerprint()


def time_workers(encoding: Encoding, n_workers: int) -> tuple[str, float]:
    """Return the fingerprint, and the shortest time of some runs, in seconds."""
    seconds = []
    with cluster_of(n_workers) as cluster:
        ray.init(cluster.address, log_to_driver=False, logging_level=logging.ERROR)
        encoding.run("auto")
        for _ in range(ROUNDS):
            start = time.perf_counter()
            fingerprint = encoding.run("auto")
            seconds.append(time.perf_counter() - start)
    return fingerprint, min(seconds)


def replace_node(encoding: Encoding) -> tuple[str, list[str]]:
    """Encode while one of two nodes is killed and another one joins; return what happened, too."""
    with cluster_of(1, 1) as cluster:
        events: list[str] = []

        def report(_: str, done: int, total: int | None) -> None:
            assert total is not None
            if not events and done >= total // 4:
                events.append(f"a node was killed after {done} photographs")
                cluster.remove_node(min(cluster.worker_nodes, key=id), allow_graceful=False)
            elif len(events) == 1 and done >= total // 2:
                events.append(f"a node joined after {done} photographs")
                cluster.add_node(num_cpus=1)

        return encoding.run(cluster.address, report), events


def main() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_scenes(folder / "photos", N_PER_CLASS, seed=0, size=(SIDE, SIDE))
        paths = sorted((folder / "photos").glob("*/*.jpg"))
        bag = BagOfVisualWords(N_WORDS, random_state=0, sample_size=20_000).fit(paths[::10])
        encoding = Encoding(bag.encoder_, paths, folder)
        fingerprints = {"this process": encoding.run(None)}
        seconds = {}
        for n_workers in WORKERS:
            fingerprint, seconds[n_workers] = time_workers(encoding, n_workers)
            fingerprints[f"{n_workers} workers"] = fingerprint
        fingerprints["a node replaced"], events = replace_node(encoding)
    assert len(events) == 2
    assert len(set(fingerprints.values())) == 1, fingerprints
    print_table(
        f"{len(paths)} drawn scenes of {SIDE} × {SIDE}, {N_WORDS} words, {SHARD_SIZE} per shard",
        ["workers", "seconds", "one worker over this"],
        [[str(n), f"{each:.1f}", f"{seconds[1] / each:.2f}"] for n, each in seconds.items()],
    )
    print(f"one fingerprint in {len(fingerprints)} runs; {'; '.join(events)}")
    results = {
        "n_images": len(paths),
        "shard_size": SHARD_SIZE,
        "fingerprints": fingerprints,
        "events": events,
        "ray": ray.__version__,
        "cores": os.cpu_count(),
        "seconds": {str(n): each for n, each in seconds.items()},
        "one_worker_over": {str(n): seconds[1] / each for n, each in seconds.items()},
    }
    write_results("cluster", results)


if __name__ == "__main__":
    main()
