"""Repeat the paper's experiments on one of its data sets, from photographs to a page.

python -m experiments.paper labelme --data photos/labelme
python -m experiments.paper scene15 --data photos/scene15 --quick
python -m experiments.paper labelme --stage models --device cuda

Five splits; settings of all methods are chosen in each on the same held-out photographs. Takes
hours on a CPU. A stopped run resumes with the same command. Stages: words (needs the photographs),
models (needs OUT/words and two small files; uses a GPU), others (other topic models), svms, page.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from experiments.paper.data_sets import DATA_SETS
from experiments.paper.page import PAGE, write_page
from experiments.paper.protocol import N_SPLITS
from experiments.paper.results import RESULTS
from experiments.paper.stages import PRODUCTS, STAGES, open_study, run_stage
from supdocnade.cli.console import ProgressBars, print_line, print_message, print_warning
from supdocnade.errors import SupDocNADEError
from supdocnade.runs import RunOptions


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.paper",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("dataset", choices=tuple(DATA_SETS))
    parser.add_argument("--data", type=Path, help="folder of the photographs, for the stage words")
    parser.add_argument("--out", type=Path, help="folder of the study: reproduction/DATASET")
    parser.add_argument("--quick", action="store_true", help="run a small version, in minutes")
    parser.add_argument(
        "--splits", type=int, default=N_SPLITS, choices=range(1, N_SPLITS + 1), help="of five"
    )
    parser.add_argument(
        "--stage", choices=STAGES, help="run one stage only, for work on several machines"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument(
        "--products",
        choices=tuple(PRODUCTS),
        default="float32",
        help="precision of products on a GPU while models are trained",
    )
    parser.add_argument("--jobs", type=int, default=-1, help="worker threads; -1: one per core")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    return parser.parse_args(arguments)


def run(options: argparse.Namespace) -> None:
    """Run the stages of a study, and print where its results are."""
    folder = options.out or Path("reproduction") / (
        f"{options.dataset}-quick" if options.quick else options.dataset
    )
    started = time.perf_counter()
    if not options.quiet:
        print_message(f"files are written to {folder}; Ctrl-C stops, the same command resumes")
    with ProgressBars(quiet=options.quiet) as progress:
        run_options = RunOptions(n_jobs=options.jobs, device=options.device, progress=progress)
        study = open_study(
            options.dataset,
            folder,
            options.data,
            quick=options.quick,
            n_splits=options.splits,
            options=run_options,
        )
        for stage in (options.stage,) if options.stage else STAGES:
            run_stage(study, stage, run_options, products=options.products)
    if options.stage in (None, "page"):
        write_page(folder / PAGE, [folder])
        print_line(f"results: {folder / RESULTS}\npage: {folder / PAGE}")
    print_line(f"({time.perf_counter() - started:.0f} seconds)")


def main(arguments: Sequence[str]) -> int:
    """Run a command line and return the exit code."""
    try:
        run(parse(arguments))
    except (SupDocNADEError, OSError) as error:
        print_message(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    warnings.showwarning = print_warning
    sys.exit(main(sys.argv[1:]))
