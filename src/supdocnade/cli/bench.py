"""`supdocnade bench`: speed of the compiled code relative to plain torch."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from supdocnade.cli import options as opt
from supdocnade.cli.console import ProgressBars, format_table, print_json, print_line

N_WORDS, N_TOPICS, LENGTH, BATCH = 1160, 200, 961, 16
"""The paper's numbers of words (regions and tags), topics and patches per image; batch size."""

N_IMAGES = 8


def bench(
    rounds: Annotated[int, typer.Option(min=1, help="Number of measurements.")] = 5,
    seed: opt.Seed = 0,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Measure the speed of the compiled code relative to plain torch.

    Learning: forward and backward pass of the topic model's likelihood on one batch, compared with
    vectorized torch. Reading: dense SIFT of drawn scenes on one core, compared with matrix products
    in torch. The two alternate; a figure is the median over the rounds after one warm-up round.
    Other programs running at the same time make the figures meaningless.

    \b
    Examples:
      supdocnade bench
      supdocnade bench --json --rounds 9
    """
    with ProgressBars(quiet=quiet) as progress:
        results = measure(rounds, seed, progress)
    if json:
        print_json(results)
        return
    rows = [["", "plain ms", "ours ms", "ratio"]]
    for name, row in results.items():
        cells = [f"{row['plain_ms']:.2f}", f"{row['ours_ms']:.2f}", f"{row['ratio']:.1f} ×"]
        rows.append([f"{name}, {row['per']}", *cells])
    print_line(format_table(rows))


def measure(rounds: int, seed: int, progress: ProgressBars) -> dict[str, dict[str, Any]]:
    """Return the times of learning and of reading."""
    results = {}
    for name, per, number, variants in (
        ("learning", "a document", BATCH, learning_variants(seed)),
        ("reading", "an image", N_IMAGES, reading_variants(seed)),
    ):
        seconds = measure_alternately(variants, rounds, name, progress)
        plain, ours = (1e3 * seconds[each] / number for each in ("plain", "ours"))
        results[name] = {"per": per, "plain_ms": plain, "ours_ms": ours, "ratio": plain / ours}
    return results


def measure_alternately(
    variants: Mapping[str, Callable[[], object]],
    rounds: int,
    stage: str,
    progress: ProgressBars,
) -> dict[str, float]:
    """Return the median seconds of alternating variants, without a first warm-up round."""
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(rounds + 1):
        progress(stage, number, rounds)
        for name, run in variants.items():
            started = time.perf_counter()
            run()
            if number > 0:
                seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in seconds.items()}


def learning_variants(seed: int) -> dict[str, Callable[[], object]]:
    """Return functions that compute the tree likelihood of a batch and its gradients."""
    import numpy as np
    import torch

    from supdocnade.likelihood.contract import DocumentBatch, Parameters
    from supdocnade.likelihood.operations import tree_nll
    from supdocnade.tree import WordTree

    rng = np.random.default_rng(seed)

    def normal(deviation: float, *shape: int) -> torch.Tensor:
        drawn = rng.normal(0, deviation, shape).astype(np.float32)
        return torch.from_numpy(drawn).requires_grad_()

    parameters = Parameters(
        normal(0.01, N_WORDS, N_TOPICS),
        normal(0.01, N_TOPICS),
        normal(0.1, N_WORDS - 1, N_TOPICS),
        normal(0.1, N_WORDS - 1),
    )
    words = torch.from_numpy(rng.integers(0, N_WORDS, BATCH * LENGTH, dtype=np.int32))
    batch = DocumentBatch(words, torch.arange(BATCH + 1) * LENGTH)
    tree = WordTree.random(N_WORDS, rng)

    def run(backend: str) -> None:
        for parameter in parameters:
            parameter.grad = None
        terms = tree_nll(batch, parameters, tree, backend=backend)
        terms.nll_B.sum().backward()  # type: ignore[no-untyped-call]

    return {"plain": lambda: run("vectorized"), "ours": lambda: run("cpu")}


def reading_variants(seed: int) -> dict[str, Callable[[], object]]:
    """Return functions that compute dense SIFT of some drawn scenes."""
    import numpy as np

    from supdocnade.demo import CLASSES, draw_scene
    from supdocnade.images.dense_sift import dense_sift
    from supdocnade.likelihood.cpu.threads import one_torch_thread

    greys = [
        draw_scene(CLASSES[number % len(CLASSES)], seed + number)
        .image.mean(axis=2)
        .astype(np.uint8)
        for number in range(N_IMAGES)
    ]

    def plain() -> None:
        # The compiled code uses one core per photograph.
        with one_torch_thread():
            for grey in greys:
                dense_sift(grey, backend="vectorized")

    return {"plain": plain, "ours": lambda: [dense_sift(grey) for grey in greys]}
