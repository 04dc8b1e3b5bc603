"""Options that several commands have."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a model.")]
Photos = Annotated[
    Path, typer.Argument(metavar="PHOTOS", help="Folder of photographs, one folder a class.")
]


class UsageError(typer.TyperException):
    """Options that are wrong, or do not go together."""

    exit_code = 2


def _some(jobs: int) -> int:
    if jobs == 0:
        raise UsageError("--jobs must not be 0; -1 is one worker a core.")
    return jobs


Json = Annotated[bool, typer.Option("--json", help="Print results as JSON.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show no progress and no notes, only errors.")
]
Debug = Annotated[
    bool, typer.Option("--debug", help="Show where in the program an error came from.")
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, help="Of all random choices: one seed, one result.")
]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        callback=_some,
        help="Workers; -1: one a core. Results do not depend on it.",
    ),
]
DeviceName = Literal["auto", "cpu", "cuda"]
Device = Annotated[DeviceName, typer.Option("--device", help="Where to compute.")]


def check_device(device: str) -> None:
    """Refuse a device that this machine does not have."""
    if device == "cuda":
        from supdocnade.devices import choose_device

        choose_device(device)
