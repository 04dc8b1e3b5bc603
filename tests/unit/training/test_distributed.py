"""Two processes train a network together, connected through the loopback interface."""

import hashlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.planted_corpus import network_for, parameter_bits, scene_corpus

from supdocnade import training_processes
from supdocnade.errors import ProcessLost, TrainingDiverged
from supdocnade.training.config import TrainerConfig
from supdocnade.training.distributed import SharedTrainer
from supdocnade.training.trainer import Trainer, make_trainer

ROOT = Path(__file__).parents[3]
# The last batch has one document, so the second process has none of it.
SETTINGS = {"max_epochs": 3, "batch_size": 12, "learning_rate": 0.01, "generative_weight": 0.1}
_, CORPUS = scene_corpus(49, mean_length=20)
_, VALIDATION = scene_corpus(20, seed=1, mean_length=20)


def case(name: str):
    """Return documents and settings of a training."""
    if name == "tags and features":
        options = {"n_global_features": 4, "annotations_are_words": False}
        return scene_corpus(49, mean_length=20, **options)[1], {"clip_norm": 0.01}
    return CORPUS, {
        "dense": {},
        "softmax, SGD": {"optimizer": "sgd", "output": "softmax"},
        "classes alone": {"generative_weight": 0.0, "class_weight": [9, 1, 1, 1]},
        "early stopping": {
            "early_stopping": True, "metric": "perplexity", "n_epochs_no_change": 1,
            "max_epochs": 12, "learning_rate": 0.3,
        },
    }[name]  # fmt: skip


LOST_UPDATE = 2 * 3 * 6 + 13
"""In the third training, of three epochs with five updates and a last measurement each."""

CASES = ("dense", "softmax, SGD", "classes alone", "early stopping", "tags and features")


def train(name: str, **others) -> dict:
    """Return the losses of every epoch and a digest of the network."""
    corpus, options = case(name)
    options = {**SETTINGS, **options}
    network = network_for(corpus, output=options.pop("output", "tree"))
    class_weight = options.pop("class_weight", None)
    trainer = make_trainer(network, TrainerConfig(**options), class_weight=class_weight, **others)
    history = trainer.fit(corpus, VALIDATION if "early_stopping" in options else None)
    bits = b"".join(parameter_bits(network).values())
    return {
        "losses": [each.loss for each in history.epochs],
        "bits": hashlib.sha256(bits).hexdigest(),
    }


def start(function: str, *arguments) -> list[subprocess.Popen]:
    """Call a function of this module in two processes, as torchrun would start them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = f"from tests.unit.training import test_distributed as t; t.{function}(*{arguments!r})"
    shared = {
        **os.environ, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": f"{ROOT}:{ROOT}/src",
    }  # fmt: skip
    return [
        subprocess.Popen(
            [sys.executable, "-c", code], env={**shared, "RANK": rank, "LOCAL_RANK": rank},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in "01"
    ]  # fmt: skip


def run(function: str, *arguments) -> tuple[list, list[str], list[int]]:
    """Return what the first process printed as JSON, the errors and the exit codes of both."""
    processes = start(function, *arguments)
    (printed, first), (nothing, second) = (each.communicate(timeout=300) for each in processes)
    assert nothing == ""
    codes = [each.returncode for each in processes]
    return [json.loads(line) for line in printed.splitlines()], [first, second], codes


def train_all(checkpoint: str) -> None:
    with training_processes() as first:
        if not first:
            return
        for name in CASES:
            print(json.dumps(train(name)))
        config = TrainerConfig(**{**SETTINGS, "optimizer": "sgd", "learning_rate": 1e30})
        diverging = make_trainer(network_for(CORPUS), config)
        with pytest.raises(TrainingDiverged, match="in epoch 1"):
            diverging.fit(CORPUS)
        print(json.dumps(train("dense")))
        print(json.dumps(train("tags and features", checkpoint=Path(checkpoint))))


AGAIN = ("tags and features", "dense")


def train_and_lose_a_process(checkpoint: str) -> None:
    gather, seen = SharedTrainer.gather, []

    def gather_or_end(self, documents, rows_B):
        seen.append(rows_B)
        if len(seen) == LOST_UPDATE and not self.processes.is_first:
            os._exit(9)
        return gather(self, documents, rows_B)

    SharedTrainer.gather = gather_or_end
    with training_processes() as first:
        if first:
            for name in AGAIN:
                print(json.dumps(train(name)), flush=True)
            with pytest.raises(ProcessLost, match="another process of this training has ended"):
                train("tags and features", checkpoint=Path(checkpoint))
            with pytest.raises(ProcessLost, match="lost in an earlier training"):
                train("dense")
            os._exit(0)


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    """Results before a process was lost, and the checkpoint of the training that lost it."""
    path = tmp_path_factory.mktemp("lost") / "checkpoint"
    results, errors, codes = run("train_and_lose_a_process", str(path))
    assert (errors, codes) == (["", ""], [0, 9])
    return results, path, path.read_bytes()


@pytest.fixture(scope="module")
def trained(lost):
    results, errors, codes = run("train_all", str(lost[1]))
    assert (errors, codes) == (["", ""], [0, 0])
    return results


def test_two_processes_train_as_one_does(trained):
    assert trained[len(CASES)] == trained[0]
    for name, result in zip(CASES, trained, strict=False):
        np.testing.assert_allclose(result["losses"], train(name)["losses"], rtol=1e-4)


def test_any_number_of_processes_resumes_and_as_many_give_the_same_bits(lost, trained):
    again, path, kept = lost
    assert again == [trained[CASES.index(name)] for name in AGAIN]
    expected = train("tags and features")["losses"]
    path.write_bytes(kept)
    for losses in (trained[-1]["losses"], train("tags and features", checkpoint=path)["losses"]):
        np.testing.assert_allclose(losses, expected, rtol=1e-4)


def test_without_torchrun_there_is_one_process():
    with training_processes() as first:
        assert first
        assert Trainer.substitute is None
