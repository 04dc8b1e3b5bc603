"""Thousands of damaged image files, read under a limit of memory and of time."""

import json
import subprocess
import sys

SCRIPT = """
import io, json, resource, signal, sys, time
import numpy as np
from PIL import Image
from supdocnade.visual_words.describer import SIFTDescriber
from supdocnade.visual_words.encoder import ImageEncoder
from supdocnade.errors import UnreadableImage
from supdocnade.images.decode import DecodeConfig
from supdocnade.images.dense_sift import DenseSIFTConfig
from supdocnade.images.regions import Regions
from supdocnade.visual_words.codebook import Codebook

rng = np.random.default_rng(0)
encoder = ImageEncoder(
    describer=SIFTDescriber(decoding=DecodeConfig(max_side=64), sift=DenseSIFTConfig()),
    codebook=Codebook(rng.random((5, 128)).astype(np.float32)),
    regions=Regions.of((2, 2)),
)
y, x = np.mgrid[:60, :80]
colors = np.stack([3 * x, 4 * y, x + y], axis=-1).astype(np.uint8)
encoder.encode(colors)  # Compiled before memory is counted.
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
used = int(status["VmData"].split()[0]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (used + 2**30, used + 2**30))
resource.setrlimit(resource.RLIMIT_CPU, (300, 300))
outcomes, slowest = {"read": 0, "refused": 0}, 0.0
for kind in ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF", "AVIF"):
    stream = io.BytesIO()
    Image.fromarray(colors).save(stream, kind)
    content = stream.getvalue()
    for _ in range(400):
        damaged = bytearray(content)
        for place in rng.integers(len(content), size=int(rng.integers(1, 8))):
            damaged[place] = rng.integers(256)
        if rng.random() < 0.3:
            damaged = damaged[: rng.integers(1, len(content))]
        signal.alarm(60)
        started = time.perf_counter()
        try:
            words = encoder.encode(bytes(damaged), "x").ids
        except UnreadableImage as error:
            outcomes["refused"] += 1
            assert str(error).startswith("x"), error
        else:
            outcomes["read"] += 1
            assert len(words) > 0 and words.max() < 20
        slowest = max(slowest, time.perf_counter() - started)
print(json.dumps({**outcomes, "slowest": slowest}))
"""


def test_every_damaged_file_is_read_or_refused_with_a_sentence():
    """In a process of its own: a crash or a hang of a decoder would show, as would its memory."""
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    outcomes = json.loads(run.stdout)
    assert outcomes["read"] + outcomes["refused"] == 2800
    assert min(outcomes["read"], outcomes["refused"]) > 200
