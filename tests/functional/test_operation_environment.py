"""The compiled operation with threads, after forks and in read-only installations."""

import multiprocessing
import os
import subprocess
import sys
import threading
import tracemalloc
from functools import partial
from pathlib import Path

import pytest
import torch
from tests.likelihood_problems import cpu_digest, make_problem

import supdocnade
from supdocnade.likelihood.cpu.engine import MAX_SECOND_WORDS

ROOT = Path(__file__).parents[2]

# Prints a digest, then how often a kernel was loaded from the cache and compiled. A softmax has few
# kernels to compile.
PROGRAM = """
from tests.likelihood_problems import CASES, cpu_digest
print(cpu_digest(CASES[:1]))
from supdocnade.likelihood.cpu.prefix_sums import sum_prefixes
print(sum(sum_prefixes.stats.cache_hits.values()), sum(sum_prefixes.stats.cache_misses.values()))
"""


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", **environment}
    return subprocess.run(
        [sys.executable, "-c", code], env=settings, cwd=ROOT, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def fresh_processes(tmp_path_factory):
    """Two processes, the first with an empty Numba cache and the second with a filled one."""
    cache = str(tmp_path_factory.mktemp("cache"))
    runs = [
        run_python(PROGRAM, NUMBA_CACHE_DIR=cache, OMP_NUM_THREADS=threads)
        for threads in ("1", "3")
    ]
    assert [run.stderr for run in runs] == ["", ""]
    return [run.stdout.split() for run in runs]


def gradients_of(problem):
    problem.run("relu", "cpu").nll_B.sum().backward()
    return problem.gradients()


DOUBLE = """from doubling import double
print(double(3), *(sum(found.values()) for found in double.stats[1:]))"""


@pytest.fixture
def problem():
    return make_problem([400] * 8, n_words=90, n_topics=33, scale=0.05).to(torch.float32)


def test_bits_do_not_depend_on_threads():
    digests = set()
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            digests.add(cpu_digest())
    finally:
        torch.set_num_threads(before)
    assert len(digests) == 1


def test_later_processes_load_kernels_from_the_cache(fresh_processes):
    (one, *first), (other, *second) = fresh_processes
    assert one == other
    assert first == ["0", "1"]
    assert second == ["1", "0"]


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


def _send_gradients(connection, problem):
    connection.send([gradient.tolist() for gradient in gradients_of(problem)])
    connection.close()


# Python warns that forking with threads may deadlock; the test shows that it does not.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("output", ["tree", "softmax"])
def test_a_fork_after_use(output):
    # So many tokens that torch's own operations would use several threads.
    problem = make_problem([4000] * 10, 90, 33, output=output, scale=0.05).to(torch.float32)
    expected = gradients_of(problem)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_send_gradients, args=(theirs, problem.to(torch.float32)))
    child.start()
    assert ours.poll(60), "the forked child did not answer"
    assert ours.recv() == [gradient.tolist() for gradient in expected]
    child.join()
    assert child.exitcode == 0


# Few kernels, since all that are used are compiled.
SMALL_PROGRAM = """
import torch
from tests.likelihood_problems import make_problem
problem = make_problem([300, 5], 150, 37, output="softmax").to(torch.float32)
print(problem.run("relu", "cpu").nll_B.tolist())
import supdocnade; print(supdocnade.__file__)
"""


def test_a_read_only_installation_without_a_home(tmp_path):
    # A file in place of each cache folder stops even root from writing there.
    source = Path(supdocnade.__file__).parent
    for path in source.rglob("*.py"):
        target = tmp_path / "supdocnade" / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        (target.parent / "__pycache__").touch()
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + SMALL_PROGRAM
    run = run_python(
        code,
        HOME=os.devnull,
        XDG_CACHE_HOME=os.devnull,
        NUMBA_CACHE_DIR=f"{os.devnull}/none",
        OMP_NUM_THREADS="2",
    )
    values, location = run.stdout.splitlines()
    assert location.startswith(str(tmp_path))
    assert run.stderr.count("RuntimeWarning: supdocnade's kernels are compiled again") == 1
    problem = make_problem([300, 5], 150, 37, output="softmax").to(torch.float32)
    assert values == str(problem.run("relu", "cpu").nll_B.tolist())


@pytest.mark.parametrize("n_words", [1_000, 60_000])
def test_peak_memory_of_a_call(n_words):
    lengths, n_topics = [400] * 10, 200
    problem = make_problem(lengths, n_words, n_topics, weighted=False, scale=0.01)
    problem = problem.to(torch.float32)
    problem.run("relu", "cpu")  # Load the kernels.
    tracemalloc.start()
    problem.run("relu", "cpu")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    n_tables = 3 if n_words <= MAX_SECOND_WORDS else 2
    assert peak <= 1.1 * (n_tables * n_words + sum(lengths)) * n_topics * 4


@pytest.mark.parametrize("content", [b"", b"not a pickle", None])
def test_a_damaged_cache_of_kernels_is_written_again(content, tmp_path):
    (tmp_path / "doubling.py").write_text(
        "from supdocnade.jit import kernel\n@kernel\ndef double(x):\n    return 2 * x\n"
    )
    run = partial(run_python, f"import sys; sys.path.append({str(tmp_path)!r}); {DOUBLE}")
    settings = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert run(**settings).stdout == "6 0 1\n"
    for path in (tmp_path / "cache").rglob("*.nb?"):
        path.write_bytes(path.read_bytes()[:-20] if content is None else content)
    for expected in ("6 0 1\n", "6 1 0\n"):
        done = run(**settings)
        assert (done.stdout, done.stderr) == (expected, "")
