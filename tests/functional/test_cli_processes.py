"""`supdocnade train` under torchrun: two processes train one model."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.commands import SMALL, draw, supdocnade

from supdocnade.cli.console import ProgressBars

FEW = (
    "--topics",
    "8",
    "--set",
    "max_epochs=6",
    "--set",
    "learning_rate=0.003",
    "--set",
    "min_tag_count=2",
)
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    photos = draw(folder / "photos", 5, classes=("coast", "forest"))
    assert supdocnade("train", photos, "-o", folder / "first", *SMALL).code == 0
    done = supdocnade("encode", folder / "first", photos, "-o", folder / "photos.corpus")
    assert done.code == 0
    return folder / "photos.corpus"


def torchrun(*arguments):
    """Run a command in two processes."""
    command = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "supdocnade")
    environment = {
        **os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONPATH": f"{ROOT / 'src'}",
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", *command, *map(str, arguments)],
        env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def test_two_processes_continue_the_run_of_one_and_write_one_model(corpus, tmp_path, monkeypatch):
    """That two processes always compute the same is tested beside the trainer."""
    report = ProgressBars.__call__

    def interrupt(self, stage, done, total):
        report(self, stage, done, total)
        if stage == "learning" and done > 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProgressBars, "__call__", interrupt)
        assert supdocnade("train", corpus, "-o", tmp_path / "m", *FEW).code == 130
    done = torchrun("train", corpus, "-o", tmp_path / "m", "--resume")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("model written to") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m"]
    assert supdocnade("info", tmp_path / "m").code == 0
