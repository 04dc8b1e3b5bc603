"""`supdocnade predict`: print the class and tags of photographs, one line each."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from supdocnade.cli import options as opt
from supdocnade.cli.console import (
    CSV_HEADER,
    format_csv,
    format_json,
    format_text,
    print_line,
    print_message,
    print_passed_over,
)
from supdocnade.cli.options import UsageError
from supdocnade.images.source import normalize_address
from supdocnade.runs import RunOptions

OptionalModel = Annotated[Path | None, typer.Argument(metavar="MODEL", help="Folder of a model.")]
Images = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="IMAGE",
        help="Photographs, folders, addresses (s3://bucket/photos), tar files, or text "
        "files that list photographs.",
    ),
]
FilesFrom = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Read names of photographs from FILE; -: from stdin."),
]
Top = Annotated[
    int | None,
    typer.Option(
        min=1, help="Give exactly this many tags; by default, all that are probable enough."
    ),
]
Csv = Annotated[bool, typer.Option("--csv", help="Print results as CSV.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        help="Write results to files in a new FOLDER, not to stdout. An interrupted run resumes.",
    ),
]
WriteXmp = Annotated[
    bool, typer.Option("--write-xmp", help="Write tags to .xmp files beside photographs.")
]
MinProbability = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        help="Write tags of at least this probability; by default, for each tag, the "
        "probability at which 80 % were right on held-out photographs.",
    ),
]
XmpLabel = Annotated[
    bool,
    typer.Option(
        "--xmp-label",
        help="Also write the class as a keyword, unless it is unsure or the photograph is unlike "
        "the training photographs.",
    ),
]
XmpName = Annotated[
    Literal["full", "stem"],
    typer.Option(help="full: a.jpg.xmp (darktable, digiKam); stem: a.xmp (Adobe)."),
]
Record = Annotated[
    Path | None,
    typer.Option(
        help="File that records what was written; default: ./supdocnade-xmp-DATE-TIME.jsonl."
    ),
]
Undo = Annotated[
    Path | None,
    typer.Option(metavar="RECORD", help="Remove from .xmp files what RECORD says was written."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only list the .xmp files that would be changed.")
]


def predict(
    model: OptionalModel = None,
    images: Images = None,
    files_from: FilesFrom = None,
    top: Top = None,
    json: opt.Json = False,
    csv: Csv = False,
    output: Output = None,
    shard_size: opt.ShardSize = 1000,
    write_xmp: WriteXmp = False,
    min_probability: MinProbability = None,
    xmp_label: XmpLabel = False,
    xmp_name: XmpName = "full",
    record: Record = None,
    undo: Undo = None,
    dry_run: DryRun = False,
    cluster: opt.Cluster = None,
    device: opt.Device = "auto",
    jobs: opt.Jobs = -1,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Predict the class and the tags of photographs.

    Results are printed as soon as they are known, also while names still arrive through a pipe
    (--files-from -). Files that cannot be read are listed on stderr; the exit code is then 1.
    Photographs are never changed: --write-xmp writes tags to .xmp files beside them, for photo
    managers; the contents of an existing .xmp file are preserved. --undo needs no model.

    \b
    Examples:
      supdocnade predict scenes photo.jpg
      supdocnade predict scenes holiday/ --json > holiday.jsonl
      find . -name '*.jpg' | supdocnade predict scenes --files-from - --csv
      supdocnade predict scenes archive/ -o archive-tags --cluster local
      supdocnade predict scenes holiday/ --write-xmp --dry-run
      supdocnade predict scenes holiday/ --write-xmp --record holiday.jsonl
      supdocnade predict --undo holiday.jsonl
    """
    opt.check_device(device, cluster)
    opt.check_formats(json=json, csv=csv)
    not_for_files = {"csv": csv, "write_xmp": write_xmp}
    check_options("--output", output, {"cluster": cluster}, not_for_files)
    from supdocnade.cli import run_predict
    from supdocnade.scene.persistence import load_scene

    if undo is not None:
        if model is not None or files_from is not None or write_xmp or json or csv:
            raise UsageError("--undo takes no model, no photographs and no option but --dry-run.")
        n_failed = run_predict.undo_all(undo, dry_run=dry_run, quiet=quiet)
        raise typer.Exit(1 if n_failed else 0)
    xmp: dict[str, Any] = {"dry_run": dry_run, "min_probability": min_probability, "record": record}
    check_options("--write-xmp", write_xmp, xmp)
    if model is None:
        raise UsageError("missing argument 'MODEL'.")
    if not images and files_from is None:
        raise UsageError("no photographs were given; name some or use --files-from.")
    images = [normalize_address(image) for image in images or ()]
    named = [] if files_from is None else run_predict.read_paths(files_from)
    # Not SceneModel, an estimator: importing scikit-learn and torch takes seconds.
    fitted, _ = load_scene(model)
    options = RunOptions(n_jobs=jobs, device=device, on_error="skip", cluster=cluster)
    photos = run_predict.expand_batches(images, named)
    if output is not None:
        from supdocnade.cli.prediction_files import predict_to_folder

        files = (output, top, shard_size)
        raise typer.Exit(predict_to_folder(fitted, photos, options, *files, quiet=quiet))
    xmp |= {"by_stem": xmp_name == "stem", "with_label": xmp_label}
    sidecars = run_predict.open_sidecars(fitted, images, **xmp) if write_xmp else None
    format_line = format_json if json else format_csv if csv else format_text
    if csv:
        print_line(CSV_HEADER)
    if not quiet:
        print_passed_over(images)
    try:
        n_failed = run_predict.predict_all(
            fitted, options, photos, format_line, sidecars, top=top, quiet=quiet
        )
    finally:  # Also after Ctrl-C: the summary names the record.
        if sidecars is not None and not quiet:
            print_message(sidecars.summary())
    raise typer.Exit(1 if n_failed else 0)


def check_options(
    option: str, given: object, needing: Mapping[str, object], excluded: Mapping[str, object] = {}
) -> None:
    """Raise `UsageError` for other options that need an option, or that it excludes.

    >>> check_options("--output", None, {"cluster": "auto"})
    Traceback (most recent call last):
    supdocnade.cli.options.UsageError: --cluster needs --output.
    """
    for name, value in (excluded if given else needing).items():
        if value is not None and value is not False:
            relation = "must not be given with" if given else "needs"
            raise UsageError(f"--{name.replace('_', '-')} {relation} {option}.")
