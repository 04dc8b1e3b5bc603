"""Encoding on a Ray cluster with faults: every run must give the corpus of one process.

python -m benchmarks.cluster_faults    # on Linux, as root

Each node of the cluster is in a network namespace, with an address of its own, as a machine would
be; all see the same files. Small drawn scenes are encoded by this process; by 1, 2 and 4 workers on
two nodes; with a worker killed; with the command killed and started again; with a corrupt
photograph; with a full disk of one worker; and twice with a node that dies in the middle of a task
while another one joins. The first of these is killed. The second one loses its connection, so that
the others learn of it only because it does not answer; Ray is told to ask every ten seconds.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.common import print_table, write_results
from benchmarks.faulty_encoders import FullDisk, Killed, StuckNode, faulty, photographs_of
from supdocnade import BagOfVisualWords
from supdocnade.cli.demo import write_scenes
from supdocnade.errors import UnreadableImage
from supdocnade.runs import RunOptions
from supdocnade.visual_words.to_corpus import encode_corpus

ROOT = Path(__file__).parents[1]
N_PER_CLASS, SIDE, N_WORDS, SHARD_SIZE = 12, 96, 60, 4
WORKERS, CORES = (1, 2, 4), 2
"""Numbers of workers, and cores of a node."""
PORT, ADDRESS = 6379, "10.88.0.{}"
FIRST = ADDRESS.format(1)
"""Address of the first node, which only schedules."""
KEEPALIVE = {
    "RAY_grpc_client_keepalive_time_ms": "10000",
    "RAY_grpc_client_keepalive_timeout_ms": "10000",
}
START_SECONDS, RUN_SECONDS = 120.0, 400.0


class Nodes:
    """Ray nodes in network namespaces, which a bridge in the first one connects.

    Parameters
    ----------
    folder : for the files of Ray, which otherwise remembers the address of the cluster in /tmp.
    """

    def __init__(self, folder: Path):
        self.names: list[str] = []
        # A token for this cluster; Ray would write one to the home folder.
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": os.urandom(32).hex()}
        settings = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": str(folder)}
        self.environment = {**os.environ, **KEEPALIVE, **token, **settings}

    def add(self, n_cores: int) -> None:
        """Start a node; the first one is the head of the cluster."""
        number = len(self.names) + 1
        name, address = f"supdocnade-{os.getpid()}-{number}", ADDRESS.format(number)
        _ip("netns", "add", name)
        self.names.append(name)
        _ip("-n", name, "link", "set", "lo", "up")
        first = self.names[0]
        cluster = ["--address", f"{FIRST}:{PORT}"]
        if number == 1:
            _ip("-n", name, "link", "add", "eth0", "type", "bridge")
            cluster = ["--head", "--port", str(PORT), "--include-dashboard", "false"]
        else:
            ends = ("eth0", "netns", name, "type", "veth", "peer", f"node{number}", "netns", first)
            _ip("link", "add", *ends)
            _ip("-n", first, "link", "set", f"node{number}", "master", "eth0", "up")
        _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        options = ("--node-ip-address", address, "--num-cpus", str(n_cores))
        done = self.start(number, "ray.scripts.scripts", "start", *cluster, *options)
        out, _ = done.communicate(timeout=START_SECONDS)
        if done.returncode:
            raise RuntimeError(f"node {number} did not start: {out.decode()}")

    def start(self, number: int, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a module of Python on a node."""
        inside = ["ip", "netns", "exec", self.names[number - 1]]
        command = [*inside, sys.executable, "-m", module, *arguments]
        return subprocess.Popen(command, env=self.environment, cwd=ROOT, stdout=subprocess.PIPE)

    def disconnect(self, number: int) -> None:
        """Cut the connection of a node."""
        _ip("-n", self.names[number - 1], "link", "set", "eth0", "down")

    def kill(self, number: int) -> None:
        """Kill all processes of a node."""
        for process in _ip("netns", "pids", self.names[number - 1]).split():
            os.kill(int(process), signal.SIGKILL)

    def close(self) -> None:
        """Kill all nodes, and remove their namespaces."""
        for number, name in enumerate(self.names, start=1):
            self.kill(number)
            _ip("netns", "delete", name)


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"ip {' '.join(arguments)}: {done.stderr.strip()}; this needs Linux and root")
    return done.stdout


