"""Results of `bench_gpu` as sections of docs/gpu.md."""

from typing import Any

from benchmarks.common import load


def gpu() -> str:
    """Return the section of docs/gpu.md."""
    found = load("h200")
    operation, training = found["op"], found["train"]

    def millions(words_per_s: float) -> str:
        return f"{words_per_s / 1e6:.0f}" if words_per_s >= 1e7 else f"{words_per_s / 1e6:.1f}"

    rows = [
        ["plain torch, gathered rows, autograd", millions(operation["torch_gather_words_per_s"])]
    ]
    rows += [["plain torch, full softmax, bf16", millions(operation["softmax_bf16_words_per_s"])]]
    for name, each in operation["by_precision"].items():
        rows.append([f"`cuda`, tree, {name}", millions(each["words_per_s"])])
    for name, each in operation["by_precision"].items():
        rows.append([f"`cuda`, softmax, {name}", millions(each["softmax_words_per_s"])])
    over_softmax = operation["words_per_s"] / operation["softmax_bf16_words_per_s"]
    over_gather = operation["words_per_s"] / operation["torch_gather_words_per_s"]
    lines = [
        f"{found['device']}, torch {found['torch']}, Triton {found['triton']}. The operation, 100 "
        "documents × 961 words, 200 topics, 1,160 leaves, with all gradients:",
        "",
        *table(["", "million words/s"], *rows),
        f"The tree in {operation['precision']} is {over_softmax:.1f} times as fast as the full "
        f"softmax in torch and {over_gather:.0f} times as fast as the gathered rows; it takes "
        f"{operation['peak_bytes'] / 2**20:.0f} MiB besides parameters and gradients. Times are "
        "those of recorded calls; a call from Python, kernel by kernel, processes "
        f"{millions(operation['by_precision'][operation['precision']]['eager_words_per_s'])} "
        "million words/s. "
        f"{_cost_of_order(operation)}",
        "",
        *_kernels(operation),
        f"By shape ({operation['precision']}; the floor is computed for the "
        f"{found['copy_bytes_per_s'] / 1e12:.1f} TB/s of a copy in this run):",
        "",
        *table(
            [
                "documents",
                "topics",
                "leaves",
                "million words/s",
                "from Python",
                "share of the floor",
            ],
            *(
                [
                    f"{each['documents']:,}",
                    f"{each['topics']}",
                    f"{each['leaves']:,}",
                    millions(each["words_per_s"]),
                    millions(each["eager_words_per_s"]),
                    f"{each['share_of_floor']:.1%}",
                ]
                for each in found["table"]
            ),
        ),
        "Training, 1,500 documents, 1.7 million words per epoch, batch 64, Adam, class head, a "
        "new order in every epoch:",
        "",
        *table(
            ["", "million words/s", "60 epochs, recording included"],
            *(
                [name, millions(each["words_per_s"]), f"{each['seconds_of_60_epochs']:.2f} s"]
                for name, each in training["by_precision"].items()
            ),
            *(
                [
                    f"{int(leaves):,} leaves, long-tailed words, {training['precision']}",
                    millions(each),
                    "",
                ]
                for leaves, each in training["many_leaves_words_per_s"].items()
            ),
        ),
        "The same training on CPU and GPU, from the same seeds, 20 epochs: perplexity of held-out "
        "documents:",
        "",
        *table(
            ["seed", *training["same_as_cpu"][0]["validation_perplexity"]],
            *(
                [
                    str(each["seed"]),
                    *(f"{value:.3f}" for value in each["validation_perplexity"].values()),
                ]
                for each in training["same_as_cpu"]
            ),
        ),
    ]
    return "\n".join(lines).rstrip()


def table(*rows: list[str]) -> list[str]:
    """Return the lines of a table."""
    header, *others = (f"| {' | '.join(row)} |" for row in rows)
    return [header, "|" + "---|" * len(rows[0]), *others, ""]


def _kernels(operation: dict[str, Any]) -> list[str]:
    """Return the table of the kernels of a recorded call, if it was profiled."""
    found: dict[str, dict[str, float]] = operation.get("kernels", {})
    ours = {name: each for name, each in found.items() if name.isidentifier()}
    others = [each for name, each in found.items() if name not in ours]
    if not ours:
        return []
    total = {key: sum(each[key] for each in others) for key in ("count", "seconds")}
    longest = sorted(ours.items(), key=lambda item: -item[1]["seconds"])
    rows = [*((f"`{name}`", each) for name, each in longest), ("torch: sort and sums", total)]
    return [
        f"Time by kernel ({operation['precision']}, by torch's profiler; some kernels run "
        "concurrently):",
        "",
        *table(
            ["kernel", "runs", "µs"],
            *(
                [name, f"{each['count']:.0f}", f"{1e6 * each['seconds']:.1f}"]
                for name, each in rows
            ),
        ),
    ]


def _cost_of_order(operation: dict[str, Any]) -> str:
    """Return the times of sums in a fixed order and of atomic additions."""
    kinds = {
        "sums_without_atomics": "the rows of W's gradient",
        "node_sums_without_atomics": "the tiles' parts of V's gradient",
    }
    found = {what: operation[name] for name, what in kinds.items() if name in operation}
    return " ".join(
        f"Summing {what} in a fixed order takes {1e3 * each['seconds']:.2f} ms, by atomic "
        f"additions (`index_add_`) {1e3 * each['atomic_seconds']:.2f}."
        for what, each in found.items()
    )
