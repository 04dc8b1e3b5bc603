"""A training process is killed, and another one resumes from its checkpoint."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.planted_corpus import network_for, scene_corpus

from supdocnade.training.config import TrainerConfig
from supdocnade.training.trainer import Trainer

ROOT = Path(__file__).parents[2]

# A child kills itself while it trains, then its parent, which has not trained yet, resumes.
CODE = """
import os, signal, sys
import torch._dynamo  # Every process that trains imports it.
from supdocnade.runs import no_progress
from tests.functional.test_killed_process import train

n_updates = 0

def progress(*_):
    global n_updates
    n_updates += 1
    if n_updates == 6:
        os.kill(os.getpid(), signal.SIGKILL)

if os.fork() == 0:
    train(sys.argv[1], progress)
    os._exit(0)
_, status = os.wait()
assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, status
assert os.path.exists(sys.argv[1])
print(train(sys.argv[1], no_progress))
"""


def train(path: str | Path, progress) -> str:
    """Train with a checkpoint; return a digest of the parameters."""
    _, corpus = scene_corpus(50, mean_length=20)
    network = network_for(corpus)
    config = TrainerConfig(max_epochs=3, batch_size=16, early_stopping=True)
    trainer = Trainer(network, config, checkpoint=Path(path), progress=progress)
    trainer.fit(corpus, corpus)
    bits = b"".join(p.detach().numpy().tobytes() for p in network.parameters())
    return hashlib.sha256(bits).hexdigest()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
def test_a_killed_process_is_resumed_bit_for_bit(tmp_path):
    resumed = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / "run")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert resumed.returncode == 0, resumed.stderr
    updates = []
    assert resumed.stdout.strip() == train(
        tmp_path / "whole", lambda *report: updates.append(report)
    )
    assert len(updates) > 6
