"""`supdocnade train`: from a folder of photographs to a model."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from supdocnade.cli.console import Stages, count, note, percent, say, say_json
from supdocnade.cli.options import Debug, Device, Jobs, Json, Photos, Quiet, Seed, check_device
from supdocnade.cli.unfinished import UnfinishedRun
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.scene.settings import SceneSettings

if TYPE_CHECKING:
    from supdocnade.datasets.records import ImageRecord
    from supdocnade.scene.model import SceneModel

_DEFAULTS = SceneSettings()

_OPTIONS = {
    "n_topics": "topics",
    "n_words": "words",
    "classifier": "classifier",
    "max_epochs": "epochs",
    "learning_rate": "learning_rate",
    "min_tag_count": "min_tag_count",
    "tune": "tune",
    "tune_trials": "tune_trials",
    "random_state": "seed",
    "on_error": "skip_unreadable",
}
"""Settings of `SceneModel` that can be given, and the parameters that give them."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a run is asked to do."""

    photos: Path
    output: Path
    settings: dict[str, Any]
    """Of `SceneModel`."""
    given: frozenset[str] = frozenset()
    """Settings that were asked for by name: resuming may not change them."""
    jobs: int = -1
    cache: Path | None = None
    add: Path | None = None
    """A model whose photographs are learned from, too."""
    force: bool = False
    resume: bool = False
    restart: bool = False
    quiet: bool = False


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

    After Ctrl-C the same command with --resume goes on where it was.

    \b
    Examples:
      supdocnade train photos -o scenes
      supdocnade train photos -o scenes --tune --seed 1
      supdocnade train photos -o scenes --resume
      supdocnade train more-photos --add scenes -o more-scenes
    """
    check_device(device)
    values = {name: context.params[option] for name, option in _OPTIONS.items()}
    request = Request(
        photos=photos,
        output=output,
        settings={**values, "on_error": "skip" if skip_unreadable else "raise"},
        given=frozenset(
            name
            for name, option in _OPTIONS.items()
            if getattr(context.get_parameter_source(option), "name", "") == "COMMANDLINE"
        ),
        jobs=jobs,
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


def train_model(request: Request) -> "tuple[SceneModel, Stages]":
    """Train a model and write it; return it with the time that every stage took."""
    check_output(request.output, force=request.force)
    unfinished = UnfinishedRun(request.output)
    unfinished.check_idle()
    settings = _settings(request, unfinished)
    from supdocnade.datasets.folder import read_folder
    from supdocnade.scene.model import SceneModel

    records = read_folder(request.photos)
    check_records(request.photos, records, quiet=request.quiet)
    if not request.resume:
        unfinished.begin(request.photos, settings)
    previous = settings.pop("add", None)
    model = SceneModel() if previous is None else SceneModel.load(previous)
    model.set_params(
        **settings,
        n_jobs=request.jobs,
        cache=request.cache or unfinished.words,
        checkpoint=unfinished.checkpoint,
    )
    learn = model.fit if previous is None else model.fit_more
    try:
        with unfinished.lock(), Stages(quiet=request.quiet) as stages:
            learn(
                [record.path for record in records],
                [record.label for record in records],
                [record.tags for record in records],
                on_stage=stages,
            )
            stages("writing", 0, 1)
            check_output(request.output, force=request.force)
            model.save(request.output)
            stages("writing", 1, 1)
    except KeyboardInterrupt:
        note(f"stopped; go on with: {_resuming(request)}")
        raise typer.Exit(130) from None
    except StorageError as error:
        unfinished.discard_unless_useful()
        if request.resume and "checkpoint" in str(error):
            raise StorageError(f"{error} Begin anew with --restart.") from error
        raise
    except Exception:
        unfinished.discard_unless_useful()
        raise
    unfinished.discard()
    for each in () if request.quiet else model.left_out_:
        note(f"left out: {each.reason}")
    return model, stages


def check_output(output: Path, *, force: bool) -> None:
    """Refuse a place where a model would destroy something, before any work is done."""
    from supdocnade.scene.saved import DESCRIPTION, check_target

    check_target(output)
    if (output / DESCRIPTION).is_file() and not force:
        raise StorageError(f"{output} holds a model; --force replaces it.")


def check_records(photos: Path, records: "Sequence[ImageRecord]", *, quiet: bool) -> None:
    """Refuse photographs of which nothing can be learned; say what may not be meant."""
    from supdocnade.datasets.folder import folder_label

    labels = [record.label for record in records if record.label is not None]
    if not labels and not any(record.tags for record in records):
        raise InvalidArgument(
            f"{photos} must have classes (one folder each) or tags (metadata.jsonl), got neither."
        )
    if quiet:
        return
    if len(set(labels)) == 1:
        note(f"note: all labelled photographs are of one class, {labels[0]}.")
    for label in sorted(set(labels)):
        if labels.count(label) == 1:
            note(f"note: class {label} has one photograph.")
    others = [
        record
        for record in records
        if record.label != folder_label(record.path.relative_to(photos).as_posix())
    ]
    if others:
        first = others[0]
        note(
            f"note: the metadata gives {count(len(others), 'photograph')} another class than the "
            f"folder, such as {first.label or 'none'} for {first.path}; the metadata counts."
        )


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
        "left_out": [{"file": each.name, "reason": each.reason} for each in model.left_out_],
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


def _settings(request: Request, unfinished: UnfinishedRun) -> dict[str, Any]:
    """Return the settings of a new run, or those of the run to go on with."""
    if request.resume and request.restart:
        raise InvalidArgument("--resume and --restart must not both be given.")
    if request.restart:
        unfinished.discard()
    if not request.resume:
        if unfinished.exists:
            raise StorageError(
                f"{unfinished.folder} holds a run that was stopped: go on with --resume, "
                "or begin anew with --restart."
            )
        return _new_settings(request)
    settings = unfinished.settings(request.photos)
    for name in sorted(request.given & settings.keys()):
        if settings.get(name) != request.settings[name]:
            option = "--" + _OPTIONS[name].replace("_", "-")
            raise InvalidArgument(
                f"{option} must be as in the run to resume, {settings.get(name)!r}, got "
                f"{request.settings[name]!r}; leave it out, or begin anew with --restart."
            )
    return settings


def _new_settings(request: Request) -> dict[str, Any]:
    """Return the settings of a new run; one that adds to a model has those of the model."""
    if request.add is None:
        return request.settings
    if "n_words" in request.given:
        raise InvalidArgument("--words must not be given with --add: the visual words stay.")
    given = {name: request.settings[name] for name in request.given}
    return {
        **given,
        "on_error": request.settings["on_error"],
        "random_state": request.settings["random_state"],
        "add": os.path.abspath(request.add),
    }


def _resuming(request: Request) -> str:
    """Return the command that goes on with a run."""
    parts = ["supdocnade", "train", os.fspath(request.photos), "-o", os.fspath(request.output)]
    if request.force:
        parts.append("--force")
    if request.cache is not None:
        parts += ["--cache", os.fspath(request.cache)]
    return shlex.join([*parts, "--resume"])
