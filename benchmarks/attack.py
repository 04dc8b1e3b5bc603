"""Attack commands and a server in more than seventy ways by hand: files and requests made to harm.

python -m benchmarks.attack [--seconds 2] [--connections 200] [--only server]

A command gets a file of a stranger in a folder of its own. It must end as expected within
`MAX_SECONDS` and `MAX_MIB`, with a sentence that says what is wrong and without a traceback, and
leave the files of others as they were. See `attack_serve` for the server.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.attack_serve import attack_server, progressive_jpeg
from benchmarks.common import load, write_results
from benchmarks.fuzz_files import small_model, small_scenes
from benchmarks.fuzz_images import png_chunk, png_header
from supdocnade.images.decode import encode

MAX_SECONDS, MAX_MIB = 60.0, 2000.0
"""Of a command; most of both is what it needs to start."""

PROGRAM = [sys.executable, "-P", "-c", "from supdocnade.cli.main import main; main()"]
MEASURE = f"""
import json, resource, subprocess, sys
try:
    done = subprocess.run(sys.argv[2:], stdin=subprocess.DEVNULL, timeout={2 * MAX_SECONDS})
    code = done.returncode
except subprocess.TimeoutExpired:
    code = "timeout"
most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
with open(sys.argv[1], "w") as file:
    json.dump([code, most], file)
"""
"""A small program that runs a command: memory counts from that of the process that starts it."""

MODEL, PHOTOS = "model", "photos"


class Attack(NamedTuple):
    """Files that are made in a folder, which has a model and photographs, and a command."""

    make: Callable[[Path], object]
    command: str
    """Arguments; {} stands for the folder."""
    says: str
    """Part of what is printed."""
    code: int = 1


def sparse(path: Path) -> None:
    """Make a file of a tebibyte that takes nothing on the disk."""
    path.touch()
    os.truncate(path, 2**40)


def sparse_tar(folder: Path, name: str) -> None:
    """Make a tar file of some kilobytes, with a photograph and a sparse member."""
    shutil.copy(folder / PHOTOS / "a.jpg", folder / "a.jpg")
    (folder / name).touch()
    os.truncate(folder / name, 2**33)
    members = {"a.jpg", name}
    subprocess.run(["tar", "-S", "-cf", "x.tar", *members], cwd=folder, check=True)
    (folder / name).unlink()


def pipe(path: Path) -> Path:
    """Put a pipe in the place of a file."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


def link(path: Path, target: str | Path) -> Path:
    """Put a link in the place of a file."""
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)
    return path


