"""`supdocnade check`: look for problems in a folder of photographs before training."""

from pathlib import Path
from typing import Any

from supdocnade.cli.console import (
    format_count,
    format_table,
    print_json,
    print_line,
    show_progress,
)
from supdocnade.cli.learning_commands import Check
from supdocnade.folders.photo_sources import scan_photographs
from supdocnade.folders.tags import count_tags, find_similar_names
from supdocnade.images.network_library import choose_features
from supdocnade.runs import RunOptions
from supdocnade.scene.dataset import SMALL_CLASS, from_records
from supdocnade.scene.inspection import (
    LIMIT,
    describe_class_conflicts,
    describe_rare_tags,
    describe_similar_names,
    describe_single_class,
    describe_small_classes,
    find_class_conflicts,
    inspect_photographs,
    list_some,
)
from supdocnade.scene.persistence import load_scene
from supdocnade.scene.settings import SceneSettings
from supdocnade.scene.suggestion import find_doubtful
from supdocnade.text import clean_name, format_percent
from supdocnade.visual_words.settings import VisualWordSettings

MAX_NAMED = 20
"""Maximum number of names in a line; --json has all."""


def check(options: Check) -> int:
    """Print the problems; return 1 if some photographs or lines cannot be read."""
    with show_progress(options, on_error="skip") as run:
        found = check_folder(
            options.photos, classes=options.classes, model=options.model, options=run
        )
    if options.json:
        print_json(found)
    else:
        for line in format_check(found):
            print_line(line)
    return 1 if found["unreadable"] or found["invalid_lines"] else 0


def check_folder(
    photos: str,
    *,
    classes: str | None = None,
    model: Path | None = None,
    options: RunOptions,
) -> dict[str, Any]:
    """Return the object that `--json` prints."""
    folder = scan_photographs(photos, options.progress, on_error="skip", classes=classes)
    photographs = from_records(folder.records)
    describer = None
    if choose_features() == "sift":  # A network describes images of any shape.
        describer = VisualWordSettings.for_photographs().sift()
    picture_B, unreadable = inspect_photographs(photographs, describer, options)
    members: dict[int, list[str]] = {}
    for name, picture in zip(photographs.names, picture_B.tolist(), strict=True):
        members.setdefault(picture, []).append(name)
    doubtful, n_learned = (
        ([], 0) if model is None else find_doubtful(load_scene(model), photographs, options)
    )
    counts, min_tag_count = photographs.count_classes(), SceneSettings.min_tag_count
    tags = count_tags(photographs.tags)
    return {
        "folder": photos,
        "n_images": len(photographs),
        "n_unlabelled": photographs.labels.count(None),
        "n_tagged": sum(bool(some) for some in photographs.tags),
        "classes": dict(sorted(counts.items())),
        "tags": dict(tags.most_common()),
        "min_tag_count": min_tag_count,
        "rare_tags": sorted(name for name, count in tags.items() if count < min_tag_count),
        "small_classes": sorted(name for name, count in counts.items() if count < SMALL_CLASS),
        "similar_classes": find_similar_names(counts),
        "similar_tags": find_similar_names(tags),
        "notes": list(folder.notes),
        "invalid_lines": list(folder.invalid_lines),
        "unreadable": [{"file": each.name, "reason": each.reason} for each in unreadable],
        "near_duplicates": [names for names in members.values() if len(names) > 1],
        "in_two_classes": find_class_conflicts(photographs, picture_B),
        "doubtful": doubtful,
        "n_learned": n_learned,
    }


def format_check(found: dict[str, Any]) -> list[str]:
    """Return the lines that are printed without `--json`."""
    n_images = format_count(found["n_images"], "photograph")
    classes = format_count(len(found["classes"]), "class")
    tags = format_count(len(found["tags"]), "tag")
    lines = [f"{n_images} in {classes}; {tags} on {found['n_tagged']:,} of them"]
    rows = [[clean_name(label), f"{count:,}"] for label, count in found["classes"].items()]
    if found["n_unlabelled"]:
        rows.append(["without a class", f"{found['n_unlabelled']:,}"])
    lines += [f"  {line}" for line in format_table(rows).splitlines()]
    below, n_groups = f"{found['folder']}/", len(found["near_duplicates"])
    n_doubtful = len(found["doubtful"])
    repeated = [
        list_some([name.removeprefix(below) for name in names], LIMIT)
        for names in found["near_duplicates"][:MAX_NAMED]
    ]
    invalid, n_more = found["invalid_lines"][:MAX_NAMED], len(found["invalid_lines"]) - MAX_NAMED
    problems = [
        *found["notes"],
        *invalid,
        f"{format_count(n_more, 'other line')} of the metadata cannot be read."
        if n_more > 0
        else "",
        describe_single_class(found["classes"]),
        describe_small_classes(found["classes"], MAX_NAMED),
        describe_similar_names(found["classes"], "classes", MAX_NAMED),
        describe_rare_tags(found["tags"], found["min_tag_count"], MAX_NAMED),
        describe_similar_names(found["tags"], "tags", MAX_NAMED),
        *(f"near-duplicates: {names}." for names in repeated),
        f"{format_count(n_groups - MAX_NAMED, 'other group')} of near-duplicates."
        if n_groups > MAX_NAMED
        else "",
        describe_class_conflicts(found["in_two_classes"]),
        *map(describe_doubt, found["doubtful"][:MAX_NAMED]),
        f"{format_count(n_doubtful - MAX_NAMED, 'other photograph')} with probably wrong labels."
        if n_doubtful > MAX_NAMED
        else "",
        f"{format_count(found['n_learned'], 'photograph')} not compared with the model, which has "
        "learned from them."
        if found["n_learned"]
        else "",
        *(each["reason"] for each in found["unreadable"]),
    ]
    problems = [clean_name(line) for line in problems if line]
    return [*lines, *(problems or ["no problems found"])]


def describe_doubt(each: dict[str, Any]) -> str:
    """Return a sentence about a photograph whose class or tags are probably wrong."""
    said = []
    if each["probability"] is not None:
        share = format_percent(each["probability"])
        said.append(f"in {each['label']}, but looks like {each['predicted']} ({share})")
    for verb, tags in (
        ("lacks", each["missing_tags"]),
        ("should not have", each["improbable_tags"]),
    ):
        if tags:
            said.append(f"probably {verb} {list_some(tags, LIMIT)}")
    return f"{each['file']}: {'; '.join(said)}."
