"""Damaged and hostile image files, read under a limit of memory and of time."""

import json
import subprocess
import sys

N_CASES = 1000


def test_every_damaged_file_is_read_or_refused_with_a_sentence():
    """In a process of its own: a crash or a hang of a decoder would show, as would its memory."""
    command = [sys.executable, "-m", "benchmarks.fuzz_images", "--limited", "--cases", str(N_CASES)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(run.stdout)
    assert found["faults"] == {}
    assert found["read"] + found["refused"] == N_CASES
    assert min(found["read"], found["refused"]) > 100
    assert set(found["hostile"].values()) == {"refused"}
