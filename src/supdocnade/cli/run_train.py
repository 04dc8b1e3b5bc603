"""A run of `supdocnade train`, from its request to a model or to a run that can be resumed."""

import os
import shlex
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from supdocnade.cli.console import (
    ProgressBars,
    format_count,
    format_held_out,
    print_line,
    print_message,
    print_warnings,
)
from supdocnade.cli.options import describe_features
from supdocnade.cli.stopping import explain_resuming
from supdocnade.cli.train import OPTIONS
from supdocnade.corpus.disk import Corpus
from supdocnade.corpus.manifest import is_corpus
from supdocnade.errors import (
    InvalidArgument,
    ProcessLost,
    StorageError,
    UnreadableImage,
    UnreadableImages,
    UnwritableFile,
)
from supdocnade.folders.photo_folder import ImageRecord
from supdocnade.folders.photo_sources import scan_photographs
from supdocnade.folders.tags import count_tags
from supdocnade.images.source import absolute_address
from supdocnade.scene.corrections import correct_records, read_corrections
from supdocnade.scene.dataset import from_records
from supdocnade.scene.inspection import describe_similar_names, describe_small_classes
from supdocnade.scene.persistence import DESCRIPTION, check_target
from supdocnade.unfinished import PartialFolder

if TYPE_CHECKING:
    from supdocnade.scene.model import SceneModel

WORD_OPTIONS = ("features", "n_words", "n_sift_words")
"""Settings of visual words, which must not be given with --add or a corpus."""

CHECKPOINT, WORDS = "checkpoint", "words"
"""Folders of an unfinished run: checkpoints, and the words of photographs that were read."""

FILES = ("add", "corrections")
"""Settings of a run that are no settings of `SceneModel`."""


@dataclass(frozen=True, kw_only=True)
class TrainingRequest:
    """Arguments of a training run: options of the command, but for settings of `SceneModel`."""

    photos: str
    output: Path
    settings: dict[str, Any]
    """Settings of `SceneModel`."""
    explicit: frozenset[str]
    """Settings on the command line; only `on_error` may differ from those of a run to resume."""
    jobs: int
    device: str
    cache: Path | None
    add: Path | None
    """Model to which the photographs are added."""
    corrections: Path | None
    """File that says which photographs are added, and gives their classes and tags."""
    force: bool
    resume: bool
    restart: bool
    quiet: bool


