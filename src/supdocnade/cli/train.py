"""`supdocnade train`: learn a model from photographs or from a corpus."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from supdocnade.cli import options as opt
from supdocnade.cli.console import print_json
from supdocnade.scene.settings import SceneSettings

_DEFAULTS = SceneSettings()

OPTIONS = {
    "n_topics": "topics",
    "features": "features",
    "n_words": "words",
    "n_sift_words": "sift_words",
    "classifier": "classifier",
    "max_epochs": "epochs",
    "learning_rate": "learning_rate",
    "mirror": "mirror",
    "min_tag_count": "min_tag_count",
    "random_state": "seed",
    "on_error": "skip_unreadable",
}
"""Settings of `SceneModel`, and the parameters of the command that give them."""

Output = Annotated[Path, typer.Option("--output", "-o", help="Folder of the new model.")]
Topics = Annotated[int | None, opt.of_setting("n_topics")]
Words = Annotated[int | None, opt.of_setting("n_words")]
SIFTWords = Annotated[int | None, opt.of_setting("n_sift_words")]
Classifier = Annotated[Literal["auto", "svm", "softmax"], opt.of_setting("classifier")]
Epochs = Annotated[int, opt.of_setting("max_epochs")]
LearningRate = Annotated[float, opt.of_setting("learning_rate")]
Mirror = Annotated[bool | None, opt.of_setting("mirror", "--mirror/--no-mirror")]
Cache = Annotated[
    Path | None, typer.Option(help="Cache folder, so that photographs are not analysed again.")
]
Add = Annotated[
    Path | None,
    typer.Option(
        "--add",
        help="Extend this model: train on its photographs and the new ones, keeping its visual "
        "words.",
    ),
]
Corrections = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="With --add: learn only from the photographs of PHOTOS that FILE corrects, a .jsonl "
        "file of serve --corrections, or a filled-in list of suggest --csv.",
    ),
]
Restart = Annotated[bool, typer.Option("--restart", help="Discard an interrupted run.")]


def train(
    context: typer.Context,
    photos: opt.Photos,
    output: Output,
    topics: Topics = _DEFAULTS.n_topics,
    features: opt.Features = "auto",
    words: Words = _DEFAULTS.n_words,
    sift_words: SIFTWords = _DEFAULTS.n_sift_words,
    classifier: Classifier = "auto",
    epochs: Epochs = _DEFAULTS.max_epochs,
    learning_rate: LearningRate = _DEFAULTS.learning_rate,
    mirror: Mirror = _DEFAULTS.mirror,
    min_tag_count: opt.MinTagCount = _DEFAULTS.min_tag_count,
    skip_unreadable: opt.SkipUnreadable = False,
    cache: Cache = None,
    add: Add = None,
    corrections: Corrections = None,
    force: opt.Force = False,
    resume: opt.Resume = False,
    restart: Restart = False,
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
    jobs: opt.Jobs = -1,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Learn classes and tags from a folder of photographs.

    PHOTOS has one sub-folder per class: PHOTOS/coast/1.jpg. Photographs directly in PHOTOS, or in
    PHOTOS/_unlabelled, have no class. Tags are in PHOTOS/metadata.jsonl or metadata.csv (file_name,
    label, tags), in tags.tsv (file<TAB>tag|tag), or in XMP sidecars and the photographs themselves,
    as keywords. PHOTOS may also be a corpus of `supdocnade encode`: its visual words are used, and
    the photographs need not fit into memory. Nothing leaves this machine.

    --resume continues a run that was interrupted with Ctrl-C or by a file that cannot be read.
    Settings must stay the same, except --skip-unreadable, --jobs, --cache, --force, --json and
    --quiet.

    \b
    Examples:
      supdocnade train photos -o scenes
      supdocnade train photos -o scenes --seed 1
      supdocnade train photos -o scenes --resume
      supdocnade train 'shards-{000..010}.tar' -o scenes
      supdocnade train more-photos --add scenes -o more-scenes
      supdocnade train archive --add scenes --corrections corrections.jsonl -o better-scenes
      supdocnade train photos.corpus -o large-scenes
    """
    from supdocnade.cli.run_train import (
        TrainingRequest,
        model_to_dict,
        print_summary,
        share_training,
        train_model,
    )

    opt.check_device(device)
    values = {name: context.params[option] for name, option in OPTIONS.items()}
    settings = {**values, "on_error": "skip" if skip_unreadable else "raise"}
    # Its other fields are options of the same name.
    given: dict[str, Any] = {
        each.name: context.params.get(each.name) for each in fields(TrainingRequest)
    }
    given |= {"settings": settings, "explicit": _explicit_settings(context)}
    request = TrainingRequest(**given)
    with share_training() as first:
        if not first:
            return
        model, seconds = train_model(request)
    if json:
        print_json(model_to_dict(model, output, seconds))
    elif not quiet:
        print_summary(model, output)


def _explicit_settings(context: typer.Context) -> frozenset[str]:
    """Return the settings that are on the command line."""
    sources = {name: context.get_parameter_source(option) for name, option in OPTIONS.items()}
    return frozenset(
        name for name, each in sources.items() if getattr(each, "name", "") == "COMMANDLINE"
    )
