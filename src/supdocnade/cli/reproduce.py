"""`supdocnade reproduce`: the paper's experiments on its data sets, from photographs to a page."""

import sys
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from supdocnade.cli.console import ProgressBars, print_json, print_line, print_message
from supdocnade.cli.options import Debug, Device, Jobs, Json, Quiet, check_device

DataSetName = Literal["scene15", "labelme", "uiuc"]
ProductsName = Literal["float32", "tf32", "bf16"]
StageName = Literal["all", "words", "models", "others", "page"]


def reproduce(
    dataset: Annotated[
        DataSetName, typer.Argument(metavar="DATASET", help="scene15, labelme or uiuc.")
    ],
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of the photographs; not needed once they are words."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for everything; otherwise reproduction/DATASET.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version of everything, in minutes.")
    ] = False,
    splits: Annotated[
        int, typer.Option(min=1, max=5, help="The first of the five splits, if time is short.")
    ] = 5,
    stage: Annotated[
        StageName, typer.Option(help="One stage alone, for work on several machines.")
    ] = "all",
    device: Device = "auto",
    products: Annotated[
        ProductsName, typer.Option(help="How exactly a GPU multiplies while models are trained.")
    ] = "float32",
    jobs: Jobs = -1,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Repeat the paper's experiments, beside its own figures.

    Five splits; hyper-parameters chosen in each on photographs held out; every yardstick on the
    same words. Hours on a CPU. A run that was stopped goes on where it was. Stages: words (needs
    the photographs), models (needs OUT/words and two small files; has a use for a GPU), others
    (yardsticks), page.

    \b
    Examples:
      supdocnade reproduce labelme --data photos/labelme
      supdocnade reproduce scene15 --data photos/scene15 --quick
      supdocnade reproduce labelme --out reproduction/labelme --stage models --device cuda
    """
    check_device(device)
    folder = out or Path("reproduction") / (f"{dataset}-quick" if quick else dataset)
    started = time.perf_counter()
    if not (quiet or json):
        print_message(f"everything is kept in {folder}; Ctrl-C stops, the same command goes on")
    found = run(
        dataset, folder, data, quick, splits, stage,
        device=device, products=products, jobs=jobs, quiet=quiet,
    )  # fmt: skip
    found["seconds"] = round(time.perf_counter() - started, 1)
    if json:
        print_json(found)
        return
    if "page" in found:
        print_line(f"results: {found['results']}\npage: {found['page']}")
    print_line(f"({found['seconds']:.0f} seconds)")


class _Lines:
    """Notes what is begun, a line each, where there is no terminal to draw bars on."""

    def __init__(self, stages: ProgressBars):
        self.stages, self.last = stages, ""

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        self.stages(stage, done, total)
        if stage != self.last:
            self.last = stage
            print_message(f"{stage}: {total}")


def run(
    dataset: str,
    folder: Path,
    data: Path | None,
    quick: bool,
    splits: int,
    stage: str,
    *,
    device: str,
    products: str,
    jobs: int,
    quiet: bool,
) -> dict[str, Any]:
    """Do one stage, or all of them."""
    from supdocnade.paper.page import PAGE, write_page
    from supdocnade.paper.results import RESULTS
    from supdocnade.paper.stages import STAGES, open_study, run_stage

    with ProgressBars(quiet=quiet) as stages:
        on_stage = stages if quiet or sys.stderr.isatty() else _Lines(stages)
        study = open_study(
            dataset, folder, data, quick=quick, n_splits=splits, on_stage=on_stage, n_jobs=jobs
        )
        for each in STAGES if stage == "all" else (stage,):
            run_stage(
                study, each,
                device=device, products=products, backend="auto", n_jobs=jobs, on_stage=on_stage,
            )  # fmt: skip
    found: dict[str, Any] = {"dataset": dataset, "folder": str(folder)}
    if stage in ("all", "page"):
        write_page(folder / PAGE, [folder])
        found |= {"results": str(folder / RESULTS), "page": str(folder / PAGE)}
    return found