def share_training() -> AbstractContextManager[bool]:
    """Return a block that is True in the first of the processes of torchrun."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return nullcontext(True)
    from supdocnade.training.distributed import training_processes

    return training_processes()


def train_model(request: TrainingRequest) -> "tuple[SceneModel, dict[str, float]]":
    """Train a model and write it; return it with the seconds of each stage."""
    check_output(request.output, force=request.force)
    partial = PartialFolder(request.output, "train")
    with partial.lock():
        settings = _choose_settings(request, partial)
        corpus, records, notes = _read_data(request, settings.get("corrections"))
        check_records(request.photos, records)
        if not request.quiet:
            extends = settings.get("add") is not None
            words_of = request.photos if corpus is not None else settings.get("add")
            line = f"features: those of {words_of}"
            if words_of is None:
                line = describe_features(settings["features"], settings["n_sift_words"])
            print_message(line)
            for note in (*describe_records(records, extends=extends), *notes):
                print_message(f"note: {note}")
        if corpus is not None:
            records = []  # Those of a corpus may be millions, which the fit reads itself.
        if request.restart:
            partial.discard()
        partial.write_plan({"photos": absolute_address(request.photos), "settings": settings})
        model, seconds = _train_resumably(request, partial, settings, corpus, records)
        partial.discard()
    for each in () if request.quiet else model.skipped_:
        print_message(f"skipped: {each.reason}")
    return model, seconds


def _read_data(
    request: TrainingRequest, corrections: str | None
) -> tuple[Corpus | None, Sequence[ImageRecord], Sequence[str]]:
    """Return the corpus if there is one, the photographs, and notes about them."""
    if not is_corpus(Path(request.photos)):
        with ProgressBars(quiet=request.quiet, stage_lines=False) as progress:
            folder = scan_photographs(request.photos, progress)
        if corrections is not None:
            return None, *_correct(request.photos, folder.records, corrections)
        return None, folder.records, folder.notes
    corpus = Corpus.open(request.photos)
    rows = zip(corpus.names, corpus.labels, corpus.tags, strict=True)
    records = [
        ImageRecord(name or "", label, None if tags is None else tuple(tags))
        for name, label, tags in rows
    ]
    return corpus, records, ()


def _correct(
    photos: str, records: Sequence[ImageRecord], corrections: str
) -> tuple[list[ImageRecord], list[str]]:
    """Return the photographs that a file corrects, with their new classes and tags, and notes."""
    corrected, notes = correct_records(records, read_corrections(corrections))
    if not corrected:
        raise InvalidArgument(
            f"{corrections} must give a class or tags to photographs of {photos}, got none of them."
        )
    return corrected, [f"corrected: {format_count(len(corrected), 'photograph')}.", *notes]


def _train_resumably(
    request: TrainingRequest,
    partial: PartialFolder,
    settings: dict[str, Any],
    corpus: Corpus | None,
    records: Sequence[ImageRecord],
) -> "tuple[SceneModel, dict[str, float]]":
    """Train a model and write it; if this fails, tell how to resume the run."""
    explain_resuming(f"resume with: {_resume_command(request)}")
    try:
        quiet = request.quiet
        with ProgressBars(quiet=quiet) as progress, print_warnings(quiet=quiet):
            model = _train(request, partial, settings, corpus, records, progress)
        return model, progress.seconds
    except UnreadableImage as error:
        reasons = error.reasons if isinstance(error, UnreadableImages) else (str(error),)
        what, them = reasons[0].rstrip("."), "it"
        if len(reasons) > 1:
            what, them = f"{len(reasons)} photographs cannot be read", "them"
            for reason in reasons:
                print_message(f"error: {reason}")
        raise UnreadableImage(
            f"{what}; repair {them}, or add --skip-unreadable to leave {them} out, "
            f"then continue with: {_resume_command(request)}"
        ) from error
    except (UnwritableFile, ProcessLost) as error:
        if not _keep_work(partial):
            raise
        raise type(error)(
            f"{str(error).rstrip('.')}; the work so far is kept, resume with: "
            f"{_resume_command(request)}"
        ) from error
    except StorageError as error:
        if _keep_work(partial) and request.resume and "checkpoint" in str(error):
            raise StorageError(f"{error} Start again with --restart.") from error
        raise
    except Exception as error:
        _keep_work(partial)
        setting, _, rest = str(error).partition(" ")
        if isinstance(error, InvalidArgument) and setting in OPTIONS and rest.startswith("must"):
            raise InvalidArgument(f"{_option(setting)} {rest}") from error
        raise


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


def _option(setting: str) -> str:
    """Return the option of the command that gives a setting.

    >>> _option("n_sift_words")
    '--sift-words'
    """
    return "--" + OPTIONS.get(setting, setting).replace("_", "-")


def _train(
    request: TrainingRequest,
    partial: PartialFolder,
    settings: dict[str, Any],
    corpus: Corpus | None,
    records: Sequence[ImageRecord],
    progress: ProgressBars,
) -> "SceneModel":
    # Imports torch, which takes seconds: only when nothing is left to refuse.
    from supdocnade.scene.model import SceneModel

    previous = settings.get("add")
    model = SceneModel() if previous is None else SceneModel.load(previous)
    model.set_params(
        **{name: value for name, value in settings.items() if name not in FILES},
        n_jobs=request.jobs,
        device=request.device,
        cache=request.cache or partial.folder / WORDS,
        checkpoint=partial.folder / CHECKPOINT,
    )
    if corpus is not None:
        model.fit(corpus, progress=progress)
    else:
        fit = model.fit if previous is None else model.fit_more
        fit(
            [record.source for record in records],
            [record.label for record in records],
            [record.tags for record in records],
            progress=progress,
        )
    progress("writing", 0, 1)
    check_output(request.output, force=request.force)
    model.save(request.output)
    progress("writing", 1, 1)
    return model


def check_output(output: Path, *, force: bool) -> None:
    """Raise if writing a model would destroy something else."""
    check_target(output)
    if (output / DESCRIPTION).is_file() and not force:
        raise StorageError(f"{output} holds a model; --force replaces it.")


def check_records(photos: str, records: Sequence[ImageRecord]) -> None:
    """Raise if there is nothing to learn."""
    if not any(record.label is not None or record.tags for record in records):
        raise InvalidArgument(
            f"{photos} must have classes (one folder each) or tags (metadata.jsonl), got neither."
        )


def describe_records(records: Sequence[ImageRecord], *, extends: bool = False) -> list[str]:
    """Return notes about unusual classes and tags.

    If they are added to those of a model, few photographs of a class are not unusual.
    """
    labels = from_records(records).count_classes()
    one_class = len(labels) == 1 and not extends
    notes = (
        f"all labelled photographs are of one class, {min(labels)}." if one_class else None,
        None if extends else describe_small_classes(labels),
        describe_similar_names(labels, "classes"),
        describe_similar_names(count_tags(record.tags for record in records), "tags"),
    )
    return [note for note in notes if note]


def _choose_settings(request: TrainingRequest, partial: PartialFolder) -> dict[str, Any]:
    """Return the settings of a new run or of the run to resume."""
    if request.resume and request.restart:
        raise InvalidArgument("--resume and --restart must not both be given.")
    before = partial.read_plan()
    # torchrun starts the same command again after a process was lost.
    again = "TORCHELASTIC_RUN_ID" in os.environ and before is not None and not request.restart
    if request.resume or again:
        if before is None:
            raise StorageError(f"there is no run to resume: {partial.folder} does not exist.")
        if before["photos"] != absolute_address(request.photos):
            raise InvalidArgument(
                f"the run to resume learns from {before['photos']}, not from {request.photos}."
            )
        return _resumed_settings(request, before["settings"])
    if before is not None and not request.restart:
        raise StorageError(
            f"{partial.folder} holds an interrupted run: continue it with --resume, "
            "or start again with --restart."
        )
    if request.corrections is not None and request.add is None:
        raise InvalidArgument("--corrections needs --add, the model that is corrected.")
    if is_corpus(Path(request.photos)):
        if request.add is not None:
            raise InvalidArgument(f"--add must not be given with a corpus, got {request.photos}.")
        of_words = (*WORD_OPTIONS, "mirror")
        _check_not_explicit(request, of_words, "a corpus")
        return {key: value for key, value in request.settings.items() if key not in of_words}
    if request.add is None:
        return request.settings
    _check_not_explicit(request, WORD_OPTIONS, "--add")
    # Other settings are those of the model to which photographs are added.
    names = request.explicit | {"on_error", "random_state"}
    settings = {name: request.settings[name] for name in request.settings if name in names}
    return {**settings, **_given_files(request)}


def _given_files(request: TrainingRequest) -> dict[str, str]:
    """Return the absolute paths of the files of a run."""
    given = {name: getattr(request, name) for name in FILES}
    return {name: os.path.abspath(path) for name, path in given.items() if path is not None}


def _check_not_explicit(request: TrainingRequest, names: Sequence[str], given: str) -> None:
    """Raise if a setting of visual words is on the command line."""
    for name in names:
        if name in request.explicit:
            raise InvalidArgument(
                f"{_option(name)} must not be given with {given}: the visual words stay."
            )


def _resumed_settings(request: TrainingRequest, before: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of an interrupted run, with `on_error` of the request if it is explicit.

    All other settings determine the model, so they must not change.
    """
    explicit = {name: request.settings[name] for name in request.explicit - {"on_error"}}
    explicit |= _given_files(request)
    for name in sorted(explicit):
        if name not in before or before[name] != explicit[name]:
            expected = repr(before[name]) if name in before else "where it was not given"
            raise InvalidArgument(
                f"{_option(name)} must be as in the run to resume, {expected}, "
                f"got {explicit[name]!r}; omit it, or start again with --restart."
            )
    if "on_error" in request.explicit:
        return {**before, "on_error": request.settings["on_error"]}
    return before


