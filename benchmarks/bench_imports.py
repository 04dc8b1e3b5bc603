"""Benchmark of imports: CPU time of a new process, with and without an estimator.

python -m benchmarks.bench_imports

The CPU time is that of the process and all its threads, user and system, the least of several runs.
"""

import resource
import subprocess
import sys

from benchmarks.common import print_table, write_results

RUNS = 7
STATEMENTS = (
    "import supdocnade",
    "from supdocnade import SupDocNADE",
    "from supdocnade import SceneModel",
    "import sklearn.base",
    "import torch",
)


def cpu_seconds(statement: str) -> float:
    """Return the CPU time of a process that runs one statement."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", statement], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    seconds = {each: min(cpu_seconds(each) for _ in range(RUNS)) for each in STATEMENTS}
    rows = [[name, f"{value:.2f}"] for name, value in seconds.items()]
    print_table("CPU time of a new process", ["statement", "s"], rows)
    write_results("imports", {"cpu_seconds": seconds})


if __name__ == "__main__":
    main()
