"""The server under load, by Apache's `ab`; and what it takes beyond bare predictions.

python -m benchmarks.bench_serve [--seconds 10] [--endurance 300]

Requests of one and of eight images come from 1, 20 and 100 clients; those that are refused (503)
are counted apart, and with 100 clients timed apart, too, by clients of our own (`clients`), for
another so many seconds. The server's time for an image, at eight a request, is compared with that
of encoding and predicting eight images at once in a loop, on as many cores, alternately, so that a
slow moment of the machine hits both. Then 20 clients ask for five minutes. Debian: apache2-utils.
"""

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from joblib import effective_n_jobs

from benchmarks.bench_encoding import photographs
from benchmarks.clients import ask
from benchmarks.common import print_table, write_results
from benchmarks.serving import MEDIA_TYPE, Running, multipart, product_model, running
from supdocnade import SceneModel
from supdocnade.likelihood.cpu.threads import limit_threads
from supdocnade.scene.prediction import answer

MANY = 100
CLIENTS, IMAGES = (1, 20, MANY), (1, 8)
ROUNDS, REPEATS = 9, 9
WARM_UP = 20.0
"""Seconds of load before memory is looked at for the first time."""


def load(server: Running, body: Path, clients: int, seconds: float) -> dict[str, Any]:
    """Ask for some seconds; return what came of it."""
    done = subprocess.run(
        [
            *("ab", "-q", "-l", "-r", "-s", "60", "-t", str(seconds), "-n", "10000000"),
            *("-c", str(clients), "-p", str(body), "-T", MEDIA_TYPE, f"{server.url}v1/predict"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )

    def figure(pattern: str, default: str = "0") -> float:
        found = re.search(pattern, done.stdout)
        return float(found[1] if found else default)

    return {
        "requests": int(figure(r"Complete requests:\s+(\d+)")),
        "failed": int(figure(r"Failed requests:\s+(\d+)")),
        "refused": int(figure(r"Non-2xx responses:\s+(\d+)")),
        "requests_per_second": figure(r"Requests per second:\s+([\d.]+)"),
        "p50_ms": figure(r"\n\s+50%\s+(\d+)"),
        "p99_ms": figure(r"\n\s+99%\s+(\d+)"),
        "longest_ms": figure(r"\n\s+100%\s+(\d+)"),
    }


def measure(server: Running, body: Path, clients: int, seconds: float) -> dict[str, Any]:
    """Ask by `ab`; and where some may be refused, by clients that know which."""
    found = load(server, body, clients, seconds)
    if clients == MANY:
        found["apart"] = ask(
            f"{server.url}v1/predict",
            body.read_bytes(),
            MEDIA_TYPE,
            clients=clients,
            seconds=seconds,
        )
    return found


def bare(model: SceneModel, contents: list[bytes], threads: int) -> float:
    """Return the CPU time of an image in loops over eight of them, on some threads at once."""
    fitted = model.fitted_

    def loop(_: int) -> None:
        with limit_threads(1):
            for _ in range(REPEATS):
                words = [fitted.bag.encoder_.encode(content).ids for content in contents]
                list(answer(fitted, [("", each) for each in words]))

    began = time.process_time()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(loop, range(threads)))
    return (time.process_time() - began) / (threads * REPEATS * len(contents))


def served(server: Running, body: Path, clients: int) -> float:
    """Return the server's CPU time for an image at eight a request."""
    before = server.cpu_seconds()
    done = load(server, body, clients, 2)
    assert done["failed"] + done["refused"] == 0, done
    n_images: int = 8 * done["requests"]
    return (server.cpu_seconds() - before) / n_images


def compare(folder: Path, model: SceneModel, contents: list[bytes], body: Path) -> dict[str, float]:
    """Return the server's time over the bare one: on one core each, and on all cores each.

    Two threads take more time each than one alone, since cores share caches and more; so like is
    compared with like.
    """
    cores = effective_n_jobs(-1)
    times: dict[str, list[float]] = {}
    with running(folder, "--jobs", 1) as one, running(folder) as all_cores:
        measures: dict[str, Callable[[], float]] = {
            "bare, one core": lambda: bare(model, contents, 1),
            "served, one core": lambda: served(one, body, 4),
            "bare, all cores": lambda: bare(model, contents, cores),
            "served, all cores": lambda: served(all_cores, body, 8),
            "served, all cores, one client": lambda: served(all_cores, body, 1),
        }
        for measure in measures.values():
            measure()
        for _ in range(ROUNDS):
            for name, measure in measures.items():
                times.setdefault(name, []).append(measure())
    middle = {name: statistics.median(values) for name, values in times.items()}
    return {
        **{f"ms_per_image, {name}": 1e3 * value for name, value in middle.items()},
        "served_over_bare_one_core": middle["served, one core"] / middle["bare, one core"],
        "served_over_bare_all_cores": middle["served, all cores"] / middle["bare, all cores"],
        "served_over_bare_one_client": middle["served, all cores, one client"]
        / middle["bare, all cores"],
    }


def endure(server: Running, body: Path, seconds: float) -> dict[str, Any]:
    """Let 20 clients ask for long; return what came of it and how memory grew."""
    load(server, body, 20, WARM_UP)
    before = server.resident_mib()
    done = load(server, body, 20, seconds)
    return {**done, "seconds": seconds, "growth_mib": server.resident_mib() - before}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=10)
    options.add_argument("--endurance", type=float, default=300)
    given = options.parse_args()
    if shutil.which("ab") is None:
        sys.exit("this needs ab (Debian: apt-get install apache2-utils).")
    with TemporaryDirectory() as name:
        folder = Path(name)
        kind, paths = photographs(folder / "photos")
        model = product_model(paths)
        model.save(folder / "model")
        contents = [path.read_bytes() for path in paths[:: len(paths) // 8][:8]]
        bodies = {n: folder / f"body-{n}" for n in IMAGES}
        for n, body in bodies.items():
            body.write_bytes(multipart(contents[:n]))
        cost = compare(folder / "model", model, contents, bodies[8])
        with running(folder / "model") as server:
            grid = {
                f"{n} images, {clients} clients": measure(server, bodies[n], clients, given.seconds)
                for n in IMAGES
                for clients in CLIENTS
            }
            long = endure(server, bodies[1], given.endurance)
    print_table(
        f"{kind}, {given.seconds:g} seconds each",
        ["what", "requests/s", "p50 ms", "p99 ms", "longest", "refused", "failed", "of"],
        [
            [
                what,
                *(f"{each[key]:.1f}" for key in ("requests_per_second", "p50_ms", "p99_ms")),
                f"{each['longest_ms']:.0f}",
                *(str(each[key]) for key in ("refused", "failed", "requests")),
            ]
            for what, each in {**grid, "20 clients for long": long}.items()
        ],
    )
    for what, each in grid.items():
        if "apart" in each:
            print(f"{what}, answered and refused apart: {each['apart']}")
    print({name: round(value, 3) for name, value in cost.items()})
    print(f"memory grew by {long['growth_mib']:.1f} MiB in {given.endurance:g} seconds")
    write_results("serving", {"images": kind, **cost, "load": grid, "endurance": long})


if __name__ == "__main__":
    main()
