"""`supdocnade train`: from a folder of photographs to a model."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from supdocnade.cli.console import Stages, count, percent, say, say_json
from supdocnade.cli.options import Debug, Device, Jobs, Json, Photos, Quiet, Seed, check_device
from supdocnade.cli.run import OPTIONS, Request, train_model
from supdocnade.scene.settings import SceneSettings

if TYPE_CHECKING:
    from supdocnade.scene.model import SceneModel

_DEFAULTS = SceneSettings()


def train(
    context: typer.Context,
    photos: Photos,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the new model.")],
    topics: Annotated[int, typer.Option(min=1, help="Topics.")] = _DEFAULTS.n_topics,
    words: Annotated[int, typer.Option(min=2, help="Visual words.")] = _DEFAULTS.n_words,
    classifier: Annotated[
        Literal["svm", "softmax"],
        typer.Option(help="The paper's SVM on topics, or the model's own softmax."),
    ] = "svm",
    epochs: Annotated[
        int, typer.Option(min=1, help="Passes over the photographs at most.")
    ] = _DEFAULTS.max_epochs,
    learning_rate: Annotated[
        float, typer.Option(min=0, help="Of the topic model.")
    ] = _DEFAULTS.learning_rate,
    mirror: Annotated[
        bool,
        typer.Option("--mirror/--no-mirror", help="Learn from mirror images, too."),
    ] = _DEFAULTS.mirror,
    min_tag_count: Annotated[
        int, typer.Option(min=1, help="Tags of fewer photographs are not learned.")
    ] = _DEFAULTS.min_tag_count,
    tune: Annotated[bool, typer.Option("--tune", help="Also search for better settings.")] = False,
    tune_trials: Annotated[
        int, typer.Option(min=1, help="Settings that --tune tries.")
    ] = _DEFAULTS.tune_trials,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Leave out files that cannot be read.")
    ] = False,
    cache: Annotated[
        Path | None, typer.Option(help="Folder that remembers what photographs look like.")
    ] = None,
    add: Annotated[
        Path | None,
        typer.Option("--add", help="A model: learn from its photographs, too, with its words."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a model that exists.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was stopped.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Forget a run that was stopped.")
    ] = False,
    seed: Seed = 0,
    device: Device = "auto",
    jobs: Jobs = -1,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Learn classes and tags from a folder of photographs.

    PHOTOS has one folder a class: PHOTOS/coast/1.jpg. Photographs directly in PHOTOS, or in
    PHOTOS/_unlabelled, have no class. Tags are in PHOTOS/metadata.jsonl or metadata.csv (file_name,
    label, tags) or in tags.tsv (file<TAB>tag|tag). Nothing leaves this machine.

    After Ctrl-C, or when a file cannot be read, --resume goes on where it was. Settings stay as
    they were; --skip-unreadable may be added, and --jobs, --cache, --force, --json and --quiet are
    free.

    \b
    Examples:
      supdocnade train photos -o scenes
      supdocnade train photos -o scenes --tune --seed 1
      supdocnade train photos -o scenes --resume
      supdocnade train more-photos --add scenes -o more-scenes
    """
    check_device(device)
    values = {name: context.params[option] for name, option in OPTIONS.items()}
    request = Request(
        photos=photos,
        output=output,
        settings={**values, "on_error": "skip" if skip_unreadable else "raise"},
        given=frozenset(
            name
            for name, option in OPTIONS.items()
            if getattr(context.get_parameter_source(option), "name", "") == "COMMANDLINE"
        ),
        jobs=jobs,
        device=device,
        cache=cache,
        add=add,
        force=force,
        resume=resume,
        restart=restart,
        quiet=quiet,
    )
    model, stages = train_model(request)
    if json:
        say_json(describe_model(model, output, stages))
    elif not quiet:
        _tell(model, output)


def describe_model(model: "SceneModel", output: Path, stages: Stages) -> dict[str, Any]:
    """Return what `--json` prints."""
    fitted = model.fitted_
    return {
        "model": os.fspath(output),
        "classes": list(fitted.classes),
        "tags": list(fitted.tag_names),
        "data": fitted.data,
        "held_out": {"n_images": fitted.held_out.n_images, **fitted.held_out.figures},
        "n_epochs": fitted.choices.n_epochs,
        "tuned": fitted.choices.tuned,
        "skipped": [{"file": each.name, "reason": each.reason} for each in model.skipped_],
        "seconds": {stage: round(seconds, 2) for stage, seconds in stages.seconds.items()},
    }


def _tell(model: "SceneModel", output: Path) -> None:
    fitted = model.fitted_
    learned = [count(len(fitted.classes), "class"), count(len(fitted.tag_names), "tag")]
    say(f"learned {' and '.join(learned)} from {count(fitted.data['n_images'], 'photograph')}")
    held_out, figures = fitted.held_out, []
    if "accuracy" in held_out.figures:
        figures.append(f"accuracy {percent(held_out.figures['accuracy'])}")
    if "f_measure" in held_out.figures:
        figures.append(f"F-measure of five tags {held_out.figures['f_measure']:.2f}")
    if not held_out.n_images:
        say("too few photographs to hold any out: probabilities are the model's own word")
    if figures:
        part = count(held_out.n_images, "photograph")
        say(f"on {part} held out, before learning from all: {', '.join(figures)}")
    say(f"model written to {output}")
