"""Arguments and options that several commands share."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from supdocnade.errors import install_command
from supdocnade.images.source import normalize_address
from supdocnade.scene.settings import SceneSettings


class UsageError(typer.TyperException):
    """Invalid or conflicting options."""

    exit_code = 2


def _check_jobs(jobs: int) -> int:
    if jobs == 0:
        raise UsageError("--jobs must not be 0; -1 uses all cores.")
    return jobs


def resolve_features(features: str) -> str:
    """Return the features that "auto" stands for on this machine; others as they are."""
    if features != "auto":
        return features
    from supdocnade.images.network_library import choose_features

    return choose_features()


def of_setting(name: str, *flags: str) -> Any:
    """Return the option that gives a setting of `SceneModel`, with its help and its limits."""
    rules = next(each.metadata for each in fields(SceneSettings) if each.name == name)
    limits = rules["limits"]
    return typer.Option(*flags, min=limits.get("least", limits.get("above")), help=rules["help"])


Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a model.")]
Photos = Annotated[
    str,
    typer.Argument(
        callback=normalize_address,
        metavar="PHOTOS",
        help="Folder of photographs, one sub-folder per class; or an address (s3://bucket/photos), "
        "tar files, or a text file that lists photographs.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print results as JSON.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show no progress and no notes, only errors.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Seed = Annotated[
    int, typer.Option("--seed", min=0, help="Random seed; the same seed gives the same result.")
]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        callback=_check_jobs,
        help="Number of workers; -1 uses all cores. Does not affect results.",
    ),
]
MinTagCount = Annotated[int, of_setting("min_tag_count")]
Features = Annotated[
    str,
    typer.Option(
        callback=resolve_features,
        help="Description of patches: sift, a network (see supdocnade features), or auto: the "
        "network of the extra deep if it is installed, otherwise sift.",
    ),
]
SkipUnreadable = Annotated[
    bool, typer.Option("--skip-unreadable", help="Skip files that cannot be read.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing model.")]
Resume = Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Work on a Ray cluster: local starts one on this machine, auto finds the one that "
        "runs here, anything else is its address. Does not affect results.",
    ),
]
ShardSize = Annotated[
    int, typer.Option(min=1, help="Photographs per shard, of which each is one task.")
]
DeviceName = Literal["auto", "cpu", "cuda"]
Device = Annotated[DeviceName, typer.Option("--device", help="Device to compute on.")]


def check_device(device: str, cluster: str | None = None) -> None:
    """Raise if this machine does not have the device; those of a cluster are not known."""
    if device == "cuda" and cluster is None:
        from supdocnade.devices import choose_device

        choose_device(device)


def check_formats(*, json: bool, csv: bool) -> None:
    """Raise if results are wanted in two formats."""
    if json and csv:
        raise UsageError("--json and --csv must not both be given.")


def describe_features(features: str, n_sift_words: int | None) -> str:
    """Return a line that names the features of a model, given its settings."""
    if features != "sift":
        return (
            f"features: the pretrained network {features}{'' if n_sift_words == 0 else ' and SIFT'}"
        )
    hint = ""
    if resolve_features("auto") == "sift":
        hint = f"; {install_command('deep')} adds a network, which is more accurate"
    return f"features: SIFT{hint}"
