"""Kill processes of trainings that several processes share, and compare the results.

python -m benchmarks.kill_training

Twenty trainings: ten by `training_processes`, which are started again with another number of
processes, and ten by torchrun, which starts its processes again itself. In turn the first process
and another one is killed, at a random time. Every training must run again within a minute and end
with the bits of an undisturbed one, and no process may outlive the training. Results are written
after every training; a run that was stopped continues.
"""

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, load, write_results

RESULT = "kill_training"
N_TRAININGS = 20
LIMIT = 60.0
"""Seconds from a kill until the next epoch is completed."""
MAX_EPOCHS = 15
TORCHRUN = (
    *("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "5"),
    *("--monitor-interval", "0.1", "-m"),
)


def train(folder: Path, n_processes: int | None) -> None:
    """Train with a checkpoint; print the processes, the epochs and a digest of the result."""
    from supdocnade import SupDocNADE, training_processes
    from supdocnade.demo import planted_scenes

    print(f"process {os.environ.get('RANK', 0)} {os.getpid()}", flush=True)
    with training_processes(n_processes) as first:
        if not first:
            return
        scenes = planted_scenes(200, np.random.default_rng(0), mean_length=50)
        model = SupDocNADE(
            20, batch_groups=6, batch_size=50, max_epochs=MAX_EPOCHS, clip_norm=1.0,
            early_stopping=True, n_epochs_no_change=MAX_EPOCHS, checkpoint=folder, random_state=0,
            verbose=1,
        )  # fmt: skip
        model.fit(scenes.counts, scenes.labels, annotations=scenes.tags)
    bits = b"".join(p.detach().numpy().tobytes() for p in model.network_.parameters())
    print(f"digest {hashlib.sha256(bits).hexdigest()}", flush=True)


class Run:
    """A training in other processes, and what it has printed."""

    def __init__(self, folder: Path, n_processes: int | None):
        command = ["benchmarks.kill_training", "--train", str(folder)]
        if n_processes is None:
            command = [*TORCHRUN, *command]
        else:
            command += ["--processes", str(n_processes)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        self.pids: dict[int, int] = {}
        """Process ids by rank."""
        self.digest: str | None = None

    def read_epoch(self) -> int | None:
        """Return the number of the next epoch that is completed; None at the end."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            kind, *rest = line.split()
            if kind == "process":
                self.pids[int(rest[0])] = int(rest[1])
            elif kind == "digest":
                self.digest = rest[0]
            elif kind == "epoch":
                return int(rest[0].partition("/")[0])
        return None

    def workers(self) -> list[int]:
        """Return the processes that the first one has started."""
        first = self.pids[0]
        children = Path(f"/proc/{first}/task/{first}/children").read_text()
        return [int(pid) for pid in children.split()]

    def finish(self) -> str | None:
        """Wait for the end; return the digest of the result."""
        while self.read_epoch() is not None:
            pass
        self.process.communicate()
        return self.digest


def disturb(number: int, expected: str) -> dict[str, Any]:
    """Kill a process of one training; return how it went on."""
    generator = random.Random(number)
    by_torchrun, kill_first = number % 2 == 1, number % 4 < 2
    last = generator.randrange(1, MAX_EPOCHS - 5)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder), None if by_torchrun else 2)
        while (epoch := run.read_epoch()) is not None and epoch < last:
            pass
        others = [run.pids[1]] if by_torchrun else run.workers()
        time.sleep(generator.random() * 0.2)
        before = time.perf_counter()
        os.kill(run.pids[0] if kill_first else others[0], signal.SIGKILL)
        pids, first = [run.pids[0], *others], run.pids[0]
        if not by_torchrun:
            run.finish()
            assert run.process.returncode != 0, "the training was over before the kill"
            run = Run(Path(folder), 3)
        # Epochs from before the kill may still be unread.
        while run.read_epoch() is not None and run.pids[0] == first:
            pass
        seconds = time.perf_counter() - before
        digest = run.finish()
    survivors = [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    return {
        "started_by": "torchrun" if by_torchrun else "training_processes",
        "killed": "first" if kill_first else "other",
        "after_epoch": last,
        "seconds_until_next_epoch": round(seconds, 1),
        "same_bits": digest == expected,
        "survivors": len(survivors),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", type=Path)
    parser.add_argument("--processes", type=int)
    arguments = parser.parse_args()
    if arguments.train is not None:
        train(arguments.train, arguments.processes)
        return
    with tempfile.TemporaryDirectory() as folder:
        expected = Run(Path(folder), 1).finish()
    assert expected is not None, "the undisturbed training failed"
    trainings = load(RESULT)["trainings"] if (RESULTS / f"{RESULT}.json").exists() else []
    trainings = trainings if len(trainings) < N_TRAININGS else []
    for number in range(len(trainings), N_TRAININGS):
        trainings.append(disturb(number, expected))
        print(number + 1, trainings[-1], flush=True)
        good = [each["same_bits"] and not each["survivors"] for each in trainings]
        quick = [each["seconds_until_next_epoch"] <= LIMIT for each in trainings]
        passed = {"same_bits_no_survivors": sum(good), "within_a_minute": sum(quick)}
        write_results(RESULT, {"passed": passed, "trainings": trainings})


if __name__ == "__main__":
    main()
