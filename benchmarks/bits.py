"""Compare digests of the results of small models and of commands with those committed.

    python -m benchmarks.bits                   # write benchmarks/results/bits.json
    python -m benchmarks.bits --check           # print what differs from it; exit code 1 if any
    python -m benchmarks.bits --threads 1 2 3   # also check that threads have no effect

`benchmarks.bits_models` trains the models and runs the commands. Every array of a file, every entry
of a JSON text, every field of JSON output, and every other text has a digest and a name of its own,
so that a setting that is removed is one line. Short values stand for themselves. What is meant to
vary is left out: paths, times and versions.

With `--threads`, everything runs once for each number N, in a process of its own with
OMP_NUM_THREADS=N and --jobs N. One run takes a minute on two cores, and half a minute more when
kernels must be compiled. Other processors and versions of packages may round differently: the file
names those that it was written with, and `--check` says so if they are others here.
"""

import argparse
import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from safetensors import SafetensorError
from safetensors.numpy import load

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "bits.json"
PACKAGES = ("numba", "numpy", "onnxruntime", "pillow", "scikit-learn", "scipy", "torch")
VARYING = re.compile(r"seconds|versions?|created|date|time|n_jobs|digest")
"""Names of entries that vary, or change with any other."""
SCRUBBED = (
    (r"(?m)^(\[\d+:\d\d:\d\d\]|features:) .*\n", ""),
    (r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?\S*)?", "DATE"),
    (r"\d+(\.\d+)? (s|seconds|minutes?)\b", "TIME"),
    (r"supdocnade \d+\.\d+\S*", "VERSION"),
)
"""What is meant to vary in texts, and what stands for it. A progress report is left out."""

Digests = dict[str, dict[str, str]]


