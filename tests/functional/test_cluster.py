"""Work on a Ray cluster: the results of one process, whatever happens to the workers.

One cluster with two workers is started for all tests.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.faulty_encoders import FullDisk, Killed, faulty
from tests.commands import draw, supdocnade
from tests.scene_model import small_model

from supdocnade.corpus.disk import Corpus
from supdocnade.errors import ClusterError, UnwritableFile
from supdocnade.folders.photo_folder import scan_folder
from supdocnade.runs import RunOptions
from supdocnade.scene.dataset import from_records
from supdocnade.schema import load_arrays
from supdocnade.visual_words.to_corpus import encode_corpus

ROOT = Path(__file__).parents[2]
# Also for the drivers that the tests start; Ray would write a token of its own to the home folder.
os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "7" * 64}
ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore::Warning:ray", "ignore::ResourceWarning")

N_PHOTOGRAPHS, SHARD_SIZE = 18, 4
EXISTING = RunOptions(n_jobs=-1, cluster="auto")
"""Options that use the cluster of the fixture."""


@pytest.fixture(scope="module", autouse=True)
def address():
    """Start the cluster; return its address."""
    started = ray.init(
        "local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
    )
    yield started.address_info["gcs_address"]
    ray.shutdown()


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("photos") / "photos")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "scenes"
    small_model().save(path)
    return path


@pytest.fixture(scope="module")
def encoder():
    return small_model().fitted_.encoder


def encode(encoder, photos, folder, options=EXISTING):
    photographs = from_records(scan_folder(photos).records)
    corpus, _ = encode_corpus(
        encoder,
        photographs.sources,
        folder,
        options,
        labels=photographs.labels,
        tags=photographs.tags,
        shard_size=SHARD_SIZE,
    )
    return corpus.fingerprint()


@pytest.fixture(scope="module")
def corpus(encoder, photos, tmp_path_factory):
    """Return the corpus that one process writes."""
    folder = tmp_path_factory.mktemp("serial") / "corpus"
    encode(encoder, photos, folder, RunOptions())
    return folder


@pytest.fixture(scope="module")
def serial(corpus):
    """Return the fingerprint of the corpus that one process writes."""
    return Corpus.open(corpus).fingerprint()


def test_workers_write_the_corpus_of_one_process(model, photos, corpus, serial, tmp_path):
    done = supdocnade(
        *("encode", model, photos, "-o", tmp_path / "corpus", "--shard-size", SHARD_SIZE),
        *("--cluster", "auto", "--jobs", 2, "--json"),
    )
    assert done.code == 0, done.err
    assert done.objects[0]["fingerprint"] == serial
    assert done.objects[0]["n_images"] == N_PHOTOGRAPHS
    found = contents(tmp_path / "corpus")
    del found["words.safetensors"]  # The command stores the visual words, too.
    assert found == contents(corpus)


def test_a_cluster_writes_the_predictions_of_one_process(model, photos, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, *extra in ((here,), (there, "--cluster", "auto")):
        done = supdocnade("predict", model, photos, "-o", folder, "--shard-size", "4", *extra)
        assert (done.code, done.err) == (0, "")
    assert contents(there) == contents(here)


def contents(folder):
    """Return the contents of all files; safetensors has no fixed order of its header."""
    return {path.name: content(path) for path in folder.iterdir()}


def content(path):
    if path.suffix != ".safetensors":
        return path.read_bytes()
    arrays, description = load_arrays(path)
    return description, {name: (each.shape, each.tobytes()) for name, each in arrays.items()}


def test_the_commands_of_the_scaling_page_run(model, tmp_path, monkeypatch):
    page = (ROOT / "docs/scaling.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("supdocnade")]
    commands = [shlex.split(line, comments=True)[1:] for line in lines if "--cluster local" in line]
    assert {command for command, *_ in commands} == {"encode", "predict"}
    monkeypatch.chdir(tmp_path)
    shutil.copytree(model, "scenes")
    for number, folder in enumerate(("photos", "new-photos", "test-photos")):
        draw(Path(folder), 1, seed=number)
    for command in commands:  # The cluster of the tests takes the place of a new one.
        done = supdocnade(*command)
        assert done.code == 0, (command, done.err)
        assert done.out


def test_another_version_on_a_machine_is_refused(encoder, photos, tmp_path, monkeypatch):
    monkeypatch.setattr("supdocnade.cluster._version", lambda: "99")
    with pytest.raises(ClusterError, match=r"every machine must have supdocnade 99, got 0"):
        encode(encoder, photos, tmp_path / "corpus")


def test_a_worker_that_is_killed_changes_nothing(encoder, photos, serial, tmp_path):
    killed = faulty(Killed, encoder, marker=tmp_path / "killed")
    assert encode(killed, photos, tmp_path / "corpus") == serial
    assert (tmp_path / "killed").exists()


DRIVER = """
import os, signal, sys
from pathlib import Path
from tests.functional.test_cluster import SHARD_SIZE, encode
from supdocnade.runs import RunOptions
from supdocnade.scene.persistence import load_scene

