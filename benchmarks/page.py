"""Write the results in benchmarks/results/ into the generated sections of docs/.

python -m benchmarks.page            # write the sections
python -m benchmarks.page --check    # fail if a section is not current
"""

from pathlib import Path

from benchmarks.common import RESULTS, load, update_page
from benchmarks.gpu_page import gpu
from benchmarks.security_page import table

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
GPU = PAGE.parent / "gpu.md"
SERVING, SECURITY = PAGE.with_name("serving.md"), PAGE.with_name("security.md")


def figures() -> str:
    operation, training, inference = load("tree_nll"), load("training"), load("inference")
    encoding, network = load("encoding"), load("network")
    with_gpu = load("network_cuda")["ms_per_image"]
    gpu_words, cpu_words = (with_gpu[f"decode + network{on} + words"] for on in (" on the GPU", ""))
    ms = operation["ms_per_document"]
    comparisons = operation["cpu_over_torch_gather_of_all_comparisons"]
    rows = [
        (
            "plain torch, gather and autograd (`benchmarks/baselines/`)",
            f"{ms['torch_gather']:.2f} ms",
        ),
        ("backend `vectorized`", f"{ms['vectorized']:.2f} ms"),
        ("backend `cpu`", f"{ms['cpu']:.2f} ms"),
        (
            "**speed of `cpu` relative to plain torch** (in all comparisons)",
            f"**{operation['cpu_over_torch_gather']:.1f} ×** "
            f"({', '.join(f'{each:.1f}' for each in comparisons)})",
        ),
        (
            "`cpu`: time at 8,200 words relative to 1,160, batch 16",
            f"{operation['time_at_8200_over_1160_batch_16']:.2f}",
        ),
        (
            "`cpu`: time at 100,000 words relative to 1,000, batch 64",
            f"{operation['time_at_100000_over_1000_batch_64']:.2f}",
        ),
        (
            "a training step: time at 100,000 words relative to 1,000, batch 64",
            f"{training['step_at_100000_over_1000']:.2f}",
        ),
        (
            "an epoch (optimizer, class head, shuffling) relative to the operation alone",
            f"{training['epoch_over_operation']:.2f}",
        ),
        ("the same epoch: 800 documents × 961 words", f"{training['epoch_seconds']:.2f} s"),
        (
            "`predict_proba` relative to one sparse product X · W (scipy, one thread), 10,000 "
            "documents",
            f"{inference['predict_proba_over_sparse_product']:.2f}, on one thread "
            f"{inference['predict_proba_one_thread_over_sparse_product']:.2f}",
        ),
        (
            "`transform` and `predict_proba` relative to that product",
            f"{inference['features_and_class_over_sparse_product']:.2f}",
        ),
        (
            "scikit-learn's LDA `transform` relative to `predict_proba`, per document",
            f"{inference['sklearn_lda_over_predict_proba']:.0f}",
        ),
        (
            "tomotopy's LDA `infer` relative to `predict_proba`, per document",
            f"{inference['tomotopy_infer_over_predict_proba']:.0f}",
        ),
        (
            f"from file to visual words (decode, SIFT, 240 words; {encoding['images']}, "
            "256 × 256, one core)",
            f"{encoding['images_per_second_per_core']:.0f} images/s",
        ),
        (
            "the time for that relative to "
            f"{encoding['baseline'] or 'VLFeat or OpenCV, neither installed'}",
            "–"
            if encoding["encoding_over_baseline"] is None
            else f"{encoding['encoding_over_baseline']:.2f}",
        ),
        (
            "labels, tags and probabilities of files (`predict`) relative to their words alone",
            f"{encoding['predictions_over_encoding']:.2f}",
        ),
        (
            f"words from {network['network']} (decode, network, 1,000 words) relative to decoding "
            "and the network's bare forward pass",
            f"{network['words_over_forward_pass']:.2f}",
        ),
        (
            "the same relative to decoding, resizing and that pass, which every use of it needs",
            f"{network['words_over_resized_forward_pass']:.2f}",
        ),
        (
            "predictions of 64 photographs by two workers relative to one, on two cores",
            f"{network['gain_of_two_workers']:.2f} times as fast",
        ),
        (
            "words of the network with it on an H200 relative to one core of that machine "
            "(`bench_network cuda`)",
            f"{gpu_words / cpu_words:.2f}",
        ),
        (
            "growth of memory while 1,600 images are encoded, after the first few",
            f"{encoding['peak_growth_mib_1600_images']:.0f} MiB",
        ),
    ]
    lines = [
        "| quantity | value |",
        "|---|---|",
        *(f"| {what} | {value} |" for what, value in rows),
    ]
    lines += [
        "",
        f"{operation['cpu']}, {operation['threads']} threads, Python {operation['python']}, "
        f"torch {operation['torch']}, Numba {operation['numba']}.",
    ]
    return "\n".join(lines)


