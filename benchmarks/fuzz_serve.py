"""Fuzz the server with damaged images and with requests made from its OpenAPI description.

python -m benchmarks.fuzz_serve [--images 3000] [--examples 100] [--full]

Images of every format are truncated, spliced and changed in bytes, and sent eight per request; then
schemathesis makes requests from /openapi.json. Every response must be documented and not a 5xx
other than overload, and the process must survive. There are two passes with other images; the
memory growth of the second one is reported. `--full` sends 100,000 images and about 50,000 made
requests.
"""

import argparse
import asyncio
import io
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
from PIL import Image

from benchmarks.bench_encoding import photographs
from benchmarks.common import write_results
from benchmarks.serving import MEDIA_TYPE, ServerProcess, multipart, product_model, run_server
from supdocnade.images.decode import FORMATS

IMAGES_PER_REQUEST, N_CONNECTIONS = 8, 4
ALLOWED = {200, 422, 503}
EXCLUDED_CHECK = "positive_data_acceptance"
"""A schema cannot express that bytes are an image, so the server refuses generated images."""


def originals(photo: Image.Image) -> list[bytes]:
    """Return a photograph as files of all formats, in two sizes, and of several modes.

    Parameters
    ----------
    photo : in mode RGB.
    """
    found = []
    for kind in FORMATS:
        for size in (photo.size, (40, 30)):
            buffer = io.BytesIO()
            options: dict[str, Any] = {"compression": "tiff_lzw"} if kind == "TIFF" else {}
            photo.resize(size).save(buffer, kind, **options)
            found.append(buffer.getvalue())
    for mode in ("L", "P", "1", "RGBA", "I;16"):
        buffer = io.BytesIO()
        photo.convert("L" if mode == "I;16" else mode).convert(mode).save(buffer, "PNG")
        found.append(buffer.getvalue())
    return found


def mutate(content: bytes, rng: np.random.Generator, others: list[bytes]) -> bytes:
    """Return a file damaged in one of seven ways."""
    data = bytearray(content)
    way = rng.integers(7)
    at = int(rng.integers(len(data)))
    if way == 0:  # Truncate.
        return bytes(data[:at])
    if way == 1:  # Delete a part.
        del data[at : at + int(rng.integers(1, 200))]
    elif way == 2:  # Insert a part of another file.
        other = others[int(rng.integers(len(others)))]
        start = int(rng.integers(len(other)))
        data[at : at + 64] = other[start : start + int(rng.integers(1, 400))]
    elif way == 3:  # Change bytes of the header, which holds sizes.
        for place in rng.integers(0, min(64, len(data)), int(rng.integers(1, 6))):
            data[int(place)] = int(rng.integers(256))
    elif way == 4:  # Write an extreme number.
        value = (b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x7f\xff\xff\xff")[rng.integers(3)]
        data[at : at + 4] = value
    elif way == 5:  # Repeat a part.
        data[at:at] = data[: at // 2]
    else:  # Change bytes anywhere.
        for place in rng.integers(0, len(data), int(rng.integers(1, 40))):
            data[int(place)] = int(rng.integers(256))
    return bytes(data)


def damaged_images(path: Path, count: int, seed: int) -> Iterator[bytes]:
    """Yield damaged files, reproducible from the seed."""
    with Image.open(path) as image:
        files = originals(image.convert("RGB"))
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield mutate(files[int(rng.integers(len(files)))], rng, files)


def post_images(server: ServerProcess, images: list[bytes], route: str) -> int:
    """Send images and check that each has a result; return the status."""
    request = Request(
        f"{server.url}v1/{route}", multipart(images), {"Content-Type": MEDIA_TYPE}, method="POST"
    )
    try:
        with urlopen(request, timeout=120) as response:
            body = json.load(response)
            if route == "predict":
                assert len(body["predictions"]) + len(body["errors"]) == len(images)
            return int(response.status)
    except HTTPError as error:
        return int(json.load(error)["status"])


async def send_all(server: ServerProcess, path: Path, count: int, seed: int) -> Counter[str]:
    """Send damaged images over several connections; return the number of each status."""
    found: Counter[str] = Counter()
    batches = damaged_images(path, count, seed)
    lock = asyncio.Lock()

    async def worker() -> None:
        while True:
            async with lock:
                images = list(islice(batches, IMAGES_PER_REQUEST))
            if not images:
                return
            found[f"predict {await asyncio.to_thread(post_images, server, images, 'predict')}"] += 1
            status = await asyncio.to_thread(post_images, server, images[:1], "explain")
            found[f"explain {status}"] += 1

    await asyncio.gather(*(worker() for _ in range(N_CONNECTIONS)))
    return found


def run_schemathesis(server: ServerProcess, examples: int) -> str:
    """Run schemathesis; return its summary, or exit with its report."""
    done = subprocess.run(
        [
            *(str(Path(sys.executable).with_name("schemathesis")), "run"),
            *(f"{server.url}openapi.json", "--max-examples", str(examples), "--seed", "0"),
            *("--exclude-checks", EXCLUDED_CHECK),
        ],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    found = re.search(r"\d+ generated, [^\n]*", done.stdout)
    return found[0] if found else "nothing was generated"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--images", type=int, default=3000)
    options.add_argument("--examples", type=int, default=100)
    options.add_argument("--full", action="store_true", help="2 × 50,000 images, 2,800 examples")
    given = options.parse_args()
    if given.full:
        given.images, given.examples = 50_000, 2800
    with TemporaryDirectory() as name:
        folder = Path(name)
        kind, paths = photographs(folder / "photos")
        product_model(paths).save(folder / "model")
        with run_server(folder / "model") as server:
            statuses = asyncio.run(send_all(server, paths[0], given.images, seed=0))
            # The process keeps the memory of the largest image, so a second pass is measured.
            before = server.resident_mib()
            statuses += asyncio.run(send_all(server, paths[0], given.images, seed=1))
            growth = server.resident_mib() - before
            wrong = {code for code in statuses if int(code.split()[1]) not in ALLOWED}
            summary = run_schemathesis(server, given.examples)
    print(dict(statuses), f"memory grew by {growth:.1f} MiB;", summary)
    write_results(
        "serving_fuzz",
        {
            "images": kind,
            "n_mutated_images": 2 * given.images,
            "statuses": dict(sorted(statuses.items())),
            "growth_mib": growth,
            "schemathesis": summary,
        },
    )
    if wrong:
        sys.exit(f"undocumented statuses: {wrong}.")


if __name__ == "__main__":
    main()
