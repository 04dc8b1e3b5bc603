"""Benchmark of encoding on a GPU, from pixels to visual words, compared with one CPU core.

python -m benchmarks.bench_gpu_encoding

Images are drawn scenes of the size of Scene15, already decoded: grey levels in pinned memory for
the GPU, arrays for the CPU. A batch is copied to the GPU, described and assigned to words, and the
words are copied back; one batch is sent while the previous one is computed. The CPU processes one
image after the other as `ImageEncoder` does, without decoding. Both encode the same images, and the
agreement of their words is reported.

Without a GPU, `--device cpu --images 16` tests the program itself and writes no results.
"""

import argparse
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.common import alternate, print_table, write_results
from supdocnade import BagOfVisualWords
from supdocnade.demo import drawn_scenes
from supdocnade.devices import choose_device
from supdocnade.images.decode import decode
from supdocnade.images.dense_sift_torch import describe_many
from supdocnade.visual_words.describer import SIFTDescriber
from supdocnade.visual_words.encoder import ImageEncoder
from supdocnade.visual_words.gpu import BatchEncoder, PendingWords

HEIGHT, WIDTH = 250, 300
BATCHES = 8
"""Consecutive batches per round, so that filling and emptying the pipeline matters little."""

ON_CPU = 32
"""Images per round on the CPU."""

SETTINGS: dict[str, dict[str, Any]] = {
    "240 words, patches of 16": {"n_words": 240},
    "500 words, patches of 16 and 32": {
        "n_words": 500,
        "patch_size": (16, 32),
        "contrast_percentile": 10.0,
    },
}
"""The paper's settings and the defaults of `SceneModel`, both with 2 × 2 regions."""

Pixels = NDArray[np.uint8]


def pictures(count: int) -> Pixels:
    """Return scenes of eight classes, also flipped and mirrored."""
    drawn = drawn_scenes(-(-count // 32), seed=0, size=(HEIGHT, WIDTH))
    greys = [decode(scene.image) for scene in drawn]
    turned = [grey[::y, ::x] for y in (1, -1) for x in (1, -1) for grey in greys]
    return np.stack(turned[:: max(len(turned) // count, 1)][:count])


def on_cpu(encoder: ImageEncoder, grey: Pixels) -> NDArray[np.int64]:
    found = encoder.describer.describe(grey)
    words_S = encoder.codebook.assign(found.values_SD)
    cells_SG = encoder.regions.cells(found.centres_S2, (HEIGHT, WIDTH))
    return encoder.regions.words(words_S[:, None], cells_SG, encoder.codebook.n_words)


def measure(encoder: ImageEncoder, greys: Pixels, device: torch.device) -> dict[str, float]:
    """Return images per second, and the share of words that agree."""
    describer = encoder.describer
    assert isinstance(describer, SIFTDescriber)
    batch = BatchEncoder(encoder, device)
    gpu = device.type == "cuda"
    pinned = torch.empty(greys.shape, dtype=torch.uint8, pin_memory=gpu)
    pinned.copy_(torch.from_numpy(greys))
    there = pinned.to(device)
    some = greys[:ON_CPU]

    def finished(work: Callable[[], object]) -> None:
        work()
        if gpu:
            torch.cuda.synchronize(device)

    def pipelined() -> None:
        pending: deque[PendingWords] = deque()
        for _ in range(BATCHES):
            pending.append(batch.start(pinned))
            if len(pending) > 1:
                pending.popleft().wait()
        pending.popleft().wait()

    def describe() -> None:
        for _ in describe_many(there, describer.sift):
            pass

    timings = alternate(
        {
            "gpu": pipelined,
            "gpu_pixels_there": lambda: finished(lambda: batch.encode(there)),
            "gpu_sift": lambda: finished(describe),
            "cpu_core": lambda: [on_cpu(encoder, grey) for grey in some],
        }
    )
    n_images = {"gpu": BATCHES * len(greys), "cpu_core": len(some)}
    seconds = {name: t.median / n_images.get(name, len(greys)) for name, t in timings.items()}
    if gpu:
        torch.cuda.reset_peak_memory_stats(device)
    found = batch.start(pinned).wait()
    peak = torch.cuda.max_memory_allocated(device) if gpu else 0
    same = [np.mean(ours == on_cpu(encoder, grey)) for ours, grey in zip(found, greys, strict=True)]
    return {
        **{f"images_per_second_{name}": 1 / each for name, each in seconds.items()},
        "gpu_over_cpu_core": seconds["cpu_core"] / seconds["gpu"],
        "share_of_images_with_the_same_words": float(np.mean(np.equal(same, 1))),
        "share_of_words_that_differ": 1 - float(np.mean(same)),
        "peak_gpu_memory_mib": peak / 2**20,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="From pixels to visual words on a GPU.")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--images", type=int, default=256, help="images per batch")
    options = parser.parse_args()
    device = choose_device(options.device)
    torch.set_num_threads(1)
    greys = pictures(options.images)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "no GPU"
    results = {}
    for title, settings in SETTINGS.items():
        bag = BagOfVisualWords(
            **settings, sample_size=20_000, n_examples=0, device="cpu", random_state=0
        )
        results[title] = measure(bag.fit(list(greys[:64])).encoder_, greys, device)
        print_table(
            f"batches of {len(greys)} × {HEIGHT} × {WIDTH}, {title}, {name}",
            ["quantity", "value"],
            [[key, f"{value:,.6g}"] for key, value in results[title].items()],
        )
    if device.type == "cuda":
        write_results("gpu_encoding", {"gpu": name, "images": len(greys), "settings": results})


if __name__ == "__main__":
    main()
