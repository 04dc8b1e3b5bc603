"""Several processes give the network of one, bit for bit, and none waits for one that is gone."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from tests.planted_corpus import network_for, parameter_bits, scene_corpus

from supdocnade.corpus import Documents
from supdocnade.errors import InvalidArgument, ProcessLost, TrainingDiverged
from supdocnade.likelihood.contract import SPARSE_ROWS
from supdocnade.training import processes
from supdocnade.training.processes import _fresh_store, training_processes
from supdocnade.training.trainer import Trainer
from supdocnade.training.trainer_config import TrainerConfig

ROOT = Path(__file__).parents[3]
_, CORPUS = scene_corpus(50, mean_length=20)
_, VALIDATION = scene_corpus(20, seed=1, mean_length=20)
_, TAGGED = scene_corpus(50, mean_length=20, annotations_are_words=False, n_global_features=4)
SEVERAL_LABELS = replace(CORPUS, label_BC=CORPUS.annotation_presence()[:, :4].astype(np.int8))
SETTINGS = {"batch_groups": 5, "batch_size": 16, "max_epochs": 2, "learning_rate": 0.01}


def many_words():
    """Return documents over so many words that gradients have touched rows only."""
    rng = np.random.default_rng(0)
    shape = (40, SPARSE_ROWS + 100)
    places = (
        np.repeat(np.arange(40), 10),
        rng.integers(0, shape[1], 400) // rng.integers(1, 99, 400),
    )
    counts = sparse.csr_array((np.ones(400), places), shape)
    return Documents.from_counts(counts, labels=np.arange(40) % 2, n_classes=2)


MANY_WORDS = many_words()
EARLY_STOPPING = {
    "early_stopping": True, "metric": "perplexity", "n_epochs_no_change": 1, "max_epochs": 12,
    "learning_rate": 0.3,
}  # fmt: skip
CASES = {
    "dense": (CORPUS, {}),
    "dense, softmax, SGD": (CORPUS, {"optimizer": "sgd", "output": "softmax"}),
    "classes alone": (CORPUS, {"generative_weight": 0.0, "class_weight": [9, 1, 1, 1]}),
    "tags and features": (TAGGED, {"clip_norm": 0.01}),
    "several labels": (SEVERAL_LABELS, {"class_weight": [9, 1, 1, 1]}),
    "touched rows": (MANY_WORDS, {"clip_norm": 0.01}),
    "touched rows, SGD": (MANY_WORDS, {"optimizer": "sgd"}),
    "early stopping": (CORPUS, EARLY_STOPPING),
}


def train(corpus, options, **others):
    options = {**SETTINGS, **options}
    architecture = {"output": options.pop("output", "tree"), "n_topics": 8}
    network = network_for(corpus, **architecture)
    class_weight = options.pop("class_weight", None)
    trainer = Trainer(network, TrainerConfig(**options), class_weight=class_weight, **others)
    history = trainer.fit(corpus, VALIDATION if "early_stopping" in options else None)
    return parameter_bits(network), [(each.loss, each.validation) for each in history.epochs]


@pytest.fixture
def workers(monkeypatch):
    """Return the list of processes that are started."""
    started = []

    class Popen(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(processes.subprocess, "Popen", Popen)
    return started


def kill_at(update, worker):
    """Return a callback that kills a worker after some updates."""
    seen = []

    def on_progress(progress):
        seen.append(progress)
        if len(seen) == update:
            worker.kill()

    return on_progress


@pytest.mark.filterwarnings("error")
def test_processes_do_not_change_a_bit(tmp_path, workers):
    """Two, three and four processes train as one does; what two began, three complete."""
    expected = {name: train(*case) for name, case in CASES.items()}
    assert len(expected["early stopping"][1]) < 12
    checkpoint = tmp_path / "run"
    with training_processes(2) as first:
        assert first
        assert {name: train(*case) for name, case in CASES.items()} == expected
        with pytest.raises(TrainingDiverged, match="in epoch 1"):
            train(CORPUS, {"optimizer": "sgd", "learning_rate": 1e30})
        with pytest.raises(InvalidArgument, match="at least the number of training processes, 2"):
            train(CORPUS, {"batch_groups": 1})
        local_function = Trainer(
            network_for(CORPUS, activation=lambda values: values.relu()), TrainerConfig(**SETTINGS)
        )
        with pytest.raises(InvalidArgument, match="local functions cannot be sent"):
            local_function.fit(CORPUS)
        nested = pytest.raises(InvalidArgument, match="must not be used within another")
        with nested, training_processes(2):
            pass
        options = {"checkpoint": checkpoint, "checkpoint_every": 1}
        with pytest.raises(ProcessLost, match="another process of this training ended"):
            train(*CASES["touched rows"], **options, on_progress=kill_at(2, workers[0]))
        with pytest.raises(ProcessLost, match="lost in an earlier training"):
            train(*CASES["dense"])
    assert checkpoint.exists()
    with training_processes(3):
        assert train(*CASES["touched rows"], checkpoint=checkpoint) == expected["touched rows"]
        assert train(*CASES["early stopping"]) == expected["early stopping"]
    with training_processes(4):
        for name in ("tags and features", "touched rows"):
            assert train(*CASES[name]) == expected[name]
    assert all(worker.poll() is not None for worker in workers)


def test_a_process_that_does_not_answer_is_lost(workers):
    with training_processes(2, timeout=2):
        workers[0].send_signal(signal.SIGSTOP)
        with pytest.raises(ProcessLost, match="did not answer in time"):
            train(*CASES["dense"])
    assert workers[0].poll() is not None


def test_workers_end_with_the_first_process():
    """The first process is killed; its worker, which waits for a training, ends."""
    code = (
        "import os\n"
        "from supdocnade import training_processes\n"
        "with training_processes(2):\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    # The worker inherits the standard error, so this waits until it has ended, too.
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert found.returncode == -signal.SIGKILL
    assert found.stderr == b""


def test_one_process_needs_no_groups():
    with training_processes() as first, training_processes(1):
        assert first
        assert train(CORPUS, {"batch_groups": 1}) == train(CORPUS, {"batch_groups": 1})


TORCHRUN = """
import torch
from supdocnade import training_processes
from tests.unit.training.test_processes import CASES, train