def digest(content: bytes) -> str:
    """Return a short digest."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def scrub(text: str) -> str:
    """Replace what is meant to vary."""
    text = text.replace(str(Path.cwd()), "WORK")
    for pattern, replacement in SCRUBBED:
        text = re.sub(pattern, replacement, text)
    return text


def digest_text(text: str) -> str:
    """Return a digest of a text without what is meant to vary."""
    return digest(scrub(text).encode())


def digest_values(value: Any, name: str = "") -> dict[str, str]:
    """Return digests of the entries of a JSON value by name; short ones stand for themselves.

    A list of objects counts as an object of lists.
    """
    if isinstance(value, str) and value.startswith("{"):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        keys = dict.fromkeys(key for each in value for key in each)
        value = {key: [each.get(key) for each in value] for key in keys}
    if isinstance(value, dict) and value:
        found: dict[str, str] = {}
        for key, each in value.items():
            if not VARYING.fullmatch(key):
                found |= digest_values(each, f"{name}.{key}" if name else key)
        return found
    text = scrub(json.dumps(value))
    return {name: text if len(text) <= 32 else digest(text.encode())}


def digest_array(array: NDArray[Any]) -> str:
    """Return a digest of type, shape and contents of an array."""
    content = array.tobytes().replace(str(Path.cwd()).encode(), b"WORK")
    return f"{array.dtype}{list(array.shape)} {digest(content)}"


def digest_file(path: Path) -> dict[str, str]:
    """Return the digests of the parts of a file by name."""
    content = path.read_bytes()
    with contextlib.suppress(SafetensorError):
        arrays = load(content)
        _, _, text = arrays.pop("supdocnade").tobytes().decode().partition(" ")  # A digest.
        found = {f"array {name}": digest_array(array) for name, array in arrays.items()}
        return found | digest_output(text, "supdocnade ")
    if path.suffix == ".sqlite":
        return digest_database(path)
    if path.suffix in (".png", ".jpg", ".webp"):
        return {"pixels": digest_array(np.asarray(Image.open(path)))}
    try:
        return digest_output(content.decode())
    except UnicodeDecodeError:
        return {"bytes": digest(content)}


def digest_database(path: Path) -> dict[str, str]:
    """Return the digests of the columns of the tables of a database, but for keys to sort by.

    Those begin with the path of a folder.
    """
    found = {}
    with contextlib.closing(sqlite3.connect(path)) as connection:
        query = "SELECT name FROM sqlite_schema WHERE type = 'table'"
        for (table,) in connection.execute(query).fetchall():
            rows = connection.execute(f"SELECT * FROM {table}")
            names = [each[0] for each in rows.description]
            for name, *values in zip(names, *rows.fetchall(), strict=True):
                if name != "sort_key":
                    found[f"{table}.{name}"] = digest_text(repr(values))
    return found


def digest_output(text: str, prefix: str = "") -> dict[str, str]:
    """Return the digests of a text: of each entry if it is JSON or lines of JSON."""
    for parse in (json.loads, _parse_lines) if text else ():
        with contextlib.suppress(ValueError):
            found = digest_values(parse(text))
            return {f"{prefix}{name}": value for name, value in found.items()}
    return {f"{prefix}text": digest_text(text)}


def _parse_lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def run_once(threads: int) -> Digests:
    """Run everything in a process of its own with a number of threads."""
    with tempfile.TemporaryDirectory(prefix="bits-") as folder:
        work = Path(folder).resolve()
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": str(threads),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
            "SUPDOCNADE_NETWORKS": str(work / "networks"),
            "ORT_DISABLE_TELEMETRY": "1",
            "COLUMNS": "100",
            "NO_COLOR": "1",
        }
        command = [sys.executable, "-m", "benchmarks.bits_models", str(threads)]
        started = time.perf_counter()
        subprocess.run(command, check=True, cwd=work, env=environment)
        print(f"{threads} threads: {time.perf_counter() - started:.0f} s", file=sys.stderr)
        digests: Digests = json.loads((work / "bits.json").read_text())
    return digests


def machine() -> dict[str, str]:
    """Return the processor and the versions that results may depend on."""
    from benchmarks.common import cpu_name

    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    cpu = cpu_name().rpartition(" × ")[2]
    return {"cpu": cpu, "python": platform.python_version(), **versions}


def compare(expected: Digests, received: Digests) -> list[str]:
    """Return a line for every part that differs."""
    lines = []
    for name in sorted({*expected, *received}):
        before, now = expected.get(name), received.get(name)
        if before is None or now is None:
            lines.append(f"{'new' if before is None else 'gone'}: {name}")
            continue
        for part in sorted({*before, *now}):
            if before.get(part) != now.get(part):
                change = f"{before.get(part, 'absent')} -> {now.get(part, 'absent')}"
                lines.append(f"{name}: {part}: {change}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the committed file")
    parser.add_argument(
        "--threads", type=int, nargs="+", default=[2], metavar="N", help="default: 2"
    )
    options = parser.parse_args()
    first, *others = (run_once(threads) for threads in options.threads)
    here = machine()
    for threads, other in zip(options.threads[1:], others, strict=True):
        if lines := compare(first, other):
            print("\n".join(lines))
            sys.exit(f"{len(lines)} differ between {options.threads[0]} and {threads} threads.")
    if options.check:
        return check(first, here)
    written = {"machine": here, "digests": first}
    RESULTS.write_text(json.dumps(written, indent=1, sort_keys=True) + "\n")
    print(f"written to {RESULTS.relative_to(ROOT)}")
    return 0


def check(digests: Digests, here: dict[str, str]) -> int:
    """Print what differs from the committed file, and return the exit code."""
    written = json.loads(RESULTS.read_text())
    lines = compare(written["digests"], digests)
    print("\n".join([*lines, f"{len(lines)} differ."]))
    there = written["machine"]
    if lines and there != here:
        changes = [
            f"{key} {there.get(key)} -> {here[key]}" for key in here if here[key] != there.get(key)
        ]
        print(
            f"The file was written on another machine ({', '.join(changes)}), where results may be"
        )
        print("rounded differently. Write it here before your change, and compare with that.")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
