"""One seed gives the same bits for any number of threads."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Long documents and many classes, so that work is split over threads.
CODE = """
import hashlib, sys
import torch
from supdocnade.training.trainer import Trainer
from supdocnade.training.trainer_config import TrainerConfig
from tests.scenes import network_for, scene_corpus

torch.set_num_threads(int(sys.argv[1]))
_, corpus = scene_corpus(48, n_classes=20, n_visual_words=600, mean_length=500)
cases = [("tree", 0.01), ("softmax", 0.01), ("tree", 0.0)]
cases = [(*case, 64) for case in cases] + [("tree", 0.01, (64, 48)), ("softmax", 0.01, (64, 48))]
for output, generative_weight, n_topics in cases:
    network = network_for(corpus, n_topics=n_topics, output=output)
    config = TrainerConfig(
        max_epochs=2, batch_size=24, learning_rate=1e-2, clip_norm=0.5, averaging=0.9,
        generative_weight=generative_weight, early_stopping=True, metric="f_measure",
    )
    history = Trainer(network, config).fit(corpus, corpus)
    digest = hashlib.sha256(repr(history.epochs).encode())
    for parameter in network.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    print(digest.hexdigest())
"""


def test_threads_do_not_change_a_bit():
    digests = set()
    for n_threads in ("1", "3"):
        run = subprocess.run(
            [sys.executable, "-c", CODE, n_threads],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert run.returncode == 0, run.stderr
        assert len(set(run.stdout.split())) == 5
        digests.add(run.stdout)
    assert len(digests) == 1
