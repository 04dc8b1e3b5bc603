"""A run of `supdocnade train`: from what was asked for to a model, or to what can be gone on with.

Whatever stops a run, nothing that was read or learned is lost: it stays in `MODEL.partial`
(`unfinished`), and the message says how to go on.
"""

import json
import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from supdocnade.cli.console import Stages, count, note
from supdocnade.errors import InvalidArgument, StorageError, UnreadableImage, UnwritableFile
from supdocnade.partial_folder import PartialFolder

if TYPE_CHECKING:
    from supdocnade.folders.photo_folder import ImageRecord
    from supdocnade.scene.model import SceneModel


# A training run that is not over: the folder `MODEL.partial`, from which it can go on.

RUN = "run.json"


class UnfinishedRun(PartialFolder):
    """Settings, checkpoints and visual words of an unfinished training run."""

    def __init__(self, output: Path):
        super().__init__(Path(os.path.abspath(output)))

    @property
    def checkpoint(self) -> Path:
        """The folder of `SceneModel`'s checkpoints."""
        return self.folder / "checkpoint"

    @property
    def words(self) -> Path:
        """The folder of the words of photographs that were read already."""
        return self.folder / "words"

    def check_idle(self) -> None:
        """Refuse to touch the folder of a run that is going on."""
        if self.exists:
            with self.lock():
                pass

    def begin(self, photos: Path, settings: dict[str, Any]) -> None:
        """Remember what a run is asked to do, also where it goes on with something changed."""
        from supdocnade.storage import write_atomically

        described = {"photos": os.path.abspath(photos), "settings": settings}
        path, content = self.folder / RUN, json.dumps(described, indent=1).encode()
        if path.is_file() and path.read_bytes() == content:
            return
        is_new = not self.exists
        try:
            write_atomically(path, content)
        except StorageError:
            if is_new:
                shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def settings(self, photos: Path) -> dict[str, Any]:
        """Return the settings of the run to go on with, which must be one on these photographs."""
        path = self.folder / RUN
        try:
            described = json.loads(path.read_bytes())
            before, settings = described["photos"], dict(described["settings"])
        except OSError as error:
            raise StorageError(
                f"there is no run to resume: {path} cannot be read: {error.strerror}."
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(f"{path} is damaged; begin anew with --restart.") from error
        if before != os.path.abspath(photos):
            raise InvalidArgument(f"the run to resume learns from {before}, not from {photos}.")
        return settings

    def discard(self) -> None:
        """Remove the folder; one that is not of a run is not touched."""
        if not self.exists:
            return
        if not (self.folder / RUN).is_file():
            raise StorageError(f"{self.folder} is in the way: it is not of an unfinished run.")
        shutil.rmtree(self.folder)

    def discard_unless_useful(self) -> bool:
        """Remove the folder of a run that failed before it had read or learned anything.

        Returns
        -------
        Whether there is something to go on with.
        """
        words = (path for path in self.words.rglob("*") if path.is_file())
        useful = any(self.checkpoint.rglob("*.safetensors")) or any(words)
        if not useful:
            super().discard()
        return useful


OPTIONS = {
    "n_topics": "topics",
    "n_words": "words",
    "classifier": "classifier",
    "max_epochs": "epochs",
    "learning_rate": "learning_rate",
    "mirror": "mirror",
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
    """Settings that were asked for by name: resuming may not change them, but for `on_error`."""
    jobs: int = -1
    device: str = "auto"
    cache: Path | None = None
    add: Path | None = None
    """A model whose photographs are learned from, too."""
    force: bool = False
    resume: bool = False
    restart: bool = False
    quiet: bool = False


def train_model(request: Request) -> "tuple[SceneModel, Stages]":
    """Train a model and write it; return it with the time that every stage took."""
    check_output(request.output, force=request.force)
    unfinished = UnfinishedRun(request.output)
    unfinished.check_idle()
    settings = _settings(request, unfinished)
    from supdocnade.folders.photo_folder import read_folder

    records = read_folder(request.photos)
    check_records(request.photos, records, quiet=request.quiet)
    if request.restart:
        unfinished.discard()
    unfinished.begin(request.photos, settings)
    # Outside of what follows: the folder of a run that is going on is not for us to clean up.
    with unfinished.lock():
        model, stages = _learn_or_keep(request, unfinished, settings, records)
    unfinished.discard()
    for each in () if request.quiet else model.skipped_:
        note(f"skipped: {each.reason}")
    return model, stages


def _learn_or_keep(
    request: Request,
    unfinished: UnfinishedRun,
    settings: dict[str, Any],
    records: "Sequence[ImageRecord]",
) -> "tuple[SceneModel, Stages]":
    """Train a model and write it; if something stops it, say how to go on."""
    try:
        with Stages(quiet=request.quiet) as stages:
            return _learn(request, unfinished, settings, records, stages), stages
    except KeyboardInterrupt:
        note(f"stopped; go on with: {_resuming(request)}")
        raise typer.Exit(130) from None
    except UnreadableImage as error:
        raise UnreadableImage(
            f"{str(error).rstrip('.')}; mend it, or leave out what cannot be read with "
            f"--skip-unreadable, and go on with: {_resuming(request)}"
        ) from error
    except UnwritableFile as error:
        if not unfinished.discard_unless_useful():
            raise
        raise UnwritableFile(
            f"{str(error).rstrip('.')}; what was done is kept, go on with: {_resuming(request)}"
        ) from error
    except StorageError as error:
        if unfinished.discard_unless_useful() and request.resume and "checkpoint" in str(error):
            raise StorageError(f"{error} Begin anew with --restart.") from error
        raise
    except Exception:
        unfinished.discard_unless_useful()
        raise


def _learn(
    request: Request,
    unfinished: UnfinishedRun,
    settings: dict[str, Any],
    records: "Sequence[ImageRecord]",
    stages: Stages,
) -> "SceneModel":
    """Learn from photographs and write the model."""
    from supdocnade.scene.model import SceneModel

    previous = settings.get("add")
    model = SceneModel() if previous is None else SceneModel.load(previous)
    model.set_params(
        **{name: value for name, value in settings.items() if name != "add"},
        n_jobs=request.jobs,
        device=request.device,
        cache=request.cache or unfinished.words,
        checkpoint=unfinished.checkpoint,
    )
    learn = model.fit if previous is None else model.fit_more
    learn(
        [record.path for record in records],
        [record.label for record in records],
        [record.tags for record in records],
        progress=stages,
    )
    stages("writing", 0, 1)
    check_output(request.output, force=request.force)
    model.save(request.output)
    stages("writing", 1, 1)
    return model


def check_output(output: Path, *, force: bool) -> None:
    """Refuse a place where a model would destroy something, before any work is done."""
    from supdocnade.scene.persistence import DESCRIPTION, check_target

    check_target(output)
    if (output / DESCRIPTION).is_file() and not force:
        raise StorageError(f"{output} holds a model; --force replaces it.")


def check_records(photos: Path, records: "Sequence[ImageRecord]", *, quiet: bool) -> None:
    """Refuse photographs of which nothing can be learned; say what may not be meant."""
    from supdocnade.folders.photo_folder import folder_label

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


def _settings(request: Request, unfinished: UnfinishedRun) -> dict[str, Any]:
    """Return the settings of a new run, or those of the run to go on with."""
    if request.resume and request.restart:
        raise InvalidArgument("--resume and --restart must not both be given.")
    if request.resume:
        return _resumed_settings(request, unfinished.settings(request.photos))
    if unfinished.exists and not request.restart:
        raise StorageError(
            f"{unfinished.folder} holds a run that was stopped: go on with --resume, "
            "or begin anew with --restart."
        )
    return _new_settings(request)


def _resumed_settings(request: Request, before: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a run that was stopped, which may now leave out what is unreadable.

    All others decide what is learned: with another value it would be another run.
    """
    given = {name: request.settings[name] for name in request.given - {"on_error"}}
    if request.add is not None:
        given["add"] = os.path.abspath(request.add)
    for name in sorted(given):
        if name not in before or before[name] != given[name]:
            option = "--" + OPTIONS.get(name, name).replace("_", "-")
            stated = repr(before[name]) if name in before else "where it was not given"
            raise InvalidArgument(
                f"{option} must be as in the run to resume, {stated}, got {given[name]!r}; "
                "leave it out, or begin anew with --restart."
            )
    skip = "on_error" in request.given
    return {**before, "on_error": request.settings["on_error"]} if skip else before


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