@contextmanager
def two_nodes(folder: Path) -> Iterator[Nodes]:
    """Start a cluster of two nodes, and a first one that only schedules."""
    nodes = Nodes(folder)
    try:
        for n_cores in (0, CORES, CORES):
            nodes.add(n_cores)
        yield nodes
    finally:
        nodes.close()


def drive(kind: str, folder: Path, output: Path, n_jobs: int) -> dict[str, Any]:
    """Encode on the cluster, with one of the faults; return the fingerprint of the corpus."""
    encoder = BagOfVisualWords.load(folder / "words.safetensors").encoder_
    marker, partial = output.with_suffix(".marker"), output.with_name(f"{output.name}.partial")
    if kind == "worker":
        encoder = faulty(Killed, encoder, marker=marker)
    elif kind == "disk":
        encoder = faulty(FullDisk, encoder, folder=partial, marker=marker, n_images=SHARD_SIZE)
    elif kind.startswith("node"):
        marker.mkdir()
        _, stuck, new = (ADDRESS.format(each) for each in kind.split("-"))
        encoder = faulty(StuckNode, encoder, folder=marker, stuck=stuck, new=new)

    started, made = time.time_ns(), set[str]()

    def report(_: str, done: int, total: int | None) -> None:
        made.update(
            path.name for path in partial.glob("part-*") if path.stat().st_mtime_ns > started
        )
        if kind == "driver" and total is not None and done >= total // 4:
            os.kill(os.getpid(), signal.SIGKILL)

    options = RunOptions(
        n_jobs=n_jobs,
        cluster=f"{FIRST}:{PORT}",
        on_error="skip" if kind == "corrupt" else "raise",
        progress=report,
    )
    paths = _photographs(folder, "corrupt" if kind in ("corrupt", "named") else "photos")
    try:
        corpus, left_out = encode_corpus(encoder, paths, output, options, shard_size=SHARD_SIZE)
    except UnreadableImage as error:
        return {"error": str(error).replace(f"{folder}/", "")}
    figures = {"n_shards_made": len(made), "n_skipped": len(left_out)}
    return {"fingerprint": corpus.fingerprint(), **figures}


def _photographs(folder: Path, name: str) -> list[Path]:
    return sorted((folder / name).glob("*/*.jpg"))


class Runs:
    """Runs a fault after the other on a cluster, and collects what happened."""

    def __init__(self, nodes: Nodes, folder: Path):
        self.nodes, self.folder = nodes, folder
        self.results: list[dict[str, Any]] = []

    def start(self, kind: str, output: str, n_jobs: int = -1) -> subprocess.Popen[bytes]:
        places = (str(self.folder), str(self.folder / output))
        arguments = ("--driver", kind, *places, str(n_jobs))
        return self.nodes.start(1, __spec__.name, *arguments)

    def run(self, kind: str, output: str, n_jobs: int = -1) -> dict[str, Any]:
        """Return what the command found."""
        return _result(self.start(kind, output, n_jobs))

    def note(self, run: str, expected: str, found: dict[str, Any], what: str = "") -> None:
        """Compare a fingerprint with that of one process."""
        same = found.get("fingerprint") == expected
        self.results.append({"run": run, "what": what, "same": same, **found})
        print(f"{run}: {'same' if same else 'another'} corpus; {what or 'no fault'}", flush=True)


def _result(driver: subprocess.Popen[bytes]) -> dict[str, Any]:
    out, _ = driver.communicate(timeout=RUN_SECONDS)
    if driver.returncode:
        raise RuntimeError(f"the command ended with {driver.returncode}")
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def kill_driver(runs: Runs, expected: str) -> None:
    """Kill the command, and start it again."""
    driver = runs.start("driver", "driver")
    driver.wait(RUN_SECONDS)
    assert driver.returncode == -signal.SIGKILL
    n_kept = len([*(runs.folder / "driver.partial").glob("part-*")])
    found = runs.run("plain", "driver")
    what = f"killed with {n_kept} finished shards; then {found['n_shards_made']} others were made"
    runs.note("the command is killed and started again", expected, found, what)


