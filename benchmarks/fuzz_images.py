"""Fuzz the reading of photographs with damaged and hostile image files.

python -m benchmarks.fuzz_images [--cases 3000] [--full] [--seed 0]

Small files of every format are truncated, spliced and changed in bytes (`fuzz_serve.mutate`), and
described as a photograph in training is. A case must end with visual words or with an
`UnreadableImage` that names the file, within `MAX_SECONDS` of CPU time; all cases run in a process
that may use `MAX_BYTES` more memory than it has at first. Then files come that were made to do
harm: bombs of pixels, formats that start other programs, loops. `--full` runs 100,000 cases.
`make fuzz-serve` uploads such images to a server.
"""

import argparse
import io
import json
import resource
import struct
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.common import write_results
from benchmarks.fuzz_serve import mutate, originals
from supdocnade.errors import UnreadableImage
from supdocnade.images.decode import DecodeConfig
from supdocnade.images.dense_sift import DenseSIFTConfig
from supdocnade.visual_words.describer import SIFTDescriber
from supdocnade.visual_words.encoder import Codebook, ImageEncoder, Regions

MAX_SECONDS = 5.0
"""CPU time of a case; the largest images that are read have 100 megapixels."""
MAX_BYTES = 2**30
N_WORDS = 5


def small_photograph() -> Image.Image:
    """Return a picture with gradients and edges."""
    y, x = np.mgrid[:60, :80]
    return Image.fromarray(np.stack([3 * x, 4 * y, (x * y) % 256], axis=-1).astype(np.uint8))


def small_encoder() -> ImageEncoder:
    """Return an encoder with a random codebook."""
    centres = np.random.default_rng(0).random((N_WORDS, 128)).astype(np.float32)
    return ImageEncoder(
        describer=SIFTDescriber(decoding=DecodeConfig(max_side=64), sift=DenseSIFTConfig()),
        codebook=Codebook(centres),
        regions=Regions.of((2, 2)),
    )


def hostile_files() -> dict[str, bytes]:
    """Return files that were made to do harm. All of them must be refused."""
    page = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(x) (r) file\n"
    tiff = b"II*\x00\x08\x00\x00\x00"
    loop = struct.pack("<H", 1) + struct.pack("<HHLL", 256, 4, 1, 9) + struct.pack("<L", 8)
    gif = io.BytesIO()
    Image.new("P", (1, 1)).save(gif, "GIF")
    wide = bytearray(gif.getvalue())
    wide[6:10] = b"\xff\xff\xff\xff"
    return {
        "eps": page,
        "binary eps": b"\xc5\xd0\xd3\xc6" + bytes(28) + page,
        "pdf": b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog >>\nendobj\n",
        "svg": b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
        "svg after xml": b'<?xml version="1.0"?>\n<!DOCTYPE svg [<!ENTITY a "a">]>\n<svg>&a;</svg>',
        "imagemagick": b"push graphic-context\nimage over 0,0 0,0 'ephemeral:/tmp/x'\n",
        "wmf": b"\xd7\xcd\xc6\x9a" + bytes(60),
        "zip": b"PK\x03\x04" + bytes(60),
        "png bomb": png_header(60_000, 60_000),
        "png of no height": png_header(10, 0),
        "png of many pixels": png_header(2**31 - 1, 2**31 - 1),
        "png of one pixel column": png_header(1, 2**31 - 1),
        "tiff loop": tiff + loop,
        "tiff of many tags": tiff + struct.pack("<H", 65_535) + bytes(12 * 65_535),
        "gif of many pixels": bytes(wide),
        "bmp of many pixels": b"BM" + bytes(12) + struct.pack("<LllHH", 40, 10**9, 10**9, 1, 24),
        "nothing": b"",
        "one byte": b"\xff",
    }


def png_chunk(kind: bytes, body: bytes) -> bytes:
    """Return a part of a PNG file."""
    check = struct.pack(">L", zlib.crc32(kind + body))
    return struct.pack(">L", len(body)) + kind + body + check


def png_header(width: int, height: int) -> bytes:
    """Return a PNG file of some size that has no more than a few bytes of pixels."""
    header = struct.pack(">LLBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = png_chunk(b"IDAT", zlib.compress(bytes(1000))) + png_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + pixels


def read_case(encoder: ImageEncoder, content: bytes) -> str:
    """Describe an image file; return the result in a word, and the error if it is a fault."""
    start = time.process_time()
    try:
        words = encoder.encode(content, "x.jpg").ids
        sound = len(words) > 0 and 0 <= words.min() <= words.max() < 4 * N_WORDS
        result = "read" if sound else "fault: words out of range"
    except UnreadableImage as error:
        sentence = str(error)
        is_clear = sentence.startswith("x.jpg ") and sentence.endswith(".")
        result = "refused" if is_clear else f"fault: {sentence}"
    except Exception as error:
        result = f"fault: {type(error).__name__}: {error}"
    seconds = time.process_time() - start
    return result if seconds < MAX_SECONDS else f"fault: {seconds:.1f} s"


def limit_memory() -> None:
    """Let this process use `MAX_BYTES` more than it does."""
    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file)
    most = int(status["VmData"].split()[0]) * 1024 + MAX_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def damaged_files(count: int, seed: int) -> Iterator[bytes]:
    """Yield damaged files, reproducible from the seed."""
    rng, files = np.random.default_rng(seed), originals(small_photograph())
    for _ in range(count):
        yield mutate(files[int(rng.integers(len(files)))], rng, files)


def run_cases(count: int, seed: int) -> dict[str, Any]:
    """Read damaged and hostile files in this process, whose memory is limited."""
    encoder = small_encoder()
    encoder.encode(np.asarray(small_photograph()))  # Compiled before memory is counted.
    limit_memory()
    found: Counter[str] = Counter()
    faults, hostile, slowest = {}, {}, 0.0
    for number, content in enumerate(damaged_files(count, seed)):
        start = time.process_time()
        result = read_case(encoder, content)
        slowest = max(slowest, time.process_time() - start)
        found[result.partition(":")[0]] += 1
        if result.startswith("fault"):
            faults[str(number)] = result
    for name, content in hostile_files().items():
        hostile[name] = read_case(encoder, content)
        if hostile[name] != "refused":
            faults[name] = hostile[name]
    return {
        "cases": count,
        **found,
        "slowest_ms": 1e3 * slowest,
        "hostile": hostile,
        "faults": faults,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--full", action="store_true", help="100,000 cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limited", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.limited:
        print(json.dumps(run_cases(given.cases, given.seed)))
        return
    count = 100_000 if given.full else given.cases
    command = [sys.executable, "-m", "benchmarks.fuzz_images", "--limited"]
    command += ["--cases", str(count), "--seed", str(given.seed)]
    # Libraries of Pillow print their own messages.
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if done.returncode:
        sys.exit(f"the process that read the images ended with {done.returncode}.")
    results = json.loads(done.stdout)
    print(json.dumps(results, indent=1))
    write_results("fuzz_images", {"seed": given.seed, **results})
    if results["faults"]:
        sys.exit("Some cases are faults; see benchmarks/results/fuzz_images.json.")


if __name__ == "__main__":
    main()
