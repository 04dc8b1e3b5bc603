"""`supdocnade reproduce`: the paper's experiments on its data sets, from photographs to a page."""

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from supdocnade.cli import options as opt
from supdocnade.cli.console import (
    ProgressBars,
    print_json,
    print_line,
    print_message,
)
from supdocnade.run_options import RunOptions

DataSetName = Literal["scene15", "labelme", "uiuc"]
ProductsName = Literal["float32", "tf32", "bf16"]
StageName = Literal["all", "words", "models", "others", "page"]


def reproduce(
    dataset: Annotated[
        DataSetName, typer.Argument(metavar="DATASET", help="scene15, labelme or uiuc.")
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
    page.

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