def corpora() -> str:
    """Return the table of corpora on disk."""
    found = load("corpus")
    reading, appending = found["ms_per_batch_by_shards"], found["ms_per_append_by_shards"]
    epochs = found["us_per_document_by_documents"]
    rows = [
        (
            "64 random documents × 961 words from 10, 100, 1,000 shards",
            f"{', '.join(f'{ms:.2f}' for ms in reading.values())} ms",
        ),
        ("1,000 shards relative to 10", f"{found['batch_from_1000_over_10_shards']:.2f}"),
        (
            "an append after 1,000 and after 10,000 shards",
            f"{', '.join(f'{ms:.1f}' for ms in appending.values())} ms",
        ),
        ("10,000 shards relative to 1,000", f"{found['append_at_10000_over_1000_shards']:.2f}"),
        (
            "reading all of 1,000 and of 10,000 documents, per document",
            f"{', '.join(f'{us:.1f}' for us in epochs.values())} µs",
        ),
        ("10,000 documents relative to 1,000", f"{found['document_of_10000_over_1000']:.2f}"),
    ]
    lines = ["| quantity | value |", "|---|---|"]
    lines += [f"| {what} | {value} |" for what, value in rows]
    lines += ["", f"{found['cpu']}, Python {found['python']}, NumPy {found['numpy']}."]
    return "\n".join(lines)


def growth() -> str:
    """Return the table of time and memory by the number of photographs, if it was measured."""
    if not (RESULTS / "growth.json").exists():
        return "Not measured yet."
    found = load("growth")
    lines = [
        "| photographs | step | time per photograph | memory | without pages of files |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {int(size):,} | {stage} | {each['us_per_photograph']:,.0f} µs "
        f"| {each['peak_mib']:,.0f} MiB | {each['peak_anonymous_mib']:,.0f} MiB |"
        for size, stages in found["sizes"].items()
        for stage, each in stages.items()
    ]
    ratios = found["time_of_largest_over_smallest"].items()
    lines += [
        "",
        "Time per photograph at the largest number relative to the smallest: "
        f"{', '.join(f'{stage} {ratio:.2f}' for stage, ratio in ratios)} (goal: at most "
        f"{found['goal_ratio']}). Memory of the fit, without pages of files, relative to the goal "
        f"of 1 GB and 300 bytes per photograph: {found['fit_memory_over_goal']:.2f}.",
        "",
        f"{found['words_per_photograph']} words per photograph, {found['n_topics']} topics, "
        f"{found['n_epochs']} epochs. {found['cpu']}, Python {found['python']}.",
    ]
    return "\n".join(lines)


def second_machine() -> str:
    """Return the results of two cores of a quieter machine (`taskset -c 0,1`)."""
    operation, training = load("second_machine/tree_nll"), load("second_machine/training")
    ms = operation["ms_per_document"]
    comparisons = operation["cpu_over_torch_gather_of_all_comparisons"]
    return (
        f"On two cores of a quieter machine ({operation['cpu']}, torch "
        f"{operation['torch']}; `benchmarks/results/second_machine/`): plain torch "
        f"{ms['torch_gather']:.2f} ms, `cpu` {ms['cpu']:.2f} ms, "
        f"**{operation['cpu_over_torch_gather']:.1f} ×** "
        f"({', '.join(f'{each:.1f}' for each in comparisons)}); at 8,200 words "
        f"{operation['time_at_8200_over_1160_batch_16']:.2f} times the time at 1,160, at 100,000 "
        f"{operation['time_at_100000_over_1000_batch_64']:.2f} times that at 1,000, a training "
        f"step {training['step_at_100000_over_1000']:.2f}; an epoch takes "
        f"{training['epoch_over_operation']:.2f} times the operation alone."
    )


