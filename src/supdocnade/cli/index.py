"""`supdocnade index`: index folders of photographs for the gallery."""

import os
from pathlib import Path

from supdocnade.cli.console import ProgressBars, print_json, print_line, print_message
from supdocnade.cli.formats import format_count, print_passed_over
from supdocnade.cli.model_commands import Index
from supdocnade.cli.stopping import SAME_COMMAND, explain_resuming
from supdocnade.gallery.build import build_gallery
from supdocnade.images.source import normalize_address
from supdocnade.runs import RunOptions
from supdocnade.scene.persistence import load_scene


def index(options: Index) -> int:
    """Write the index or bring it up to date; return 1 if some photographs cannot be read."""
    photos = [normalize_address(place) for place in options.photos]
    target = default_index(options.model) if options.output is None else options.output
    fitted, _ = load_scene(options.model)
    if not options.quiet:
        print_passed_over(photos)
    explain_resuming(SAME_COMMAND)
    with ProgressBars(quiet=options.quiet) as progress:
        run = RunOptions(n_jobs=options.jobs, progress=progress)
        gallery, skipped, dropped = build_gallery(
            fitted, photos, target, run, start_over=options.replace
        )
    for each in skipped:
        print_message(f"error: {each.reason}")
    n_copies = gallery.count_copies()
    if options.json:
        described = {"index": os.fspath(target), "n_images": len(gallery), "n_copies": n_copies}
        names = [each.name for each in skipped]
        print_json({**described, "dropped": dropped, "skipped": names})
    elif not options.quiet:
        print_line(f"{format_count(len(gallery), 'photograph')} indexed in {target}")
        if n_copies:
            print_line(f"{n_copies} of them {'is a copy' if n_copies == 1 else 'are copies'}")
        for folder, n_dropped in dropped.items():
            print_line(f"{format_count(n_dropped, 'photograph')} of {folder} dropped")
    return 1 if skipped else 0


def default_index(model: Path) -> Path:
    """Return the default path of the index of a model."""
    folder = model if model.name.strip(".") else Path(os.path.abspath(model))
    return folder.with_name(f"{folder.name}.index")
