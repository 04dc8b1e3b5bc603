"""Benchmark of the operation and of training on a GPU, compared with plain torch in the same run.

python -m benchmarks.bench_gpu

Times are measured on the device, between two events on its stream, for a recorded call that is
replayed, as in training. `eager` is a call from Python, launch by launch.

The floor is the time for the data that must go through memory if hidden units do not fit on the
chip: each is written once and read once, and so is its gradient, at the bandwidth of a copy that is
measured here.
"""

import argparse
import gc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import torch
import triton

from benchmarks.common import print_table, write_results
from benchmarks.gpu_cases import (
    HEADLINE,
    LENGTH,
    PRECISIONS,
    Case,
    Shape,
    bandwidth,
    device_seconds,
    floor_seconds,
    kernel_seconds,
    millions,
    replay_seconds,
)
from benchmarks.gpu_training import training

TABLE = [
    Shape(documents, topics, leaves)
    for leaves in (1160, 20_000, 200_000)
    for topics in (50, 200, 512)
    for documents in (8, 100, 1000)
]

COMPILERS = 9
"""Number of processes that compile, each for one vocabulary and number of topics."""


def operation(bytes_per_second: float) -> dict[str, Any]:
    shape = Shape()
    case = Case(shape)
    by_precision = {}
    for name, setting in PRECISIONS.items():
        torch.set_float32_matmul_precision(setting)
        call = case.tree_call()
        seconds = replay_seconds(call)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        by_precision[name] = {
            "words_per_s": shape.words / seconds,
            "eager_words_per_s": shape.words / device_seconds(call),
            "peak_bytes": torch.cuda.max_memory_allocated() - before,
            "floor_words_per_s": shape.words / floor_seconds(shape, name, bytes_per_second),
            "softmax_words_per_s": shape.words / replay_seconds(case.softmax_call(), 5),
        }
    torch.set_float32_matmul_precision(PRECISIONS[HEADLINE])
    kernels = kernel_seconds(case.tree_call())
    torch.set_float32_matmul_precision("highest")
    plain_softmax = shape.words / replay_seconds(case.plain_softmax_call(), 5)
    plain_tree = shape.words / device_seconds(case.plain_tree_call(), 3)
    best = by_precision[HEADLINE]
    print_table(
        f"{shape.documents} documents × {LENGTH} words, {shape.topics} topics, "
        f"{shape.leaves} leaves, forward and all gradients",
        ["variant", "million words/s"],
        [
            ["plain torch, gathered rows", millions(plain_tree)],
            ["plain torch, full softmax in bf16", millions(plain_softmax)],
            *([f"cuda, {n}", millions(each["words_per_s"])] for n, each in by_precision.items()),
            *(
                [f"cuda, softmax, {n}", millions(each["softmax_words_per_s"])]
                for n, each in by_precision.items()
            ),
        ],
    )
    return {
        **{name: best[name] for name in ("words_per_s", "peak_bytes", "floor_words_per_s")},
        "precision": HEADLINE,
        "softmax_bf16_words_per_s": plain_softmax,
        "torch_gather_words_per_s": plain_tree,
        "by_precision": by_precision,
        "kernels": kernels,
        **determinism(case),
    }


