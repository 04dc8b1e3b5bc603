"""`supdocnade demo`: the whole way on drawn scenes, from pictures to a report."""

import shlex
import shutil
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from supdocnade.cli.console import Stages, as_object, count, note, percent, say, say_json, text_line
from supdocnade.cli.options import Debug, Device, Jobs, Json, Quiet, Seed, check_device
from supdocnade.cli.report import REPORT
from supdocnade.errors import StorageError

if TYPE_CHECKING:
    from supdocnade.folders.photo_folder import ImageRecord
    from supdocnade.report.evaluation import Evaluation
    from supdocnade.scene.model import SceneModel
    from supdocnade.scene.prediction import Prediction

PHOTOS, FRESH, MODEL, UNFINISHED = "photos", "fresh", "model", ".unfinished"

SETTINGS: dict[str, Any] = {"n_topics": 50, "n_words": 200}
"""Small, so that it is soon over."""

N_SCENES = 40
FRESH_SHARE = 4
"""For so many scenes to learn from there is one to be tested on."""
N_SHOWN = 4


@dataclass(frozen=True, eq=False, kw_only=True)
class Demonstration:
    """What the demo did."""

    folder: Path
    model: "SceneModel"
    measured: "Evaluation"
    shown: "list[tuple[ImageRecord, Prediction]]"
    """A few fresh scenes, with what the model says of them."""
    seconds: dict[str, float]


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for scenes, model and report.")
    ] = Path("supdocnade-demo"),
    scenes: Annotated[
        int, typer.Option(min=4, help="Scenes of each of eight classes to learn from.")
    ] = N_SCENES,
    seed: Seed = 0,
    device: Device = "auto",
    jobs: Jobs = -1,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show everything on drawn scenes, in a minute or two.

    No photographs are needed. Draws scenes of eight classes, learns from them, tries the model on
    scenes it has never seen, and writes a report.

    \b
    Examples:
      supdocnade demo
      supdocnade demo -o somewhere --seed 1
    """
    check_device(device)
    started = time.perf_counter()
    if not (quiet or json):
        note(f"drawing and learning from {count(8 * scenes, 'scene')}, all on this machine ...")
    try:
        found = demonstrate(output, scenes, seed=seed, device=device, jobs=jobs, quiet=quiet)
    except KeyboardInterrupt:
        again = ["supdocnade", "demo", "-o", f"{output}", "--scenes", f"{scenes}"]
        note(f"stopped; go on with: {shlex.join([*again, '--seed', f'{seed}'])}")
        raise typer.Exit(130) from None
    if json:
        say_json(describe(found))
    else:
        say(tell(found, time.perf_counter() - started))


def demonstrate(
    folder: Path,
    n_per_class: int,
    *,
    seed: int = 0,
    device: str = "auto",
    jobs: int = -1,
    quiet: bool = False,
) -> Demonstration:
    """Draw, learn, test and report; the same call goes on where one was stopped."""
    check_folder(folder)
    from supdocnade.demo import write_scenes
    from supdocnade.folders.photo_folder import read_folder
    from supdocnade.report.evaluation import evaluate_photographs
    from supdocnade.report.html import write_report
    from supdocnade.scene.model import SceneModel
    from supdocnade.scene.prediction import Prediction

    n_fresh = max(n_per_class // FRESH_SHARE, 1)
    with Stages(quiet=quiet) as stages:
        # Fresh scenes come from another seed, so that none is drawn twice.
        for name, number, its_seed in ((PHOTOS, n_per_class, seed), (FRESH, n_fresh, seed + 1)):
            report_on = partial(stages, f"drawing {name}")
            write_scenes(folder / name, number, its_seed, on_progress=report_on)
        unfinished = folder / UNFINISHED
        model = SceneModel(**SETTINGS, n_jobs=jobs, device=device, random_state=seed)
        model.set_params(cache=unfinished / "words", checkpoint=unfinished / "checkpoint")
        model.fit(folder / PHOTOS, progress=stages)
        model.set_params(cache=None, checkpoint=None).save(folder / MODEL)
        shutil.rmtree(unfinished)
        fresh = read_folder(folder / FRESH)
        measured = evaluate_photographs(model, fresh, progress=stages)
        stages("writing the report", 0, 1)
        write_report(model, folder / REPORT)
        stages("writing the report", 1, 1)
    some = fresh[:: max(len(fresh) // N_SHOWN, 1)][:N_SHOWN]
    answers = model.iter_predictions([record.path for record in some])
    shown = [
        (record, answer)
        for record, answer in zip(some, answers, strict=True)
        if isinstance(answer, Prediction)
    ]
    return Demonstration(
        folder=folder, model=model, measured=measured, shown=shown, seconds=stages.seconds
    )


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds something else than an earlier demo."""
    if folder.exists() and not folder.is_dir():
        raise StorageError(f"{folder} must be a folder, got a file.")
    known = {PHOTOS, FRESH, MODEL, REPORT}
    for path in sorted(folder.iterdir()) if folder.exists() else ():
        if path.name not in known and not path.name.startswith("."):
            raise StorageError(f"{folder} must be new or hold a demo, it holds {path.name}.")


def describe(found: Demonstration) -> dict[str, Any]:
    """Return what `--json` prints."""
    return {
        "photos": str(found.folder / PHOTOS),
        "model": str(found.folder / MODEL),
        "report": str(found.folder / REPORT),
        "n_images": found.model.fitted_.data["n_images"],
        "n_fresh": found.measured.n_images,
        "accuracy": found.measured.accuracy,
        "f_measure": found.measured.f_measure,
        "predictions": [as_object(answer) for _, answer in found.shown],
        "seconds": {stage: round(seconds, 2) for stage, seconds in found.seconds.items()},
    }


def tell(found: Demonstration, seconds: float) -> str:
    """Return what people read at the end."""
    measured, fitted, folder = found.measured, found.model.fitted_, found.folder
    lines = [
        f"learned {count(len(fitted.classes), 'class')} and {count(len(fitted.tag_names), 'tag')} "
        f"from {count(fitted.data['n_images'], 'drawn scene')}",
        f"on {count(measured.n_images, 'fresh scene')}: accuracy {percent(measured.accuracy or 0)}",
    ]
    if measured.f_measure is not None:
        lines[-1] += f", F-measure of five tags {measured.f_measure:.2f}"
    lines.append("")
    for record, answer in found.shown:
        lines.append(text_line(answer))
        lines.append(f"  truth: {record.label}; {', '.join(record.tags or ())}")
    example, model = found.shown[0][0].path, folder / MODEL
    lines += [
        "",
        f"The report: {folder / REPORT}",
        "  Open it in a browser: how the model did on scenes it had not seen, what each class and",
        "  topic is made of, as patches, and which scenes it got right and wrong.",
        "Next, type:",
        f"  {shlex.join(['supdocnade', 'explain', f'{model}', f'{example}'])}",
        f"  {shlex.join(['supdocnade', 'predict', f'{model}', f'{folder / FRESH}'])}",
        "and with photographs of your own, one folder a class:",
        "  supdocnade train PHOTOS -o MODEL",
        f"({seconds:.0f} seconds)",
    ]
    return "\n".join(lines)
