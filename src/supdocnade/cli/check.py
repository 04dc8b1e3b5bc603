"""`supdocnade check`: look for problems in a folder of photographs before training."""

import typer

from supdocnade.cli import options as opt
from supdocnade.cli.console import (
    ProgressBars,
    print_json,
    print_line,
)
from supdocnade.scene.settings import SceneSettings


def check(
    photos: opt.Photos,
    min_tag_count: opt.MinTagCount = SceneSettings.min_tag_count,
    jobs: opt.Jobs = -1,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Look for problems in a folder of photographs before training.

    PHOTOS is read as by `train`, but nothing is learned and nothing is written. The result lists
    classes, tags, files that are passed over, all files that cannot be read, rare tags, names that
    look alike, near-duplicates, photographs in two classes, and classes with few photographs. The
    exit code is 1 if some photographs or lines of the metadata cannot be read.

    \b
    Examples:
      supdocnade check photos
      supdocnade check photos --json
    """
    from supdocnade.cli.run_check import check_folder, format_check

    with ProgressBars(quiet=quiet) as progress:
        found = check_folder(photos, min_tag_count=min_tag_count, jobs=jobs, progress=progress)
    if json:
        print_json(found)
    else:
        for line in format_check(found):
            print_line(line)
    if found["unreadable"] or found["invalid_lines"]:
        raise typer.Exit(1)
