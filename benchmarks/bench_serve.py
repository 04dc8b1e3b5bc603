"""Benchmark the server under load, and against predictions in a plain loop.

python -m benchmarks.bench_serve [--seconds 10] [--endurance 300]

Apache's `ab` sends requests of one and of eight images from 1, 20 and 100 clients. Refused requests
(503) are counted; with 100 clients, `benchmarks.clients` runs for as long again and times accepted
requests apart from refused ones. The CPU time per image of the server, at eight images per request,
is compared with that of encoding and predicting batches of eight in a loop on as many cores; the
two alternate, so that a slow moment of the machine affects both. Finally 20 clients send requests
for five minutes. Debian: apache2-utils.
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
from benchmarks.clients import generate_load
from benchmarks.common import print_table, write_results
from benchmarks.serving import MEDIA_TYPE, ServerProcess, multipart, product_model, run_server
from supdocnade import SceneModel
from supdocnade.scene.prediction import predict_words
from supdocnade.threads import limit_threads

MAX_CLIENTS = 100
CLIENTS, IMAGES = (1, 20, MAX_CLIENTS), (1, 8)
ROUNDS, REPEATS = 9, 9
WARM_UP_SECONDS = 20.0
"""Seconds of load before memory is first measured."""


def run_ab(server: ServerProcess, body: Path, clients: int, seconds: float) -> dict[str, Any]:
    """Send requests with `ab` for some seconds; return counts and times."""
    done = subprocess.run(
        [
            *("ab", "-q", "-l", "-r", "-s", "60", "-t", str(seconds), "-n", "10000000"),
            *("-c", str(clients), "-p", str(body), "-T", MEDIA_TYPE, f"{server.url}v1/predict"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )

    def figure(pattern: str) -> float:
        match = re.search(pattern, done.stdout)
        return float(match[1] if match else 0)

    return {
        "requests": int(figure(r"Complete requests:\s+(\d+)")),
        "failed": int(figure(r"Failed requests:\s+(\d+)")),
        "refused": int(figure(r"Non-2xx responses:\s+(\d+)")),
        "requests_per_second": figure(r"Requests per second:\s+([\d.]+)"),
        "p50_ms": figure(r"\n\s+50%\s+(\d+)"),
        "p99_ms": figure(r"\n\s+99%\s+(\d+)"),
        "longest_ms": figure(r"\n\s+100%\s+(\d+)"),
    }


def measure(server: ServerProcess, body: Path, clients: int, seconds: float) -> dict[str, Any]:
    """Measure with `ab` and, where requests may be refused, with `generate_load`."""
    found = run_ab(server, body, clients, seconds)
    if clients == MAX_CLIENTS:
        found["apart"] = generate_load(
            f"{server.url}v1/predict",
            body.read_bytes(),
            MEDIA_TYPE,
            clients=clients,
            seconds=seconds,
        )
    return found


def loop_seconds(model: SceneModel, contents: list[bytes], threads: int) -> float:
    """Return the CPU time per image of a loop over batches of eight, run on several threads."""
    fitted = model.fitted_

    def loop(_: int) -> None:
        with limit_threads(1):
            for _ in range(REPEATS):
                words = [fitted.encoder.encode(each).words for each in contents]
                list(predict_words(fitted, [("", each) for each in words]))

    start = time.process_time()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(loop, range(threads)))
    return (time.process_time() - start) / (threads * REPEATS * len(contents))


def server_seconds(server: ServerProcess, body: Path, clients: int) -> float:
    """Return the CPU time per image of the server, at eight images per request."""
    before = server.cpu_seconds()
    done = run_ab(server, body, clients, 2)
    assert done["failed"] + done["refused"] == 0, done
    n_images: int = 8 * done["requests"]
    return (server.cpu_seconds() - before) / n_images


def compare(folder: Path, model: SceneModel, contents: list[bytes], body: Path) -> dict[str, float]:
    """Return the time of the server relative to the loop, on one core and on all cores.

    Both use the same number of cores, since threads that run together slow each other down.
    """
    cores = effective_n_jobs(-1)
    times: dict[str, list[float]] = {}
    with run_server(folder, "--jobs", 1) as one, run_server(folder) as all_cores:
        measures: dict[str, Callable[[], float]] = {
            "bare, one core": lambda: loop_seconds(model, contents, 1),
            "served, one core": lambda: server_seconds(one, body, 4),
            "bare, all cores": lambda: loop_seconds(model, contents, cores),
            "served, all cores": lambda: server_seconds(all_cores, body, 8),
            "served, all cores, one client": lambda: server_seconds(all_cores, body, 1),
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


def measure_endurance(server: ServerProcess, body: Path, seconds: float) -> dict[str, Any]:
    """Send requests from 20 clients for long; return counts, times and memory growth."""
    run_ab(server, body, 20, WARM_UP_SECONDS)
    before = server.resident_mib()
    done = run_ab(server, body, 20, seconds)
    return {**done, "seconds": seconds, "growth_mib": server.resident_mib() - before}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=10)
    options.add_argument("--endurance", type=float, default=300)
    given = options.parse_args()
    if shutil.which("ab") is None:
        sys.exit("this benchmark needs ab (Debian: apt-get install apache2-utils).")
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
        with run_server(folder / "model") as server:
            grid = {
                f"{n} images, {clients} clients": measure(server, bodies[n], clients, given.seconds)
                for n in IMAGES
                for clients in CLIENTS
            }
            long = measure_endurance(server, bodies[1], given.endurance)
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
            print(f"{what}, accepted and refused requests apart: {each['apart']}")
    print({name: round(value, 3) for name, value in cost.items()})
    print(f"memory grew by {long['growth_mib']:.1f} MiB in {given.endurance:g} seconds")
    write_results("serving", {"images": kind, **cost, "load": grid, "endurance": long})


if __name__ == "__main__":
    main()