def _plain(load: str) -> str:
    """Return the description of a load with the right singulars."""
    return load.replace("1 images,", "1 image,").replace(", 1 clients", ", 1 client")


def serving() -> str:
    found, fuzz = load("serving"), load("serving_fuzz")
    lines = [
        "| load | requests/s | accepted/s | p50 | p99 | longest | refused |",
        "|---|---|---|---|---|---|---|",
    ]
    for what, each in found["load"].items():
        share = each["refused"] / max(each["requests"], 1)
        answered = each["requests_per_second"] * (1 - share)
        timed = each
        if "apart" in each:
            timed, answered = each["apart"], each["apart"]["answered_per_second"]
            share = timed["refused"] / max(timed["requests"], 1)
        lines.append(
            f"| {_plain(what)} | {each['requests_per_second']:.0f} | {answered:.0f} | "
            f"{timed['p50_ms']:.0f} ms | "
            f"{timed['p99_ms']:.0f} ms | {timed['longest_ms']:.0f} ms | {100 * share:.0f} % |"
        )
    if any("apart" in each for each in found["load"].values()):
        lines += [
            "",
            "With 100 clients all but the first figure come from `benchmarks/clients.py`, since "
            "`ab` does not separate accepted from refused requests. Times are those of accepted "
            "requests.",
        ]
    long = found["endurance"]
    sent = sum(fuzz["statuses"].values())
    ratios = [found[f"served_over_bare_{on}"] for on in ("one_core", "all_cores", "one_client")]
    lines += [
        "",
        f"At eight images per request the server takes {ratios[0]:.2f} times the CPU time of "
        f"encoding and predicting in a loop if both use one core, {ratios[1]:.2f} times if both "
        f"use all cores, and {ratios[2]:.2f} times with a single client. 20 clients for "
        f"{long['seconds']:.0f} seconds: {long['requests']:,} requests, {long['failed']} failed, "
        f"{long['refused']} refused, memory growth {long['growth_mib']:.0f} MiB.",
        "",
        f"{fuzz['n_mutated_images']:,} damaged images, sent in {sent:,} requests: statuses "
        f"{', '.join(fuzz['statuses'])}; memory growth in the second pass "
        f"{fuzz['growth_mib']:.0f} MiB. Requests generated from the OpenAPI description: "
        f"{fuzz['schemathesis']}.",
        "",
        f"{found['images']}, 256 × 256 pixels; {found['cpu']}, Python {found['python']}.",
    ]
    return "\n".join(lines)


def index() -> str:
    found = load("index")
    columns = {
        "build_s": ("build", ".0f", "s"),
        "open_s": ("open", ".1f", "s"),
        "similar_ms": ("similar photographs", ".0f", "ms"),
        "tag_ms": ("with a tag", ".1f", "ms"),
        "rare_word_ms": ("with a rare word", ".1f", "ms"),
        "frequent_word_ms": ("with a frequent word", ".0f", "ms"),
        "own_mib": ("memory", ",.0f", "MiB"),
        "megabytes": ("on disk", ",.0f", "MB"),
    }
    lines = [
        " | ".join(["| photographs", *(name for name, _, _ in columns.values())]) + " |",
        "|---" * (1 + len(columns)) + "|",
    ]
    for size, each in found["sizes"].items():
        cells = [
            f"{each['figures'][key]:{form}} {unit}" for key, (_, form, unit) in columns.items()
        ]
        lines.append(" | ".join([f"| {int(size):,}", *cells]) + " |")
    described = f"{found['n_topics']} topics, {found['n_classes']} classes, {found['n_tags']} tags"
    lines += ["", f"{described}. {found['cpu']}, Python {found['python']}."]
    return "\n".join(lines)


def main() -> None:
    update_page(GPU, {"gpu": gpu()})
    sections = {
        "measurements": figures(),
        "second machine": second_machine(),
        "corpora": corpora(),
        "growth": growth(),
        "index": index(),
    }
    update_page(PAGE, sections)
    update_page(SERVING, {"serving": serving()})
    update_page(SECURITY, {"attacks and faults": table()})


if __name__ == "__main__":
    main()
