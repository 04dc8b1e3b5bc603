"""The server under load, by Apache's `ab`; and what it takes beyond bare predictions.

python -m benchmarks.bench_serve [--seconds 10] [--endurance 300]

Requests of one and of eight images come from 1, 20 and 100 clients; those that are refused (503)
are counted apart. The server's time for an image, at eight a request, is compared with that of
encoding and predicting eight images at once in a loop, alternately, so that a slow moment of the
machine hits both. Then 20 clients ask for five minutes. Debian: apache2-utils.
"""

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.bench_encoding import photographs
from benchmarks.common import print_table, write_results
from benchmarks.serving import MEDIA_TYPE, Running, multipart, product_model, running
from supdocnade import SceneModel
from supdocnade.ops.threads import at_most
from supdocnade.scene.predictions import answer

CLIENTS, IMAGES = (1, 20, 100), (1, 8)
ROUNDS = 9
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


def bare(model: SceneModel, contents: list[bytes]) -> float:
    """Return the CPU time of an image in a loop over eight of them."""
    fitted = model.fitted_
    began = time.process_time()
    with at_most(1):
        for _ in range(ROUNDS):
            words = [fitted.bag.encoder_.encode(content).ids for content in contents]
            list(answer(fitted, [("", each) for each in words]))
    return (time.process_time() - began) / (ROUNDS * len(contents))


def served(server: Running, body: Path, clients: int, seconds: float) -> float:
    """Return the server's CPU time for an image at eight a request."""
    before = server.cpu_seconds()
    done = load(server, body, clients, seconds)
    assert done["failed"] + done["refused"] == 0, done
    n_images: int = 8 * done["requests"]
    return (server.cpu_seconds() - before) / n_images


def compare(
    server: Running, model: SceneModel, contents: list[bytes], body: Path
) -> dict[str, float]:
    """Return the server's time over the bare one, with one client and with several."""
    bare(model, contents)
    times: dict[str, list[float]] = {"bare": [], "1 client": [], "8 clients": []}
    for _ in range(ROUNDS):
        times["bare"].append(bare(model, contents))
        times["1 client"].append(served(server, body, 1, 2))
        times["8 clients"].append(served(server, body, 8, 2))
    middle = {name: statistics.median(values) for name, values in times.items()}
    return {
        "bare_ms_per_image": 1e3 * middle["bare"],
        "served_ms_per_image": 1e3 * middle["8 clients"],
        "served_over_bare_1_client": middle["1 client"] / middle["bare"],
        "served_over_bare_8_clients": middle["8 clients"] / middle["bare"],
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
        with running(folder / "model") as server:
            cost = compare(server, model, contents, bodies[8])
            grid = {
                f"{n} images, {clients} clients": load(server, bodies[n], clients, given.seconds)
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
    print({name: round(value, 3) for name, value in cost.items()})
    print(f"memory grew by {long['growth_mib']:.1f} MiB in {given.endurance:g} seconds")
    write_results("serving", {"images": kind, **cost, "load": grid, "endurance": long})


if __name__ == "__main__":
    main()