def determinism(case: Case) -> dict[str, dict[str, float]]:
    """Time sums in a fixed order, and atomic additions of the same rows.

    For W these are the rows of tokens, added by word. For V they are the parts of tiles of tokens:
    in a fixed order they are written to a table and added from there, otherwise added at once.
    """
    from supdocnade.cuda.prefix import find_pieces, row_stride
    from supdocnade.cuda.rows import SLOTS, SortedTokens, add_tiles, sum_rows
    from supdocnade.cuda.tree_bands import WALK_OPTIONS, tree_layer

    layer = tree_layer(case.tree, case.ids_BD.device)
    shape, batch = case.shape, case.batch
    tokens = SortedTokens(batch, layer.key_of_word_K, layer.n_prefixes)
    rows = torch.empty(shape.words, shape.topics, device="cuda").normal_()
    out = torch.zeros(shape.leaves, shape.topics, device="cuda")
    places = batch.word_ids_N.long()
    ours = replay_seconds(
        lambda: sum_rows(tokens, rows, shape.topics, layer.word_of_key, out, "tf32x3")
    )
    atomic = replay_seconds(lambda: out.index_add_(0, places, rows))

    tile, n_bands = WALK_OPTIONS[HEADLINE]["TILE"], layer.bands.n_bands
    width = row_stride(shape.topics + 1)
    tile_prefix, _ = find_pieces(tokens.first_row_P1, shape.words, tile)
    rows = torch.empty(len(tile_prefix) * n_bands * SLOTS, width, device="cuda").normal_()
    parts = torch.empty_like(rows)
    nodes = layer.nodes_of_prefix[tile_prefix.clamp_min(0).long(), : n_bands * SLOTS]
    nodes = nodes.masked_fill((tile_prefix < 0)[:, None], -1).flatten()
    real = (nodes >= 0).nonzero()[:, 0]
    real_rows, real_nodes = rows[real, : shape.topics].contiguous(), nodes[real].long()
    out_bias, one = torch.zeros(shape.leaves - 1, device="cuda"), torch.ones(1, device="cuda")

    def in_order() -> None:
        parts.copy_(rows)
        add_tiles(
            parts, tokens, tile_prefix, layer.node_of_slot, layer.bands.first_prefix,
            layer.first_prefix, one, out[1:], out_bias, width=width, tile=tile,
        )  # fmt: skip

    return {
        "sums_without_atomics": {"seconds": ours, "atomic_seconds": atomic},
        "node_sums_without_atomics": {
            "seconds": replay_seconds(in_order),
            "atomic_seconds": replay_seconds(lambda: out.index_add_(0, real_nodes, real_rows)),
        },
    }


def compile_for(topics: int, leaves: int) -> None:
    """Compile the kernels for the shapes of the table; they are cached on disk."""
    torch.set_float32_matmul_precision(PRECISIONS[HEADLINE])
    for shape in TABLE:
        if (shape.topics, shape.leaves) == (topics, leaves):
            Case(shape).tree_call()()


def table(bytes_per_second: float) -> list[dict[str, Any]]:
    torch.set_float32_matmul_precision(PRECISIONS[HEADLINE])
    kinds = {(shape.topics, shape.leaves) for shape in TABLE}
    with ProcessPoolExecutor(COMPILERS, mp_context=get_context("spawn")) as compilers:
        list(compilers.map(compile_for, *zip(*kinds, strict=True)))
    results = []
    for shape in TABLE:
        call = Case(shape).tree_call()
        call()
        eager, seconds = device_seconds(call, 5), replay_seconds(call, 10)
        results.append(
            {
                **shape._asdict(),
                "words_per_s": shape.words / seconds,
                "share_of_floor": floor_seconds(shape, HEADLINE, bytes_per_second) / seconds,
                "eager_words_per_s": shape.words / eager,
            }
        )
        del call
        gc.collect()
        torch.cuda.empty_cache()
    print_table(
        f"by shape ({HEADLINE})",
        ["documents", "topics", "leaves", "million words/s", "eager", "share of the floor"],
        [
            [
                str(each["documents"]),
                str(each["topics"]),
                str(each["leaves"]),
                millions(each["words_per_s"]),
                millions(each["eager_words_per_s"]),
                f"{each['share_of_floor']:.1%}",
            ]
            for each in results
        ],
    )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="h200", help="name of the file in benchmarks/results/")
    parser.add_argument("--commit", help="commit of this code, if git is not available")
    arguments = parser.parse_args()
    bytes_per_second = bandwidth()
    results = {
        "device": torch.cuda.get_device_name(),
        "triton": triton.__version__,
        "copy_bytes_per_s": bytes_per_second,
        "op": operation(bytes_per_second),
        "table": table(bytes_per_second),
        "train": training(),
    }
    if arguments.commit:
        results["commit"] = arguments.commit
    write_results(arguments.name, results)


if __name__ == "__main__":
    main()
