"""`supdocnade evaluate`: measure a model on photographs with known classes and tags."""

from typing import Annotated

import typer

from supdocnade.cli import options as opt
from supdocnade.cli.console import (
    print_json,
    print_line,
    print_message,
)
from supdocnade.runs import RunOptions

All = Annotated[bool, typer.Option("--all", help="Print the whole confusion matrix, and all tags.")]


def evaluate(
    model: opt.Model,
    photos: opt.Photos,
    all_rows: All = False,
    device: opt.Device = "auto",
    jobs: opt.Jobs = -1,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Measure a model on photographs with known classes and tags.

    PHOTOS is read as by `train`; it may be a corpus that `supdocnade encode` has written with this
    model. Use photographs that the model was not trained on: otherwise the
    figures are too good. Accuracy is the share of correct classes; the F-measure compares the five
    best tags with the true ones. The calibration error tells how far the probabilities are off; 0
    is perfect. The precision of a tag is the share of right ones among its predictions, its recall
    the share of the photographs with the tag that were found.

    \b
    Examples:
      supdocnade evaluate scenes other-photos
      supdocnade evaluate scenes other-photos --json
      supdocnade evaluate scenes other-photos.corpus
    """
    from supdocnade.cli.run_evaluate import evaluate_model, evaluation_to_dict, format_evaluation

    opt.check_device(device)
    options = RunOptions(n_jobs=jobs, device=device)
    evaluation = evaluate_model(model, photos, options, quiet=quiet)
    if evaluation.n_trained and not quiet:
        were = "was" if evaluation.n_trained == 1 else "were"
        print_message(
            f"note: {evaluation.n_trained} of these photographs {were} used for training, "
            "so the figures are too good."
        )
    for each in evaluation.skipped:
        print_message(f"error: {each.reason}")
    if json:
        print_json(evaluation_to_dict(evaluation))
    else:
        print_line(format_evaluation(evaluation, all_rows=all_rows))
    if evaluation.skipped:
        raise typer.Exit(1)
