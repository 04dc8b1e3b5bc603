"""`supdocnade train`: learn a model from photographs or from a corpus."""

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from supdocnade.cli.console import (
    ProgressBars,
    describe_invalid_lines,
    format_count,
    format_held_out,
    offer_skipping,
    print_json,
    print_line,
    print_message,
    print_warnings,
)
from supdocnade.cli.features import describe_features, resolve_features
from supdocnade.cli.learning_commands import Train
from supdocnade.cli.options import flag_of
from supdocnade.cli.stopping import explain_resuming
from supdocnade.corpus.disk import Corpus, is_corpus
from supdocnade.errors import (
    InvalidArgument,
    UnreadableImage,
)
from supdocnade.folders.photo_folder import ImageRecord, PhotoFolder
from supdocnade.folders.photo_sources import scan_photographs
from supdocnade.folders.tags import count_tags
from supdocnade.images.source import absolute_address
from supdocnade.scene.corpus_photographs import load_corpus_words
from supdocnade.scene.corrections import correct_records, read_corrections
from supdocnade.scene.dataset import from_records
from supdocnade.scene.inspection import (
    describe_similar_names,
    describe_single_class,
    describe_small_classes,
)
from supdocnade.scene.model import SceneModel, scene_model
from supdocnade.scene.persistence import check_target
from supdocnade.scene.settings import WORD_SETTINGS, place_settings
from supdocnade.training.distributed import training_processes
from supdocnade.unfinished import PartialFolder

CHECKPOINT, WORDS = "checkpoint", "words"
"""Folders of an unfinished run: checkpoints, and the words of photographs that were read."""

FILES = ("add", "corrections")
OF_RUN = (*FILES, "classes")
"""Settings of a run that are not of the model."""

PARAMETERS = {"random_state": "seed", "on_error": "skip_unreadable"}
"""Settings that are options with another name."""

FLAGS = {"features": "--features", "n_topics": "--topics", "n_words": "--words"}
"""Settings that have an option of their own; --set gives the others."""


def train(options: Train) -> None:
    """Train a model, write it, and print what it learned."""
    with training_processes() as first:
        if not first:
            return
        try:
            model, seconds = train_model(options)
        except InvalidArgument as error:
            name, _, rest = str(error).partition(" must ")
            if name not in _settings(options):
                raise
            raise InvalidArgument(f"{_option(name)} must {rest}") from error
    if options.json:
        print_json(model_to_dict(model, options.output, seconds))
    elif not options.quiet:
        print_summary(model, options.output)


def train_model(options: Train) -> tuple[SceneModel, dict[str, float]]:
    """Train a model and write it; return it with the seconds of each stage."""
    if options.add is None and not is_corpus(Path(options.photos)):
        scene_model(**_values(options)).check()  # Before photographs are looked for.
    check_target(options.output, force=options.force)
    partial = PartialFolder(options.output, "train")
    with partial.lock():
        settings = _choose_settings(options, partial)
        corpus, folder = _read_data(options, settings)
        if not options.quiet:
            extends = settings.get("add") is not None
            words_of = options.photos if corpus is not None else settings.get("add")
            line = f"features: those of {words_of}"
            if words_of is None:
                line = describe_features(settings["features"])
            print_message(line)
            for note in (*describe_records(folder.records, extends=extends), *folder.notes):
                print_message(f"note: {note}")
        check_records(options.photos, folder.records)
        if corpus is not None:  # Its photographs may be millions, which the fit reads itself.
            folder = PhotoFolder([], ())
        partial.write_plan({"photos": absolute_address(options.photos), "settings": settings})
        explain_resuming(f"resume with: {_resume_command(options)}")
        try:
            with (
                ProgressBars(quiet=options.quiet) as progress,
                print_warnings(quiet=options.quiet),
                offer_skipping(),
            ):
                model = _train(options, partial, settings, corpus, folder, progress)
        except UnreadableImage:
            raise
        except Exception:
            if not _keep_work(partial):
                explain_resuming("")
            raise
        partial.discard()
    for each in () if options.quiet else model.skipped_:
        print_message(f"skipped: {each.reason}")
    return model, progress.seconds


