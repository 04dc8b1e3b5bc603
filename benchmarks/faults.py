"""Kill commands, fill their disk or make it read-only at random moments, and run them again.

python -m benchmarks.faults [--kills 12] [--disks 12] [--full] [--seed 0]

Every case begins with a fresh copy of a small workspace: photographs, models and an index. A
command runs in it and meets a fault:

kill       SIGKILL, after a random time, or at a random operation on a file
full       the workspace is a tmpfs with room for a random share of what the command writes
read-only  from a random operation on a file on, every attempt to write fails with EROFS

Kills at operations and read-only disks come from an audit hook of Python in the process of the
command; a full disk is a real one, which needs root or user namespaces. A command is a fork of a
process that has imported the package, which saves the time of imports. After a full or a read-only
disk the command must have printed one sentence, and all earlier files must be intact. Then the
same command runs without a fault, with `--resume` or `--force` if its message asks for it. It must
leave the files of a run without a fault, and no others. `--full` runs 100 kills and 50 disks.
"""

import argparse
import errno
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from benchmarks.common import RESULTS, load, metadata, write_results

RESULT = "faults"
FORKS = multiprocessing.get_context("forkserver")
PRELOADED = (
    "benchmarks.common",
    "sklearn.model_selection",
    "supdocnade.cli.main",
    "supdocnade.gallery.build",
    "supdocnade.report.heatmap",
    "supdocnade.report.html",
    "supdocnade.scene.model",
    "supdocnade.visual_words.to_corpus",
)
"""Modules that are imported once; a command is a fork of the process that has imported them."""
SMALL = (
    *("--features", "sift", "--words", "12", "--topics", "6", "--set", "max_epochs=4"),
    *("--set", "learning_rate=0.003", "--set", "min_tag_count=2", "--jobs", "1"),
)
MAX_SIDE, CLASSES = 96, ("coast", "forest", "skyline")
PHOTO = "photos/coast/coast_0001.jpg"
LIMIT = 120.0
"""Seconds after which a command counts as hanging."""
ROOM = "200m"
PART_SIZE = 4
"""Photographs of a part, so that there are several."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = ("os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.truncate", "os.chmod")
"""Audit events of changes to files, beside those of files opened for writing."""


@dataclass(frozen=True)
class Action:
    """A command that writes, and the files and folders that it writes."""

    arguments: tuple[str, ...]
    outputs: tuple[str, ...]


KILLED = {
    "train": Action(("train", "photos", "-o", "new", *SMALL), ("new",)),
    "train --add": Action(
        ("train", "more", "--add", "model", "-o", "new", "--jobs", "1"), ("new",)
    ),
    "index": Action(("index", "model", "photos", "more", "-o", "index", "--jobs", "1"), ("index",)),
    "encode": Action(("encode", "model", "photos", "-o", "corpus", "--jobs", "1"), ("corpus",)),
    "save": Action(("save", "model", "saved"), ("saved",)),
    "tag --embed": Action(
        (
            *("tag", "model", "photos", "--embed", "--min-probability", "0"),
            *("--record", "record.jsonl", "--quiet", "--jobs", "1"),
        ),
        ("photos", "record.jsonl"),
    ),
}
"""Commands that are killed; `save` stands for `SceneModel.load(...).save(...)`."""
WRITING = {
    **KILLED,
    "train --force": Action(("train", "photos", "-o", "saved", "--force", *SMALL), ("saved",)),
    "predict -o": Action(("predict", "model", "photos", "-o", "found", "--jobs", "1"), ("found",)),
    "tag": Action(
        (
            *("tag", "model", "photos", "--min-probability", "0"),
            *("--record", "record.jsonl", "--quiet", "--jobs", "1"),
        ),
        ("photos", "record.jsonl"),
    ),
    "explain": Action(("explain", "model", PHOTO, "-o", "why.png"), ("why.png",)),
    "report": Action(("report", "model", "-o", "report.html"), ("report.html",)),
}
"""Commands whose disk becomes full or read-only."""


def run_command(arguments: Sequence[str], fault: str, at: int) -> int:
    """Run a command in this process, with a fault at some operation; return its exit code."""
    folder, n_operations = os.path.realpath("."), 0

    def watch(event: str, details: tuple[Any, ...]) -> None:
        nonlocal n_operations
        is_write = event == "open" and isinstance(details[2], int) and details[2] & WRITES
        path = details[0] if details else 0
        if event == "sqlite3.connect":
            address = urlsplit(str(path))
            is_write, path = address.query.startswith("mode=rw"), unquote(address.path)
        if not (is_write or event in CHANGES) or isinstance(path, int):
            return
        if not _is_below(path, folder):
            return
        n_operations += 1
        if fault == "kill" and n_operations == at:
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "read-only" and n_operations >= at:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), os.fspath(path))

    sys.addaudithook(watch)
    from supdocnade import unfinished
    from supdocnade.cli.main import run

    unfinished.PART_SIZE = PART_SIZE
    code = _save(*arguments[1:]) if arguments[0] == "save" else run(arguments)
    print(f"operations {n_operations}", file=sys.stderr)
    return code


def run_process(folder: str, output: str, arguments: tuple[str, ...], fault: str, at: int) -> None:
    """Run a command in a folder, as a process of this program; it leads a group of processes."""
    os.setsid()
    os.chdir(folder)
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(descriptor, stream.fileno())
    sys.exit(run_command(arguments, fault, at))


def _is_below(path: Any, folder: str) -> bool:
    return os.path.abspath(os.fsdecode(path)).startswith(folder + os.sep)


def _save(source: str, target: str) -> int:
    from supdocnade import SceneModel
    from supdocnade.errors import SupDocNADEError

    try:
        SceneModel.load(source).save(target)
    except SupDocNADEError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


class Workspace:
    """A folder in which commands run, and a template of its contents.

    Parameters
    ----------
    folder : holds both.
    """

    def __init__(self, folder: Path):
        self.template, self.work = folder / "template", folder / "work"
        self.output = folder / "output.txt"
        """What the latest command printed."""
        self.work.mkdir()

    def start(self, arguments: Sequence[str], fault: str = "", at: int = 0) -> Any:
        """Start a command in the workspace, in a process of its own."""
        command = (str(self.work), str(self.output), tuple(arguments), fault, at)
        process = FORKS.Process(target=run_process, args=command)
        process.start()
        return process

    def run(self, arguments: Sequence[str], fault: str = "", at: int = 0) -> tuple[int, str]:
        """Run a command; return its exit code and what it printed."""
        process = self.start(arguments, fault, at)
        process.join(LIMIT)
        if process.is_alive():
            process.kill()
            process.join()
            return -1, "it hangs"
        return process.exitcode, self.output.read_text()

    def make_template(self) -> None:
        """Draw photographs and train models in the workspace, and keep a copy of everything."""
        from supdocnade.cli.demo import write_scenes

        write_scenes(self.work / "photos", 5, classes=CLASSES, max_side=MAX_SIDE)
        write_scenes(self.work / "more", 2, first=5, classes=CLASSES, max_side=MAX_SIDE)
        for arguments in (
            ("train", "photos", "-o", "model", *SMALL, "--seed", "1"),
            ("train", "photos", "-o", "saved", *SMALL, "--seed", "2"),
            ("index", "model", "photos", "-o", "index", "--jobs", "1"),
            ("explain", "saved", PHOTO, "-o", "why.png"),
            ("report", "saved", "-o", "report.html"),
        ):
            code, errors = self.run(arguments)
            if code:
                sys.exit(errors)
        shutil.copytree(self.work, self.template)

    def reset(self) -> None:
        """Make the workspace a copy of the template."""
        for path in self.work.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(self.template, self.work, dirs_exist_ok=True)

    def resize(self, room: str | None = None) -> None:
        """Make the workspace an empty disk of its own, or change its size.

        Parameters
        ----------
        room : size of the disk. By default, a new one.
        """
        options = f"size={ROOM}" if room is None else f"remount,size={room}"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.work)]
        subprocess.run(command, check=True)

    def used(self) -> int:
        """Return the bytes that are in use on the disk of the workspace."""
        disk = os.statvfs(self.work)
        return (disk.f_blocks - disk.f_bfree) * disk.f_frsize

    def contents(self) -> dict[str, Any]:
        """Return the contents of every file and folder at the top of the workspace."""
        return {path.name: contents(path) for path in sorted(self.work.iterdir())}


def contents(path: Path) -> Any:
    """Return everything in a file or folder that a command determines.

    Times, locks and the order in which an index was written may differ between runs.
    """
    from supdocnade.gallery.photo_index import NAME, Gallery
    from supdocnade.scene.persistence import load_scene

    if path.is_file():
        return file_contents(path)
    if (path / NAME).exists():
        gallery = Gallery.load(path, load_scene(path.with_name("model")))
        return [
            (gallery.paths[n], gallery.label(n), gallery.topics_NH[n].tobytes(), gallery.picture(n))
            for n in range(len(gallery))
        ]
    files = (each for each in path.rglob("*") if each.is_file() and each.name != ".lock")
    return {str(each.relative_to(path)): file_contents(each) for each in files}


def file_contents(path: Path) -> Any:
    """Return the bytes of a file.

    Of a record of sidecars the different lines are returned, since a line is written before its
    sidecar.
    """
    if path.name == "record.jsonl":
        return set(path.read_bytes().splitlines())
    return path.read_bytes()


@dataclass(frozen=True)
class Expected:
    """A run without a fault."""

    contents: dict[str, Any]
    seconds: float
    n_operations: int
    n_bytes: int
    """What the outputs of the command take on the disk."""


def run_undisturbed(space: Workspace, action: Action) -> Expected:
    """Run a command without a fault."""
    space.reset()
    before, start = space.used(), time.perf_counter()
    code, errors = space.run(action.arguments)
    if code:
        sys.exit(f"{action.arguments}: {errors}")
    seconds, count = time.perf_counter() - start, int(errors.split()[-1])
    return Expected(space.contents(), seconds, count, max(space.used() - before, 2**17))


def recover(space: Workspace, action: Action) -> list[str]:
    """Run a command again as its messages ask; return the options that it took.

    The last entry is an error if it never succeeded.
    """
    options: list[str] = []
    for _ in range(4):
        code, errors = space.run([*action.arguments, *options])
        if code == 0:
            return options
        wanted = [each for each in ("--resume", "--force") if each in errors]
        wanted = [each for each in wanted if each not in (*options, *action.arguments)]
        if not wanted:
            break
        options.append(wanted[0])
    return [*options, f"failed: {error_line(errors)}"]


def error_line(errors: str) -> str:
    """Return the message of a command that failed; empty if it is not clear.

    It is one sentence, or one about each photograph.
    """
    lines = [line for line in errors.splitlines() if line.startswith("error: ")]
    is_clear = "a bug in" not in errors and "Traceback" not in errors
    return lines[0] if lines and is_clear and len(set(lines)) == len(lines) else ""


def survivors_of(group: int) -> bool:
    """Return whether processes of a group are still there after five seconds."""
    for _ in range(50):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.1)
    os.killpg(group, signal.SIGKILL)
    return True


def kill(
    space: Workspace, action: Action, expected: Expected, draw: random.Random
) -> dict[str, Any]:
    """Kill a command; return when, and whether any of its processes survived."""
    while True:
        space.reset()
        if draw.random() < 0.5:
            at = draw.randint(1, expected.n_operations)
            process = space.start(action.arguments, "kill", at)
            moment = f"operation {at} of {expected.n_operations}"
        else:
            share = draw.uniform(0.2, 1.0)
            process = space.start(action.arguments)
            time.sleep(share * expected.seconds)
            moment = f"{share:.2f} of the time"
            process.kill()
        process.join()
        if process.exitcode == -signal.SIGKILL:
            return {"moment": moment, "survivors": survivors_of(process.pid)}


def fill_disk(
    space: Workspace, action: Action, expected: Expected, draw: random.Random
) -> dict[str, Any]:
    """Run a command on a disk with too little room, and give it more room afterwards."""
    share = draw.random()
    while True:
        space.resize(ROOM)
        space.reset()
        space.resize(str(space.used() + int(share * expected.n_bytes) // 4096 * 4096))
        code, errors = space.run(action.arguments)
        if code:
            break
        share /= 2  # The command found all the room that it needs.
    result = {"moment": f"room for {share:.3f}", **check_failure(space, action, code, errors)}
    space.resize(ROOM)
    return result


def forbid_writing(
    space: Workspace, action: Action, expected: Expected, draw: random.Random
) -> dict[str, Any]:
    """Run a command whose disk becomes read-only."""
    while True:
        space.reset()
        at = draw.randint(1, expected.n_operations)
        code, errors = space.run(action.arguments, "read-only", at)
        if code:
            result = check_failure(space, action, code, errors)
            return {"moment": f"operation {at} of {expected.n_operations}", **result}


def check_failure(space: Workspace, action: Action, code: int, errors: str) -> dict[str, Any]:
    """Return the message of a failed command, and the earlier files that it has changed.

    A file or folder that the command replaces may be the old or the new one.
    """
    changed = []
    for path in sorted(space.template.iterdir()):
        now = space.work / path.name
        try:
            found = contents(now)
        except (ValueError, OSError) as error:
            changed.append(f"{path.name}: {error}")
            continue
        old = contents(path)
        if path.name == "photos":
            found = {name: found.get(name) for name in old}  # Sidecars are added to it.
        if path.name not in action.outputs and found != old:
            changed.append(path.name)
    return {"code": code, "sentence": error_line(errors), "changed": changed}


FAULTS = {"kill": kill, "full": fill_disk, "read-only": forbid_writing}


def run_case(
    space: Workspace, name: str, fault: str, expected: Expected, draw: random.Random
) -> dict[str, Any]:
    """Run a command with a fault and again without; return what happened."""
    action = WRITING[name]
    result = {"command": name, "fault": fault, **FAULTS[fault](space, action, expected, draw)}
    options = recover(space, action)
    failed = bool(options) and options[-1].startswith("failed")
    found = {} if failed else space.contents()
    differing = sorted(
        key
        for key in found.keys() | expected.contents.keys()
        if found.get(key) != expected.contents.get(key)
    )
    good = not failed and not differing and not result.get("survivors")
    if fault != "kill":
        good = good and result["code"] == 1 and bool(result["sentence"]) and not result["changed"]
    return {**result, "again": options, "differing": differing, "good": good}


def run_all(n_kills: int, n_disks: int, seed: int) -> list[dict[str, Any]]:
    """Run all cases; return their results."""
    cases = [(list(KILLED)[n % len(KILLED)], "kill") for n in range(n_kills)]
    names = list(WRITING)
    cases += [(names[n // 2 % len(names)], ("full", "read-only")[n % 2]) for n in range(n_disks)]
    results, expected = [], {}
    with tempfile.TemporaryDirectory() as folder:
        space = Workspace(Path(folder))
        space.resize()
        try:
            space.make_template()
            for number, (name, fault) in enumerate(cases):
                if name not in expected:
                    expected[name] = run_undisturbed(space, WRITING[name])
                draw = random.Random(f"{seed} {number} {name} {fault}")
                results.append(run_case(space, name, fault, expected[name], draw))
                print(number + 1, json.dumps(results[-1]), flush=True)
        finally:
            # Processes that decoded for a killed command may still be ending in it.
            subprocess.run(["umount", "--lazy", str(space.work)], check=True)
    return results


def own_disks() -> None:
    """Start this program again where it may mount disks that no other program sees."""
    command = ["unshare", "--mount", "--propagation", "private"]
    command += [] if os.geteuid() == 0 else ["--map-root-user"]
    module = [sys.executable, "-m", "benchmarks.faults", "--mounted", *sys.argv[1:]]
    sys.exit(subprocess.run([*command, *module]).returncode)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--disks", type=int, default=12)
    parser.add_argument("--full", action="store_true", help="100 kills and 50 disks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mounted", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not given.mounted:
        own_disks()
    FORKS.set_forkserver_preload(list(PRELOADED))
    n_kills, n_disks = (100, 50) if given.full else (given.kills, given.disks)
    results = run_all(n_kills, n_disks, given.seed)
    run = {each["fault"] for each in results}
    earlier = (
        load(RESULT) if (RESULTS / f"{RESULT}.json").exists() else {"cases": [], "summary": {}}
    )
    # Faults that did not come in this run keep the results of an earlier one.
    kept = {fault: each for fault, each in earlier["summary"].items() if fault not in run}
    cases = [each for each in earlier["cases"] if each["fault"] in kept] + results
    counts = Counter((each["fault"], each["good"]) for each in results)
    summary = kept | {
        fault: {
            "cases": counts[fault, True] + counts[fault, False],
            "good": counts[fault, True],
            "commit": metadata()["commit"],
        }
        for fault in sorted(run)
    }
    print(json.dumps(summary))
    write_results(RESULT, {"seed": given.seed, "summary": summary, "cases": cases})
    if not all(each["good"] for each in results):
        sys.exit("Some cases are not good; see benchmarks/results/faults.json.")


if __name__ == "__main__":
    main()