with training_processes() as first:
    if first:
        bits, history = train(*CASES["touched rows"])
        print(repr(history))
torch.distributed.init_process_group("gloo")
for _ in range(2):
    with training_processes(2) as first:
        if first:
            assert train(*CASES["touched rows"])[0] == bits
torch.distributed.destroy_process_group()
"""


def test_torchrun_starts_the_processes(tmp_path):
    """Processes that are connected here, or by the program, share trainings, block after block."""
    (tmp_path / "script.py").write_text(TORCHRUN)
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "script.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    found = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == repr(train(*CASES["touched rows"])[1])


def test_a_restart_reads_no_keys_of_processes_that_are_gone():
    store = torch.distributed.HashStore()
    for _ in range(2):
        with ThreadPoolExecutor(3) as pool:
            # The first process of a restart is sometimes the quickest, and finds old keys.
            found = list(pool.map(lambda rank: _fresh_store(store, rank, 3, 20.0), range(3)))
        assert not found[0].check(["message"])
        found[0].set("message", "new")
        assert [bytes(each.get("message")) for each in found] == [b"new"] * 3
    with pytest.raises(ProcessLost, match="1 of 2 training processes did not start"):
        _fresh_store(torch.distributed.HashStore(), 0, 2, 0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_processes": 0}, "n_processes must be a whole number of at least 1, got 0"),
        ({"n_processes": 2, "timeout": 0}, "timeout must be"),
    ],
)
def test_invalid_arguments_are_refused(arguments, message):
    with pytest.raises(InvalidArgument, match=message), training_processes(**arguments):
        pass


def test_torchrun_decides_the_number_of_processes(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")
    refused = pytest.raises(InvalidArgument, match=r"must be None or 3, the number .*, got 2")
    with refused, training_processes(2):
        pass