def _read_data(options: Train, settings: dict[str, Any]) -> tuple[Corpus | None, PhotoFolder]:
    """Return the corpus if there is one, and the photographs."""
    if not is_corpus(Path(options.photos)):
        with ProgressBars(quiet=options.quiet, stage_lines=False) as progress:
            folder = scan_photographs(
                options.photos,
                progress,
                on_error=settings["on_error"],
                classes=settings.get("classes"),
            )
        if settings.get("corrections") is not None:
            return None, _correct(options.photos, folder, settings["corrections"])
        return None, replace(folder, notes=(*folder.notes, *describe_invalid_lines(folder)))
    corpus = Corpus.open(options.photos)
    rows = zip(corpus.names, corpus.labels, corpus.tags, strict=True)
    records = [
        ImageRecord(name or "", label, None if tags is None else tuple(tags))
        for name, label, tags in rows
    ]
    return corpus, PhotoFolder(records, ())


def _correct(photos: str, folder: PhotoFolder, corrections: str) -> PhotoFolder:
    """Return the photographs that a file corrects, with their new classes and tags."""
    corrected, notes = correct_records(folder.records, read_corrections(corrections))
    if not corrected:
        raise InvalidArgument(
            f"{corrections} must give a class or tags to photographs of {photos}, got none of them."
        )
    number = format_count(len(corrected), "photograph")
    return replace(folder, records=corrected, notes=(f"corrected: {number}.", *notes))


def _keep_work(partial: PartialFolder) -> bool:
    """Return True if the run can be resumed; otherwise discard it.

    It can be resumed once a photograph was read or something was learned.
    """
    useful = any(path.is_file() for path in (partial.folder / WORDS).rglob("*")) or any(
        (partial.folder / CHECKPOINT).rglob("*.safetensors")
    )
    if not useful:
        partial.discard()
    return useful


def _values(options: Train) -> dict[str, Any]:
    """Return the settings of `scene_model` that options give."""
    chosen = {"n_topics": options.n_topics, "n_words": options.n_words}
    given = {name: value for name, value in chosen.items() if value is not None}
    return {"features": resolve_features(options.features), **given, **options.settings}


def _settings(options: Train) -> dict[str, Any]:
    """Return the settings that options give."""
    return {
        **_values(options),
        "random_state": options.seed,
        "on_error": "skip" if options.skip_unreadable else "raise",
    }


def _explicit_settings(options: Train) -> dict[str, Any]:
    """Return the settings that are on the command line."""
    settings = _settings(options)
    return {
        name: settings[name] for name in settings if PARAMETERS.get(name, name) in options.given
    }


def _option(setting: str) -> str:
    """Return the option of the command that gives a setting.

    >>> _option("n_words"), _option("random_state"), _option("mirror")
    ('--words', '--seed', '--set mirror')
    """
    if setting in (*PARAMETERS, *FILES):
        return flag_of(PARAMETERS.get(setting, setting))
    return FLAGS.get(setting, f"--set {setting}")


def _train(
    options: Train,
    partial: PartialFolder,
    settings: dict[str, Any],
    corpus: Corpus | None,
    folder: PhotoFolder,
    progress: ProgressBars,
) -> SceneModel:
    previous = settings.get("add")
    learned = {name: value for name, value in settings.items() if name not in OF_RUN}
    if corpus is not None:  # The recipe depends on the features of its words.
        learned["features"] = load_corpus_words(corpus).settings.features
    if previous is None:
        model = scene_model(**learned)
    else:
        model, placed = SceneModel.load(previous), place_settings(learned)
        topics = {f"topics__{name}": value for name, value in placed["topics"].items()}
        model.set_params(**topics, **placed["scene"])
    model.set_params(
        n_jobs=options.jobs,
        device=options.device,
        cache=options.cache or partial.folder / WORDS,
        checkpoint=partial.folder / CHECKPOINT,
    )
    if corpus is not None:
        model.fit(corpus, progress=progress)
    else:
        fit = model.fit if previous is None else model.fit_more
        fit(
            [record.source for record in folder.records],
            [record.label for record in folder.records],
            [record.tags for record in folder.records],
            progress=progress,
        )
        model.fitted_ = model.fitted_.add_levels(folder.levels)
    progress("writing", 0, 1)
    check_target(options.output, force=options.force)
    model.save(options.output)
    progress("writing", 1, 1)
    return model


def check_records(photos: str, records: Sequence[ImageRecord]) -> None:
    """Raise if there is nothing to learn."""
    if not any(record.label is not None or record.tags for record in records):
        raise InvalidArgument(
            f"{photos} must have classes (one folder each) or tags (keywords, or a metadata file), "
            "got neither."
        )


def describe_records(records: Sequence[ImageRecord], *, extends: bool = False) -> list[str]:
    """Return notes about unusual classes and tags.

    If they are added to a model, few photographs of a class are not unusual.
    """
    labels = from_records(records).count_classes()
    notes = (
        None if extends else describe_single_class(labels),
        None if extends else describe_small_classes(labels),
        describe_similar_names(labels, "classes"),  # Those of tags are in `check`.
    )
    return [note for note in notes if note]