def write(path: Path, content: bytes | str) -> Path:
    """Write a file, and the folder that holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def foreign_partial(folder: Path) -> None:
    """Make a folder of the user where an unfinished run would be."""
    write(folder / "out.partial/thesis.tex", "the only copy")


def linked_partial(folder: Path) -> None:
    """Make a link to a folder of the user where an unfinished run would be."""
    write(folder / "mine/thesis.tex", "the only copy")
    link(folder / "out.partial", folder / "mine")


def index(folder: Path) -> None:
    """Make an index, and a copy of it as a file of the user."""
    subprocess.run([*PROGRAM, "index", folder / MODEL, folder / PHOTOS, "-q"], check=True)


def sidecar(inside: str, start: str = "") -> str:
    """Return an XMP sidecar of a keyword."""
    return (
        f'{start}<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF '
        'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description rdf:about="" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:subject><rdf:Bag><rdf:li>'
        f"{inside}</rdf:li></rdf:Bag></dc:subject></rdf:Description></rdf:RDF></x:xmpmeta>"
    )


BOMB = (
    "<!DOCTYPE x ["
    + "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10 if n else "ha" * 10}">' for n in range(9))
    + "]>"
)
"""Entities that expand to ten billion letters."""

TEXT_BOMB = png_header(64, 64)[:33] + png_chunk(
    b"zTXt", b"Comment\0\0" + zlib.compress(bytes(2**28))
)
"""A PNG file with a comment of 256 MB."""

ONE = "predict {}/model {}/x.jpg"
CHECK = "check {}/photos"

ATTACKS: dict[str, Attack] = {
    "a pipe as sidecar": Attack(lambda f: pipe(f / "photos/a.jpg.xmp"), CHECK, "must be a file", 0),
    "a pipe as metadata": Attack(
        lambda f: pipe(f / "photos/metadata.jsonl"), CHECK, "must be a file"
    ),
    "a pipe as photograph": Attack(lambda f: pipe(f / "x.jpg"), ONE, "must be a file"),
    "a pipe as model": Attack(
        lambda f: pipe(f / "model/scene.safetensors"),
        "info {}/model",
        "must be a file",
    ),
    "a device as metadata": Attack(
        lambda f: link(f / "photos/metadata.csv", "/dev/zero"), CHECK, "must be a file"
    ),
    "a device as list": Attack(
        lambda f: link(f / "x.txt", "/dev/zero"), "check {}/x.txt", "must be a file"
    ),
    "a device as photograph in a list": Attack(
        lambda f: write(f / "x.txt", "/dev/zero"), "predict {}/model {}/x.txt", "must be a file"
    ),
    "a device as tar file": Attack(
        lambda f: link(f / "x.tar", "/dev/zero"), "check {}/x.tar", "must be a file"
    ),
    "a device as model": Attack(
        lambda f: link(f / "model/scene.safetensors", "/dev/zero"),
        "info {}/model",
        "must be a file",
    ),
    "a device as sidecar": Attack(
        lambda f: link(f / "photos/a.jpg.xmp", "/dev/zero"), CHECK, "must be a file", 0
    ),
    "a device as text": Attack(
        lambda f: (write(f / "texts/a.txt", "sea"), link(f / "texts/b.txt", "/dev/zero")),
        "topics {}/texts -o {}/out",
        "",
    ),
    "a sparse photograph": Attack(lambda f: sparse(f / "x.jpg"), ONE, "is too large"),
    "a sparse metadata file": Attack(
        lambda f: sparse(f / "photos/metadata.csv"), CHECK, "is too large"
    ),
    "a sparse list": Attack(lambda f: sparse(f / "x.txt"), "check {}/x.txt", "is too large"),
    "a sparse model": Attack(
        lambda f: sparse(f / "model/scene.safetensors"), "info {}/model", "is too large"
    ),
    "a sparse description in a tar file": Attack(
        lambda f: sparse_tar(f, "a.json"), "check {}/x.tar", "1 photograph", 0
    ),
    "a sparse photograph in a tar file": Attack(
        lambda f: sparse_tar(f, "b.jpg"), "check {}/x.tar", "1 photograph", 0
    ),
    "an address in a list": Attack(
        lambda f: write(f / "x.txt", "ftp://127.0.0.1:9/a.jpg"),
        "predict {}/model {}/x.txt",
        "must list paths of files",
    ),
    "an address in the metadata": Attack(
        lambda f: write(f / "photos/metadata.csv", "file_name,tags\nftp://127.0.0.1:9/a.jpg,x\n"),
        CHECK,
        "metadata.csv, line 2",
    ),
    "a path out of the folder in the metadata": Attack(
        lambda f: write(f / "photos/metadata.csv", "file_name,tags\n../../etc/passwd,x\n"),
        CHECK,
        "metadata.csv, line 2",
    ),
    "sixty million pixels in a row": Attack(
        lambda f: write(f / "x.jpg", png_header(60_000_000, 1)), ONE, "x.jpg is too long and narrow"
    ),
    "sixty million pixels in a column, indexed": Attack(
        lambda f: write(f / "photos/x.png", png_header(1, 60_000_000)),
        "index {}/model {}/photos",
        "x.png is too long and narrow",
    ),
    "a bomb of pixels": Attack(
        lambda f: write(f / "x.jpg", png_header(60_000, 60_000)), ONE, "x.jpg is too large"
    ),
    "a thousand scans": Attack(
        lambda f: write(f / "x.jpg", progressive_jpeg(1000)), ONE, "has more than 100 scans"
    ),
    "ninety scans": Attack(lambda f: write(f / "x.jpg", progressive_jpeg(90)), ONE, "x.jpg", 0),
    "a comment of 256 MB": Attack(lambda f: write(f / "x.jpg", TEXT_BOMB), ONE, "x.jpg is"),
    "a document": Attack(
        lambda f: write(f / "x.jpg", "%!PS\n{} loop"), ONE, "x.jpg is not an image"
    ),
    "a module beside photographs": Attack(
        lambda f: write(f / "PIL.py", "raise SystemExit('run')"),
        "predict {}/model {}/photos",
        "a.jpg: ",
        0,
    ),
    "entities that expand": Attack(
        lambda f: write(f / "photos/a.jpg.xmp", sidecar("&a9;", BOMB)), CHECK, "document type", 0
    ),
    "a sidecar of 100,000 levels": Attack(
        lambda f: write(f / "photos/a.jpg.xmp", sidecar("<a>" * 10**5)), CHECK, "a.jpg.xmp", 0
    ),
    "an external entity": Attack(
        lambda f: write(
            f / "photos/a.jpg.xmp",
            sidecar("&e;", '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'),
        ),
        CHECK,
        "document type",
        0,
    ),
    "deep JSON as metadata": Attack(
        lambda f: write(f / "photos/metadata.jsonl", "[" * 10**6), CHECK, "metadata.jsonl, line 1"
    ),
    "a cell of 100 MB": Attack(
        lambda f: write(f / "photos/metadata.csv", "file_name,tags\na.jpg," + "x" * 10**8),
        CHECK,
        "tags of at most 1000 characters",
    ),
    "a name of a million digits": Attack(
        lambda f: write(f / "x.txt", "1" * 10**6 + ".jpg"), "index {}/model {}/x.txt", "x.txt"
    ),
    "an unfinished run that is somebody's folder": Attack(
        foreign_partial, "predict {}/model {}/photos -o {}/out", "is in the way"
    ),
    "an unfinished run that is a link": Attack(
        linked_partial, "encode {}/model {}/photos -o {}/out", "is in the way"
    ),
    "a training where somebody's folder is": Attack(
        foreign_partial, "train {}/photos -o {}/out", "is in the way"
    ),
    "a card over a model": Attack(
        lambda f: shutil.copytree(f / MODEL, f / "other"),
        "card {}/model -o {}/other --strip",
        "--force replaces it",
    ),
    "a card over its own model": Attack(
        lambda f: None, "card {}/model -o {}/model --strip --force", "must be another folder"
    ),
    "an index of a folder that does not exist": Attack(
        index, "index {}/model {}/phtoos", "does not exist"
    ),
    "an index by a link to somebody's file": Attack(
        lambda f: (
            write(f / "mine.txt", "mine"),
            link(f / "ix/supdocnade-index.sqlite", f / "mine.txt"),
        ),
        "index {}/model {}/photos -o {}/ix",
        "supdocnade",
    ),
    "a record that is not a list": Attack(
        lambda f: (
            write(f / "a.xmp", sidecar("holiday")),
            write(
                f / "r.jsonl",
                json.dumps(
                    {"sidecar": str(f / "a.xmp"), "created": False, "keywords": "xxholidayxx"}
                )
                + "\n",
            ),
        ),
        "tag --undo {}/r.jsonl",
        "expected a line of a record",
    ),
    "an output in a folder that is a file": Attack(
        lambda f: write(f / "out", "mine"),
        "predict {}/model {}/photos -o {}/out",
        "must be a new or an empty folder",
    ),
}


def snapshot(folder: Path) -> dict[str, str]:
    """Return digests of the regular files in a folder, by their names."""
    return {
        str(path.relative_to(folder)): hashlib.blake2b(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 2**28
    }


def run_attack(attack: Attack, folder: Path) -> dict[str, Any]:
    """Run a command on the files of an attack; return how it ended."""
    attack.make(folder)
    before = snapshot(folder)
    usage = folder.with_name("usage")
    command = [*PROGRAM, *attack.command.replace("{}", str(folder)).split()]
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", MEASURE, usage, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        check=True,
    )
    said, after = done.stdout.decode(errors="replace"), snapshot(folder)
    code, kibibytes = json.loads(usage.read_text())
    found = {
        "code": code,
        "seconds": round(time.perf_counter() - start, 1),
        "mib": round(kibibytes / 1024),
    }
    lost = [name for name, digest in before.items() if after.get(name) != digest]
    good = (
        found["code"] == attack.code
        and attack.says in said
        and "Traceback" not in said
        and "a bug in" not in said
        and not lost
        and found["seconds"] < MAX_SECONDS
        and found["mib"] < MAX_MIB
    )
    return (
        {**found, "good": good}
        if good
        else {**found, "good": False, "lost": lost, "said": said[-500:]}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="of attacks that hold")
    parser.add_argument("--connections", type=int, default=200, help="of attacks that hold")
    parser.add_argument("--only", choices=["commands", "server"], help="keep the other results")
    given = parser.parse_args()
    found = load("attacks") if given.only else {"commands": {}}
    commands = found["commands"]
    with tempfile.TemporaryDirectory() as name:
        original = Path(name, "original")
        small_model().save(original / MODEL)
        for number, scene in enumerate(small_scenes()[:3]):
            write(original / PHOTOS / f"{'abc'[number]}.jpg", encode(scene.image, "JPEG"))
        for kind, attack in ATTACKS.items() if given.only != "server" else ():
            folder = shutil.copytree(original, Path(name, "attacked"))
            commands[kind] = run_attack(attack, folder)
            print(kind, json.dumps(commands[kind]), flush=True)
            shutil.rmtree(folder)
        if given.only != "commands":
            found["server"] = attack_server(original / MODEL, given.connections, given.seconds)
    server = found["server"]
    write_results("attacks", {"commands": commands, "server": server})
    if not all(each["good"] for each in (*commands.values(), *server["kinds"].values())):
        sys.exit("Some attacks succeeded; see benchmarks/results/attacks.json.")


if __name__ == "__main__":
    main()
