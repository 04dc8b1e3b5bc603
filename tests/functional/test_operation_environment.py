"""The compiled operation under threads, after forks and in read-only installations."""

import multiprocessing
import os
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import pytest
import torch
from tests.problems import make_problem

import supdocnade

ROOT = Path(__file__).parents[2]

# Prints a digest of all outputs and gradients, for both output layers.
DIGEST = """
import hashlib, os
import torch
from tests.problems import make_problem

torch.set_num_threads(int(os.environ.get("THREADS", 2)))
digest = hashlib.sha256()
for output, n_words in (("tree", 150), ("softmax", 150), ("tree", 17_000)):
    lengths = [300, 0, 961, 5, 77] * 3
    problem = make_problem(lengths, n_words, 37, output=output, n_summary_words=140)
    problem = problem.to(torch.float32)
    terms = problem.run("relu", "cpu")
    (terms.nll_B.sum() + terms.summary_BH.sin().sum()).backward()
    for tensor in (*terms, *problem.gradients()):
        digest.update(tensor.detach().numpy().tobytes())
print(digest.hexdigest())
"""


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, "-c", code], env=settings, cwd=ROOT, capture_output=True, text=True
    )


def gradients_of(problem):
    problem.run("relu", "cpu").nll_B.sum().backward()
    return problem.gradients()


@pytest.fixture
def problem():
    return make_problem([400] * 8, n_words=90, n_topics=33, scale=0.05).to(torch.float32)


def test_the_bits_do_not_depend_on_the_number_of_threads():
    runs = [run_python(DIGEST, THREADS=str(n)) for n in (1, 2, 3, 5)]
    runs += [run_python(DIGEST, OMP_NUM_THREADS=str(n)) for n in (1, 2, 3)]
    assert {run.stderr for run in runs} == {""}
    assert len({run.stdout for run in runs}) == 1
    assert len(runs[0].stdout.strip()) == 64


def test_eight_python_threads_at_once(problem):
    expected = gradients_of(problem)
    results: dict[int, list[torch.Tensor]] = {}

    def work(number: int) -> None:
        own = problem.to(torch.float32)
        for _ in range(5):
            results[number] = gradients_of(own)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    for result in results.values():
        for actual, wanted in zip(result, expected, strict=True):
            torch.testing.assert_close(actual, wanted, rtol=0, atol=0)


def _in_child(connection, problem):
    connection.send([gradient.tolist() for gradient in gradients_of(problem)])
    connection.close()


# Python warns that forking with threads may deadlock: that it does not is what is tested.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("output", ["tree", "softmax"])
def test_a_fork_after_use(output):
    # More tokens than torch would handle on one thread, were it asked.
    problem = make_problem([4000] * 10, 90, 33, output=output, scale=0.05).to(torch.float32)
    expected = gradients_of(problem)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_in_child, args=(theirs, problem.to(torch.float32)))
    child.start()
    assert ours.poll(60), "the forked child gave no answer"
    assert ours.recv() == [gradient.tolist() for gradient in expected]
    child.join()
    assert child.exitcode == 0


def test_later_processes_start_from_the_cache(tmp_path):
    code = """
from supdocnade.likelihood.cpu import tree_walk_kernels
from tests.problems import make_problem
import torch
make_problem([3], 4, 2).to(torch.float32).run("relu", "cpu")
stats = tree_walk_kernels.walk.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""
    first, second = (run_python(code, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert first.stdout.split() == ["0", "1"], first.stderr
    assert second.stdout.split() == ["1", "0"], second.stderr


def test_a_read_only_installation_without_a_home(tmp_path):
    # A plain file where each cache folder would be stops even root from writing there.
    source = Path(supdocnade.__file__).parent
    for path in source.rglob("*.py"):
        target = tmp_path / "supdocnade" / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        (target.parent / "__pycache__").touch()
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + DIGEST
    code += "import supdocnade; print(supdocnade.__file__)"
    run = run_python(
        code, HOME=os.devnull, XDG_CACHE_HOME=os.devnull, NUMBA_CACHE_DIR=f"{os.devnull}/none"
    )
    digest, location = run.stdout.split()
    assert location.startswith(str(tmp_path))
    assert run.stderr.count("RuntimeWarning: supdocnade's kernels are compiled again") == 1
    assert digest == run_python(DIGEST).stdout.strip()


@pytest.mark.parametrize("n_words", [1_000, 60_000])
def test_peak_memory_of_a_call(n_words):
    lengths, n_topics = [400] * 10, 200
    problem = make_problem(lengths, n_words, n_topics, weighted=False, scale=0.01)
    problem = problem.to(torch.float32)
    problem.run("relu", "cpu")  # Kernels loaded, the buffer of hidden units not yet kept.
    from supdocnade.likelihood.cpu import memory

    memory._cached.clear()
    tracemalloc.start()
    terms = problem.run("relu", "cpu")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    terms.nll_B.sum().backward()
    grads = [problem.parameters.word_embedding_KH.grad, problem.parameters.node_weight_TH.grad]
    touched = sum(len(g._values()) if g.is_sparse else len(g) for g in grads if g is not None)
    assert peak <= 2 * touched * n_topics * 4 + sum(lengths) * n_topics * 4