def _resume_command(request: TrainingRequest) -> str:
    parts = ["supdocnade", "train", request.photos, "-o", os.fspath(request.output)]
    if request.force:
        parts.append("--force")
    if request.cache is not None:
        parts += ["--cache", os.fspath(request.cache)]
    return shlex.join([*parts, "--resume"])


def model_to_dict(model: "SceneModel", output: Path, seconds: dict[str, float]) -> dict[str, Any]:
    """Return the object that `--json` prints."""
    fitted = model.fitted_
    return {
        "model": os.fspath(output),
        "features": fitted.settings.features,
        "classes": list(fitted.classes),
        "tags": list(fitted.tag_names),
        "data": fitted.data,
        "held_out": {"n_images": fitted.held_out.n_images, **fitted.held_out.figures},
        "rare_tags": _rare_tags(model),
        "n_epochs": fitted.choices.n_epochs,
        "skipped": [{"file": each.name, "reason": each.reason} for each in model.skipped_],
        "seconds": {stage: round(value, 2) for stage, value in seconds.items()},
    }


def _rare_tags(model: "SceneModel") -> list[str]:
    """Return the tags of the training set that have too few photographs to be learned."""
    fitted = model.fitted_
    return sorted(count_tags(fitted.training_set.photographs.tags).keys() - set(fitted.tag_names))


def print_summary(model: "SceneModel", output: Path) -> None:
    """Print what was learned, how good it is, and where it was written."""
    fitted = model.fitted_
    classes = format_count(len(fitted.classes), "class")
    tags = format_count(len(fitted.tag_names), "tag")
    n_images = format_count(fitted.data["n_images"], "photograph")
    print_line(f"learned {classes} and {tags} from {n_images}")
    if rare := _rare_tags(model):
        print_line(
            f"{format_count(len(rare), 'tag')} on fewer than {fitted.settings.min_tag_count} "
            "photographs not learned (see --min-tag-count)"
        )
    print_line(format_held_out(fitted))
    print_line(f"model written to {output}")
