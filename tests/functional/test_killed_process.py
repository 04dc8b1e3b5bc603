"""A training process is killed, and another one resumes from its checkpoint."""

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Trains with a checkpoint and prints a digest; kills itself after `last` updates unless it is 0.
CODE = """
import hashlib, os, signal, sys
from supdocnade.training.trainer import Trainer
from supdocnade.training.trainer_config import TrainerConfig
from tests.scenes import network_for, scene_corpus

path, last = sys.argv[1], int(sys.argv[2])
n_updates = 0

def on_progress(_):
    global n_updates
    n_updates += 1
    if n_updates == last:
        os.kill(os.getpid(), signal.SIGKILL)

_, corpus = scene_corpus(50, mean_length=20)
network = network_for(corpus)
config = TrainerConfig(max_epochs=3, batch_size=16, averaging=0.9, early_stopping=True)
trainer = Trainer(network, config, checkpoint=path, checkpoint_every=1, on_progress=on_progress)
trainer.fit(corpus, corpus)
bits = b"".join(p.detach().numpy().tobytes() for p in network.parameters())
print(hashlib.sha256(bits).hexdigest())
"""


def train(path: Path, last: int = 0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CODE, str(path), str(last)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


def test_a_killed_process_is_resumed_bit_for_bit(tmp_path):
    whole = train(tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    assert train(tmp_path / "run", last=6).returncode == -signal.SIGKILL
    resumed = train(tmp_path / "run")
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout == whole.stdout