def _choose_settings(options: Train, partial: PartialFolder) -> dict[str, Any]:
    """Return the settings of a new run or of the run to resume."""
    # torchrun starts the same command again after a process was lost.
    again = "TORCHELASTIC_RUN_ID" in os.environ and partial.exists
    before = partial.choose_plan(resume=options.resume or again)
    if before is not None:
        if before["photos"] != absolute_address(options.photos):
            raise InvalidArgument(
                f"the run to resume learns from {before['photos']}, not from {options.photos}."
            )
        return _resumed_settings(options, before["settings"])
    if options.corrections is not None and options.add is None:
        raise InvalidArgument("--corrections needs --add, the model that is corrected.")
    if is_corpus(Path(options.photos)):
        if options.add is not None:
            raise InvalidArgument(f"--add must not be given with a corpus, got {options.photos}.")
        _check_not_explicit(options, "a corpus")
        return {key: value for key, value in _settings(options).items() if key != "features"}
    if options.add is None:
        return {**_settings(options), **_of_run(options)}
    _check_not_explicit(options, "--add")
    # Other settings are those of the model to which photographs are added.
    always = {name: _settings(options)[name] for name in ("on_error", "random_state")}
    return {**always, **_explicit_settings(options), **_of_run(options)}


def _of_run(options: Train) -> dict[str, str]:
    """Return the settings of a run that are given, with absolute paths."""
    given = {name: getattr(options, name) for name in OF_RUN}
    return {
        name: os.path.abspath(value) if name in FILES else value
        for name, value in given.items()
        if value is not None
    }


def _check_not_explicit(options: Train, given: str) -> None:
    """Raise if a setting of visual words is on the command line."""
    for name in _explicit_settings(options):
        if name == "features" or name in WORD_SETTINGS:
            raise InvalidArgument(
                f"{_option(name)} must not be given with {given}: the visual words stay."
            )


def _resumed_settings(options: Train, before: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of an interrupted run, with `on_error` of the options if it is explicit.

    All other settings determine the model, so they must not change.
    """
    explicit = {**_explicit_settings(options), **_of_run(options)}
    explicit = json.loads(json.dumps(explicit))  # With lists for tuples.
    on_error = explicit.pop("on_error", before["on_error"])
    for name in sorted(explicit):
        if name not in before or before[name] != explicit[name]:
            expected = repr(before[name]) if name in before else "where it was not given"
            raise InvalidArgument(
                f"{_option(name)} must be as in the run to resume, {expected}, "
                f"got {explicit[name]!r}; omit it."
            )
    return {**before, "on_error": on_error}


def _resume_command(options: Train) -> str:
    parts = ["supdocnade", "train", options.photos, "-o", os.fspath(options.output)]
    if options.force:
        parts.append("--force")
    if options.cache is not None:
        parts += ["--set", f"cache={options.cache}"]
    return shlex.join([*parts, "--resume"])


def model_to_dict(model: SceneModel, output: Path, seconds: dict[str, float]) -> dict[str, Any]:
    """Return the object that `--json` prints."""
    fitted = model.fitted_
    return {
        "model": os.fspath(output),
        "features": fitted.words.settings.features,
        "classes": list(fitted.classes),
        "tags": list(fitted.tag_names),
        "data": fitted.data,
        "held_out": {"n_images": fitted.held_out.n_images, **fitted.held_out.metrics},
        "rare_tags": _rare_tags(model),
        "skipped": [{"file": each.name, "reason": each.reason} for each in model.skipped_],
        "seconds": {stage: round(value, 2) for stage, value in seconds.items()},
    }


def _rare_tags(model: SceneModel) -> list[str]:
    """Return the tags of the training set that have too few photographs to be learned."""
    fitted = model.fitted_
    return sorted(count_tags(fitted.training_set.photographs.tags).keys() - set(fitted.tag_names))


def print_summary(model: SceneModel, output: Path) -> None:
    """Print what was learned, how good it is, and where it was written."""
    fitted = model.fitted_
    classes = format_count(len(fitted.classes), "class")
    tags = format_count(len(fitted.tag_names), "tag")
    n_images = format_count(fitted.data["n_images"], "photograph")
    print_line(f"learned {classes} and {tags} from {n_images}")
    if rare := _rare_tags(model):
        print_line(
            f"{format_count(len(rare), 'tag')} not learned: on fewer than "
            f"{fitted.settings.min_tag_count} photographs (see --set min_tag_count)"
        )
    print_line(format_held_out(fitted))
    print_line(f"model written to {output}")
