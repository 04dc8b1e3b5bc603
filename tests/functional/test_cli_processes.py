"""`supdocnade train --processes`: the model of one process, also after a process was killed."""

import os
import subprocess
import sys

import pytest
from tests.commands import SMALL, draw, learned, supdocnade

from supdocnade.training import processes, trainer

GROUPS = ("--batch-groups", "3")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("data") / "photos", 5, classes=("coast", "forest"))


def test_a_run_that_lost_a_process_resumes_to_the_same_model(photos, tmp_path, monkeypatch):
    alone, output = tmp_path / "alone", tmp_path / "m"
    assert supdocnade("train", photos, "-o", alone, *SMALL, *GROUPS).code == 0

    workers, saved, save = [], [], trainer.save_checkpoint

    class Popen(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            workers.append(self)

    def save_and_kill(*arguments):
        save(*arguments)
        saved.append(arguments[0])
        if len(saved) == 2:
            workers[-1].kill()

    with monkeypatch.context() as patch:
        patch.setattr(processes.subprocess, "Popen", Popen)
        patch.setattr(trainer, "save_checkpoint", save_and_kill)
        done = supdocnade("train", photos, "-o", output, *SMALL, *GROUPS, "--processes", "2")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "error: another process of this training ended, or did not answer in time; the work so far "
        f"is kept, resume with: supdocnade train {photos} -o {output} --processes 2 --resume\n"
    )
    # torchrun repeats a command, which then continues the run without --resume.
    torchrun = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m")
    command = (*torchrun, "supdocnade", "train", photos, "-o", output, *SMALL, *GROUPS)
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("model written to") == 1
    assert learned(output) == learned(alone)
    # The number of groups is a setting, that of processes is not.
    assert learned(output)[1]["settings"]["batch_groups"] == 3
    assert "n_processes" not in learned(output)[1]["settings"]


def test_every_process_needs_a_group(photos, tmp_path):
    done = supdocnade("train", photos, "-o", tmp_path / "m", *SMALL, "--processes", "2")
    assert (done.code, done.out, done.err) == (
        1,
        "",
        "error: --batch-groups must be at least the number of training processes, 2, got 1.\n",
    )
    assert not list(tmp_path.iterdir())