def replace_node(runs: Runs, expected: str, stuck: int, run: str) -> None:
    """Let a node die in the middle of a task, and another one join."""
    new = len(runs.nodes.names) + 1
    kind = f"node-{stuck}-{new}"
    markers = runs.folder / f"{kind}.marker"
    # All tasks are submitted at once, so that there are some left for the new node.
    driver = runs.start(kind, kind, len(_photographs(runs.folder, "photos")) // SHARD_SIZE)
    deadline = time.monotonic() + RUN_SECONDS
    while not (markers / "stuck").exists():
        if driver.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("no task came to the node that should die")
        time.sleep(0.1)
    n_before = len(photographs_of(markers, ADDRESS.format(stuck)))
    if "connection" in run:
        runs.nodes.disconnect(stuck)
    runs.nodes.kill(stuck)
    runs.nodes.add(CORES)
    found = _result(driver)
    n_new = len(photographs_of(markers, ADDRESS.format(new)))
    assert n_new, "the new node had nothing to do"
    what = f"gone after {n_before} photographs; the new node encoded {n_new}"
    runs.note(f"{run}, another one joins", expected, found, what)


def run_all(runs: Runs, whole: str, without_corrupt: str) -> None:
    """Run all faults; `whole` and `without_corrupt` are the fingerprints of one process."""
    for n_workers in WORKERS:
        found = runs.run("plain", f"workers-{n_workers}", n_workers)
        runs.note(f"{n_workers} worker{'s' if n_workers > 1 else ''}", whole, found)
    found = runs.run("worker", "worker")
    assert (runs.folder / "worker.marker").exists()
    runs.note("a worker is killed", whole, found, "its task ran again")
    kill_driver(runs, whole)
    error = runs.run("named", "named")["error"]
    found = runs.run("corrupt", "corrupt-skipped")
    what = f"“{error}”, or {found['n_skipped']} left out with `--skip-unreadable`"
    runs.note("a corrupt photograph", without_corrupt, found, what)
    found = runs.run("disk", "disk")
    assert (runs.folder / "disk.marker").exists()
    runs.note("the disk of one worker is full", whole, found, "its task ran again")
    replace_node(runs, whole, 3, "a node is killed")
    replace_node(runs, whole, 4, "a node loses its connection")


def prepare(folder: Path) -> list[str]:
    """Draw photographs and learn words; return the fingerprints of one process."""
    write_scenes(folder / "photos", N_PER_CLASS, max_side=SIDE)
    write_scenes(folder / "corrupt", N_PER_CLASS, max_side=SIDE)
    _photographs(folder, "corrupt")[5].write_bytes(b"\xff\xd8 no image")
    paths = _photographs(folder, "photos")
    bag = BagOfVisualWords(N_WORDS, random_state=0, sample_size=5000).fit(paths[::4])
    bag.save(folder / "words.safetensors")
    fingerprints = []
    for name in ("photos", "corrupt"):
        paths, options = _photographs(folder, name), RunOptions(on_error="skip")
        output = folder / f"serial-{name}"
        corpus, _ = encode_corpus(bag.encoder_, paths, output, options, shard_size=SHARD_SIZE)
        fingerprints.append(corpus.fingerprint())
    return fingerprints


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--driver", nargs=4, help=argparse.SUPPRESS)
    driver = parser.parse_args().driver
    if driver is not None:
        kind, folder, output, n_jobs = driver
        print(json.dumps(drive(kind, Path(folder), Path(output), int(n_jobs))))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # Nodes are removed.
    with TemporaryDirectory() as name:
        folder = Path(name)
        whole, without_corrupt = prepare(folder)
        with two_nodes(folder) as nodes:
            runs = Runs(nodes, folder)
            run_all(runs, whole, without_corrupt)
        n_images = len(_photographs(folder, "photos"))
    rows = [[each["run"], each["what"], str(each["same"])] for each in runs.results]
    print_table("Encoding with faults", ["run", "what happened", "same corpus"], rows)
    write_results(
        "cluster_faults",
        {
            "n_images": n_images,
            "shard_size": SHARD_SIZE,
            "fingerprint": whole,
            "fingerprint_without_corrupt": without_corrupt,
            "runs": runs.results,
            "n_same": sum(each["same"] for each in runs.results),
            "ray": version("ray"),
        },
    )
    if not all(each["same"] for each in runs.results):
        sys.exit("a run gave another corpus")


if __name__ == "__main__":
    main()