model, photos, folder, address = sys.argv[1:]

def report(stage, done, total):
    if done >= 2 * SHARD_SIZE:
        os.kill(os.getpid(), signal.SIGKILL)

options = RunOptions(n_jobs=-1, cluster=address, progress=report)
encode(load_scene(Path(model)).encoder, photos, folder, options)
"""


def test_a_driver_that_is_killed_resumes(model, encoder, photos, serial, address, tmp_path):
    folder = tmp_path / "corpus"
    arguments = [str(each) for each in (model, photos, folder, address)]
    killed = subprocess.run([sys.executable, "-c", DRIVER, *arguments], cwd=ROOT)
    assert killed.returncode == -signal.SIGKILL
    assert not folder.exists()
    parts = parts_of(folder)
    assert len(parts) >= 2
    seen = []
    options = RunOptions(progress=lambda _, done, __: seen.append(parts_of(folder)))
    assert encode(encoder, photos, folder, options) == serial
    # The parts of the killed run are there from the beginning and stay as they are.
    assert parts.items() <= seen[-1].items()


def parts_of(folder):
    return {path: path.stat().st_mtime_ns for path in folder.parent.glob("*.partial/part-*")}


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts need root")
def test_a_full_disk_of_one_worker_is_retried(encoder, photos, serial, tmp_path, monkeypatch):
    places = {"folder": tmp_path / "corpus.partial", "marker": tmp_path / "full"}
    full = faulty(FullDisk, encoder, **places, n_images=SHARD_SIZE)
    with monkeypatch.context() as patch:
        patch.setattr("supdocnade.cluster.MAX_RETRIES", 0)
        with pytest.raises(UnwritableFile, match="No space"):
            encode(full, photos, tmp_path / "corpus")
    (tmp_path / "full").unlink()
    assert encode(full, photos, tmp_path / "corpus") == serial
    assert (tmp_path / "full").exists()


def test_workers_that_always_die_are_one_sentence(encoder, photos, tmp_path, monkeypatch):
    monkeypatch.setattr("supdocnade.cluster.MAX_RETRIES", 0)
    with pytest.raises(ClusterError, match="the cluster failed, with 1 attempts per task"):
        encode(faulty(Killed, encoder), photos, tmp_path / "corpus")
    assert not [*tmp_path.iterdir()]


LOCAL = """
import os, sys
from supdocnade.cluster import map_shards
from supdocnade.runs import RunOptions

def node(_):
    import ray
    return ray.util.get_node_ip_address()

if __name__ == "__main__":
    print(*map_shards(node, [0], RunOptions(cluster="local")))
"""


def test_a_local_cluster_is_reached_by_this_user_alone(tmp_path):
    (tmp_path / "local.py").write_text(LOCAL)
    inherited = {name: each for name, each in os.environ.items() if not name.startswith("RAY_")}
    settings = {**inherited, "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, tmp_path / "local.py"], env=settings, capture_output=True, text=True
    )
    assert done.stdout == "127.0.0.1\n"
    assert (tmp_path / ".ray/auth_token").stat().st_mode & 0o077 == 0
