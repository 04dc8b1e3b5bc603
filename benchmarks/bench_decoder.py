"""Measure what decoding in a process of its own costs, as the server decodes uploads.

python -m benchmarks.bench_decoder [--repeats 60]

Photographs of several sizes are decoded in this process and in another one, alternately. The cost
is the median difference of the CPU time of both processes together.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from benchmarks.common import write_results
from supdocnade.images import decoder
from supdocnade.images.decode import DecodeConfig, decode, encode
from supdocnade.visual_words.describer import MAX_NETWORK_SIDE

CONFIG = DecodeConfig(max_side=MAX_NETWORK_SIDE, upscale=False, color=True)
"""That of a network, the default."""


def photograph(side: int) -> bytes:
    """Return a JPEG file of noise in squares of eight pixels."""
    squares = np.random.default_rng(0).integers(0, 255, (side * 3 // 4 // 8, side // 8, 3))
    return encode(np.kron(squares, np.ones((8, 8, 1))).astype(np.uint8), "JPEG", quality=90)


def cpu_seconds() -> float:
    """Return the CPU time of this thread, and of the process that decodes."""
    times = time.thread_time()
    for each in decoder._idle:
        fields = Path(f"/proc/{each._process.pid}/schedstat").read_text().split()
        times += int(fields[0]) / 1e9
    return times


def measure(content: bytes, repeats: int) -> float:
    """Return the cost for a file in milliseconds."""
    costs = []
    for _ in range(repeats + 1):  # The first one starts the process.
        begin = cpu_seconds()
        decode(content, CONFIG)
        middle = cpu_seconds()
        with decoder.decode_apart():
            decode(content, CONFIG)
        costs.append((cpu_seconds() - middle) - (middle - begin))
    return float(1e3 * np.median(costs[1:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=60)
    given = parser.parse_args()
    cost = {side: round(measure(photograph(side), given.repeats), 2) for side in (256, 640, 1600)}
    print(json.dumps(cost))
    write_results("decoding", {"repeats": given.repeats, "cost_ms": cost})


if __name__ == "__main__":
    main()
