"""The server against images that were tampered with, and against its own description.

python -m benchmarks.fuzz_serve [--images 3000] [--examples 100]

Images of every format are cut, spliced and changed in bytes, and sent eight a request; then
schemathesis makes requests from /openapi.json. Every answer must be one that is documented and no
5xx but overload, the process must be there in the end. The images are sent twice, and memory must
not grow the second time.
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
from benchmarks.serving import MEDIA_TYPE, Running, multipart, product_model, running
from supdocnade.images.decode import FORMATS

PER_REQUEST, AT_ONCE = 8, 4
ALLOWED = {200, 422, 503}
NOT_CHECKED = "positive_data_acceptance"
"""A schema cannot say that bytes are an image, so images that it makes up are refused."""


def originals(path: Path) -> list[bytes]:
    """Return a photograph as files of all formats, large and small."""
    with Image.open(path) as image:
        photo = image.convert("RGB")
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
    """Return a file that is damaged in one of many ways."""
    data = bytearray(content)
    way = rng.integers(7)
    at = int(rng.integers(len(data)))
    if way == 0:  # Cut off.
        return bytes(data[:at])
    if way == 1:  # A part gone.
        del data[at : at + int(rng.integers(1, 200))]
    elif way == 2:  # A part of another file.
        other = others[int(rng.integers(len(others)))]
        start = int(rng.integers(len(other)))
        data[at : at + 64] = other[start : start + int(rng.integers(1, 400))]
    elif way == 3:  # Near its beginning, where sizes are.
        for place in rng.integers(0, min(64, len(data)), int(rng.integers(1, 6))):
            data[int(place)] = int(rng.integers(256))
    elif way == 4:  # Extreme numbers.
        value = (b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x7f\xff\xff\xff")[rng.integers(3)]
        data[at : at + 4] = value
    elif way == 5:  # Repeated.
        data[at:at] = data[: at // 2]
    else:  # Anywhere.
        for place in rng.integers(0, len(data), int(rng.integers(1, 40))):
            data[int(place)] = int(rng.integers(256))
    return bytes(data)


def tampered(path: Path, count: int, seed: int) -> Iterator[bytes]:
    """Yield damaged files, the same for the same seed."""
    rng, files = np.random.default_rng(seed), originals(path)
    for _ in range(count):
        yield mutate(files[int(rng.integers(len(files)))], rng, files)


def ask(server: Running, images: list[bytes], route: str) -> int:
    """Send images; return the status, and check that each has its answer."""
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


async def send_all(server: Running, path: Path, count: int) -> Counter[str]:
    """Send damaged images over several connections; return how often each status came."""
    found: Counter[str] = Counter()
    batches = tampered(path, count, seed=0)
    lock = asyncio.Lock()

    async def worker() -> None:
        while True:
            async with lock:
                images = list(islice(batches, PER_REQUEST))
            if not images:
                return
            found[f"predict {await asyncio.to_thread(ask, server, images, 'predict')}"] += 1
            status = await asyncio.to_thread(ask, server, images[:1], "explain")
            found[f"explain {status}"] += 1

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return found


def describe(server: Running, examples: int) -> str:
    """Run schemathesis; return its summary, or end with what it found."""
    done = subprocess.run(
        [
            *(str(Path(sys.executable).with_name("schemathesis")), "run"),
            *(f"{server.url}openapi.json", "--max-examples", str(examples), "--seed", "0"),
            *("--exclude-checks", NOT_CHECKED),
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
    given = options.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        kind, paths = photographs(folder / "photos")
        product_model(paths).save(folder / "model")
        with running(folder / "model") as server:
            statuses = asyncio.run(send_all(server, paths[0], given.images))
            # What the largest of them needed, the process keeps; the second time it needs no more.
            before = server.resident_mib()
            statuses += asyncio.run(send_all(server, paths[0], given.images))
            growth = server.resident_mib() - before
            wrong = {code for code in statuses if int(code.split()[1]) not in ALLOWED}
            summary = describe(server, given.examples)
    print(dict(statuses), f"memory grew by {growth:.1f} MiB;", summary)
    write_results(
        "serving_fuzz",
        {
            "images": kind,
            "n_mutated_images": given.images,
            "n_passes": 2,
            "statuses": dict(sorted(statuses.items())),
            "growth_mib": growth,
            "schemathesis": summary,
        },
    )
    if wrong:
        sys.exit(f"statuses that are not documented: {wrong}.")


if __name__ == "__main__":
    main()
