"""`supdocnade demo`: train, evaluate and report on drawn scenes."""

import shlex
import time
from pathlib import Path
from typing import Annotated

import typer

from supdocnade.cli import options as opt
from supdocnade.cli.console import (
    ProgressBars,
    print_json,
    print_line,
    print_message,
)
from supdocnade.cli.report import REPORT
from supdocnade.cli.stopping import explain_resuming
from supdocnade.runs import RunOptions


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for scenes, model and report.")
    ] = Path("supdocnade-demo"),
    features: opt.Features = "auto",
    device: opt.Device = "auto",
    jobs: opt.Jobs = -1,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Train and evaluate a model on drawn scenes, in a minute or two.

    No photographs are needed. The demo learns from drawn scenes of eight classes, tests the model
    on fresh scenes, and writes a report.

    \b
    Examples:
      supdocnade demo
      supdocnade demo -o somewhere --features sift
    """
    opt.check_device(device)
    started = time.perf_counter()
    if not (quiet or json):
        print_message("learning from drawn scenes, all on this machine ...")
    command = ["supdocnade", "demo", "-o", f"{output}", "--features", features]
    explain_resuming(f"resume with: {shlex.join(command)}")
    from supdocnade.cli.run_demo import MODEL, PHOTOS, predict_examples, print_summary, run_demo

    with ProgressBars(quiet=quiet) as progress:
        options = RunOptions(n_jobs=jobs, device=device, progress=progress)
        model, evaluation = run_demo(output, features, options)
    examples = predict_examples(model, output)
    if json:
        print_json(
            {
                "photos": str(output / PHOTOS),
                "model": str(output / MODEL),
                "report": str(output / REPORT),
                "n_images": model.fitted_.data["n_images"],
                "n_fresh": evaluation.n_images,
                "accuracy": evaluation.accuracy,
                "f_measure": evaluation.f_measure,
                "predictions": [prediction.to_dict() for _, prediction in examples],
                "seconds": {stage: round(value, 2) for stage, value in progress.seconds.items()},
            }
        )
        return
    print_summary(output, model, evaluation, examples)
    print_line(f"({time.perf_counter() - started:.0f} seconds)")
