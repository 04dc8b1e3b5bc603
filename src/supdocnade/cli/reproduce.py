"""`supdocnade reproduce`: the paper's experiments on its data sets, from photographs to a page."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from supdocnade.cli import options as opt
from supdocnade.cli.console import (
    ProgressBars,
    format_table,
    print_json,
    print_line,
    print_message,
)
from supdocnade.cli.options import UsageError
from supdocnade.run_options import RunOptions

DataSetName = Literal["scene15", "labelme", "uiuc", "mirflickr"]
ProductsName = Literal["float32", "tf32", "bf16"]
StageName = Literal["all", "words", "models", "others", "page"]


def reproduce(
    dataset: Annotated[
        DataSetName, typer.Argument(metavar="DATASET", help="scene15, labelme, uiuc or mirflickr.")
    ],
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of the photographs; only needed by the stage words."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the study; by default reproduction/DATASET.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run a small version of everything, in minutes.")
    ] = False,
    splits: Annotated[
        int, typer.Option(min=1, max=5, help="Number of splits to run, of five.")
    ] = 5,
    stage: Annotated[
        StageName, typer.Option(help="Run one stage only, for work on several machines.")
    ] = "all",
    device: opt.Device = "auto",
    products: Annotated[
        ProductsName, typer.Option(help="Precision of products on a GPU while models are trained.")
    ] = "float32",
    jobs: opt.Jobs = -1,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Repeat the paper's experiments, beside its own figures.

    Five splits; hyper-parameters are chosen in each on held-out photographs; baselines see the same
    words. Takes hours on a CPU. A stopped run resumes with the same command. Stages: words (needs
    the photographs), models (needs OUT/words and two small files; uses a GPU), others (baselines),
    page. mirflickr, with several labels per photograph, is the data set of the paper's follow-up;
    it has no stages, and reports the mean average precision over splits.

    \b
    Examples:
      supdocnade reproduce labelme --data photos/labelme
      supdocnade reproduce scene15 --data photos/scene15 --quick
      supdocnade reproduce labelme --out reproduction/labelme --stage models --device cuda
    """
    opt.check_device(device)
    from supdocnade.paper.page import PAGE, write_page
    from supdocnade.paper.results import RESULTS
    from supdocnade.paper.stages import STAGES, open_study, run_stage

    folder = out or Path("reproduction") / (f"{dataset}-quick" if quick else dataset)
    started = time.perf_counter()
    if dataset == "mirflickr":
        if data is None or stage != "all":
            raise UsageError("mirflickr needs --data, and has no stages.")
        options = RunOptions(n_jobs=jobs, device=device)
        _reproduce_labels(data, folder, options, quick=quick, n_splits=splits, json=json)
        return
    if not (quiet or json):
        print_message(f"files are written to {folder}; Ctrl-C stops, the same command resumes")
    with ProgressBars(quiet=quiet) as progress:
        options = RunOptions(n_jobs=jobs, device=device, progress=progress)
        study = open_study(dataset, folder, data, quick=quick, n_splits=splits, options=options)
        for each in STAGES if stage == "all" else (stage,):
            run_stage(study, each, options, products=products)
    found: dict[str, Any] = {"dataset": dataset, "folder": str(folder)}
    if stage in ("all", "page"):
        write_page(folder / PAGE, [folder])
        found |= {"results": str(folder / RESULTS), "page": str(folder / PAGE)}
    found["seconds"] = round(time.perf_counter() - started, 1)
    if json:
        print_json(found)
        return
    if "page" in found:
        print_line(f"results: {found['results']}\npage: {found['page']}")
    print_line(f"({found['seconds']:.0f} seconds)")


def _reproduce_labels(
    data: Path, folder: Path, options: RunOptions, *, quick: bool, n_splits: int, json: bool
) -> None:
    """Run the study of MIR-Flickr, and print its figures."""
    from supdocnade.paper.mirflickr import QUICK, RESULTS, LabelPlan, reproduce_labels

    plan = QUICK if quick else LabelPlan()
    plan = replace(plan, n_splits=min(n_splits, plan.n_splits))
    with ProgressBars(quiet=json) as progress:
        found = reproduce_labels(data, folder, plan, replace(options, progress=progress))
    if json:
        print_json({"dataset": "mirflickr", "folder": str(folder), **found})
        return
    rows = [["mean average precision of labels", "mean", "standard deviation"]]
    for method, each in found["mean_average_precision"].items():
        deviation = each["standard_deviation"]
        rows.append(
            [method, f"{each['mean']:.3f}", "-" if deviation is None else f"{deviation:.3f}"]
        )
    print_line(f"{format_table(rows)}\nresults: {folder / RESULTS}")
