"""Corpora larger than memory, killed appends, and processes that append at the same time."""

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from supdocnade import Corpus, DocNADE

ROOT = Path(__file__).parents[2]
N_SHARDS, N_DOCUMENTS, LENGTH, N_WORDS = 20, 160, 1500, 30
SETTINGS = {"n_topics": 4, "max_epochs": 1, "batch_size": 32, "random_state": 0}
ALLOWANCE = 9 * 2**20


def run(code, *arguments):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


def shard(number, n_documents=N_DOCUMENTS):
    """Long documents, each with its own distribution of words."""
    rng = np.random.default_rng(number)
    words = [rng.binomial(N_WORDS - 1, rng.random(), LENGTH) for _ in range(n_documents)]
    return np.stack([np.bincount(each, minlength=N_WORDS) for each in words])


def outputs(model, X):
    parts = [p.detach().numpy() for p in model.network_.parameters()]
    return [*parts, model.transform(X), model.log_prob(X)]


# Modules are imported and threads started before the limit is set.
CAPPED = """
import hashlib, resource, sys
from pathlib import Path
import numpy as np
from supdocnade import Corpus, DocNADE
from tests.functional.test_corpus_on_disk import (
    ALLOWANCE, N_DOCUMENTS, N_SHARDS, N_WORDS, SETTINGS, outputs, shard,
)

folder = Path(sys.argv[1])
small = Corpus.create(folder / "small", n_words=N_WORDS)
small.append(shard(0))
outputs(DocNADE(**SETTINGS).fit(small), small)

status = Path("/proc/self/status").read_text()
(used,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmData"))
limit = used * 1024 + ALLOWANCE
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

corpus = Corpus.create(folder / "large", n_words=N_WORDS)
for number in range(N_SHARDS):
    corpus.append(shard(number))
corpus = Corpus.open(folder / "large")
corpus.verify()
for result in outputs(DocNADE(**SETTINGS).fit(corpus), corpus):
    print(hashlib.sha256(result.tobytes()).hexdigest())

for what in (
    lambda: corpus.read_tokens(np.arange(len(corpus))),
    lambda: DocNADE(**SETTINGS).fit(corpus.counts()),
):
    try:
        what()
    except MemoryError:
        print("MemoryError")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_a_corpus_larger_than_memory_is_built_and_trained_on(tmp_path):
    capped = run(CAPPED, tmp_path)
    assert capped.returncode == 0, capped.stderr
    *digests, by_copy, by_fit = capped.stdout.split()
    assert by_copy == by_fit == "MemoryError"
    corpus = Corpus.open(tmp_path / "large")
    size = sum(path.stat().st_size for path in corpus.folder.iterdir())
    assert size > 2 * ALLOWANCE
    X = corpus.counts()
    expected = outputs(DocNADE(**SETTINGS).fit(X), X)
    assert digests == [hashlib.sha256(result.tobytes()).hexdigest() for result in expected]


# Kills itself at its n-th attempt to flush a file to the disk.
KILLED = """
import os, signal, sys
from supdocnade import Corpus

n_left = int(sys.argv[2])
fsync = os.fsync

def fsync_or_die(descriptor):
    global n_left
    n_left -= 1
    if n_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(descriptor)

os.fsync = fsync_or_die
import numpy as np
Corpus.open(sys.argv[1]).append(np.ones((2, 3)), names=["c", "d"])
"""


def test_an_append_that_is_killed_leaves_the_old_corpus(tmp_path):
    corpus = Corpus.create(tmp_path / "corpus", n_words=3)
    corpus.append(np.eye(2, 3), names=["a", "b"])
    for n in (1, 2):  # The ids, and the record.
        assert run(KILLED, corpus.folder, n).returncode == -signal.SIGKILL
        again = Corpus.open(corpus.folder)
        again.verify()
        assert again.fingerprint() == corpus.fingerprint()
        assert again.names == ["a", "b"]
    assert (corpus.folder / "shard-00001.ids").exists()
    corpus.append(np.eye(3), names=["c", "d", "e"])
    assert Corpus.open(corpus.folder).names == ["a", "b", "c", "d", "e"]


APPENDER = """
import sys
import numpy as np
from supdocnade import Corpus
from supdocnade.errors import StorageError

n_left = 8
while n_left:
    try:
        Corpus.open(sys.argv[1]).append(np.ones((2, 3)), names=[sys.argv[2], str(n_left)])
    except StorageError as error:
        assert "another process" in str(error) or "has changed" in str(error), error
    else:
        n_left -= 1
"""


def test_processes_that_append_at_once_lose_nothing(tmp_path):
    corpus = Corpus.create(tmp_path / "corpus", n_words=3)
    processes = [
        subprocess.Popen([sys.executable, "-c", APPENDER, str(corpus.folder), name], cwd=ROOT)
        for name in "xyz"
    ]
    assert [process.wait() for process in processes] == [0, 0, 0]
    corpus = Corpus.open(corpus.folder)
    corpus.verify()
    names = corpus.names
    pairs = sorted(zip(names[::2], names[1::2], strict=True))
    assert pairs == [(name, str(n)) for name in "xyz" for n in range(1, 9)]
