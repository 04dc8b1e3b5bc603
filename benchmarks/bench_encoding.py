"""Benchmark of encoding, from a file to visual words, compared with VLFeat's SIFT alone.

python -m benchmarks.bench_encoding

Images are the photographs of LabelMe (256 × 256) if they are available (SUPDOCNADE_DATA), and drawn
scenes of that size otherwise; they are processed one after the other on one core. The baseline is
VLFeat's dense SIFT with a flat window, called directly, without reading the file and without words;
ours reads, describes (with the Gaussian window) and finds words. Without VLFeat (Debian:
libvlfeat1), OpenCV's SIFT on the same grid is the baseline.
"""

import os
import resource
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray
from tools.draw_scenes import drawn_scenes

from benchmarks.baselines.vlfeat import FlatSIFT
from benchmarks.common import alternate, print_table, write_results
from benchmarks.serving import product_model
from supdocnade import BagOfVisualWords
from supdocnade.images.decode import decode, write_image
from supdocnade.images.dense_sift import dense_sift
from supdocnade.visual_words.encoder import encode_images

N_IMAGES, N_WORDS, SIDE = 64, 240, 256
MANY = 1600
"""Images that are encoded while memory is measured."""


def photographs(folder: Path) -> tuple[str, list[Path]]:
    root = os.environ.get("SUPDOCNADE_DATA", Path(__file__).parents[2] / "shared" / "data")
    paths = sorted((Path(root) / "labelme").glob("*/*.jpg"))
    if paths:
        return "LabelMe", paths[:: len(paths) // N_IMAGES][:N_IMAGES]
    for number, scene in enumerate(drawn_scenes(N_IMAGES // 8, 0, (SIDE, SIDE))):
        write_image(folder / f"{number:02}.jpg", scene.image)
    return "drawn scenes", sorted(folder.glob("*.jpg"))


def baselines(greys: Sequence[NDArray[np.uint8]]) -> dict[str, Callable[[], object]]:
    """Return the baselines that are available here."""
    try:
        flat = FlatSIFT((SIDE, SIDE))
    except OSError:
        return _opencv(greys)
    floats = [grey.astype(np.float32) for grey in greys]
    ours = dense_sift(greys[0]).values_SD
    assert flat.describe(floats[0]).shape == ours.shape
    return {"VLFeat, flat window, SIFT alone": lambda: [flat.describe(grey) for grey in floats]}


def _opencv(greys: Sequence[NDArray[np.uint8]]) -> dict[str, Callable[[], object]]:
    try:
        import cv2  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return {}
    cv2.setNumThreads(1)
    sift = cv2.SIFT_create()
    # A key point of this size has bins of four pixels.
    points = [
        cv2.KeyPoint(float(x), float(y), 2.667, 0)
        for y in range(6, SIDE - 6, 8)
        for x in range(6, SIDE - 6, 8)
    ]
    return {"OpenCV on a grid, SIFT alone": lambda: [sift.compute(grey, points) for grey in greys]}


def _prediction_ratio(paths: list[Path]) -> float:
    """Return the time to predict labels and tags of files, relative to that for their words."""
    model = product_model(paths)
    timings = alternate(
        {
            "predictions": lambda: list(model.iter_predictions(paths)),
            "words": lambda: list(encode_images(model.fitted_.encoder, paths)),
        }
    )
    return timings["predictions"].median / timings["words"].median


def peak_growth(run: Callable[[], object]) -> float:
    """Return the growth of the peak memory of this process during a call, in MiB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main() -> None:
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        kind, paths = photographs(Path(folder))
        greys = [decode(path) for path in paths]
        bag = BagOfVisualWords(N_WORDS, random_state=0, sample_size=20_000).fit(paths)
        encoder = bag.encoder_
        described = [dense_sift(grey).values_SD for grey in greys]
        timings = alternate(
            {
                "decode + SIFT + words": lambda: [encoder.encode(path) for path in paths],
                "decode": lambda: [decode(path) for path in paths],
                "SIFT": lambda: [dense_sift(grey) for grey in greys],
                "words": lambda: [encoder.codebook.assign(values) for values in described],
                **baselines(greys),
            }
        )
        prediction_ratio = _prediction_ratio(paths)
        many = (paths * (MANY // len(paths) + 1))[:MANY]
        growth = peak_growth(lambda: [None for _ in encode_images(encoder, many)])
    ms = {name: 1e3 * timing.median / len(paths) for name, timing in timings.items()}
    ours = ms["decode + SIFT + words"]
    print_table(
        f"{len(paths)} × {kind}, {SIDE} × {SIDE}, {N_WORDS} words, one core",
        ["what", "ms/image", "images/s"],
        [[name, f"{value:.2f}", f"{1e3 / value:.0f}"] for name, value in ms.items()],
    )
    peer = next((name for name in ms if "alone" in name), None)
    results = {
        "images": kind,
        "ms_per_image": ms,
        "images_per_second_per_core": 1e3 / ours,
        "peak_growth_mib_1600_images": growth,
        "predictions_over_encoding": prediction_ratio,
        "baseline": peer,
        "encoding_over_baseline": None if peer is None else ours / ms[peer],
    }
    print(f"label, tags and probabilities over words alone: {prediction_ratio:.2f}")
    print(f"memory grew by {growth:.1f} MiB over {MANY} images")
    if peer is not None:
        print(f"decode + SIFT + words over {peer}: {ours / ms[peer]:.2f}")
    write_results("encoding", results)


if __name__ == "__main__":
    main()
