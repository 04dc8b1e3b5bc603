"""`supdocnade features`: list, import and remove pretrained networks."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from supdocnade.cli.console import format_table, print_json, print_line, print_message
from supdocnade.cli.options import Debug, Json, Quiet, UsageError
from supdocnade.errors import SupDocNADEError

if TYPE_CHECKING:
    from supdocnade.images.feature_network import FeatureNetwork, NetworkDescription


def features(
    import_file: Annotated[
        Path | None,
        typer.Option(
            "--import", metavar="FILE", exists=True, dir_okay=False, help="ONNX file to import."
        ),
    ] = None,
    remove: Annotated[
        str | None, typer.Option(metavar="NAME", help="Imported network to remove.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the network; default: that of its file.")
    ] = None,
    side: Annotated[
        int | None, typer.Option(min=1, help="Side of its input images in pixels.")
    ] = None,
    mean: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL",
            help="Subtracted from levels of 0 to 255; or A,B,C, one for each channel.",
        ),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help="Divisor after that; or one for each channel."),
    ] = None,
    color_order: Annotated[
        Literal["rgb", "bgr"] | None, typer.Option(help="Order of its channels; default: rgb.")
    ] = None,
    licence: Annotated[str | None, typer.Option(help="Licence of its weights.")] = None,
    output_name: Annotated[
        str | None, typer.Option(help="Output to take, if it has several.")
    ] = None,
    class_tokens: Annotated[
        int | None, typer.Option(min=0, help="Number of tokens before those of patches.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """List the features of patches, and import networks.

    Patches are described by sift or by a pretrained network. A network is an ONNX file. --import
    runs it on a test image and copies it to the networks of this user. FILE.json beside it
    describes it; without such a file the options --name to --class-tokens do so. Networks that
    cannot be read are listed on stderr; the exit code is then 1.

    \b
    Examples:
      supdocnade features
      supdocnade features --import dinov2.onnx
      supdocnade features --import resnet.onnx --side 224 --mean 123.7,116.3,103.5 --scale 58
      supdocnade features --remove dinov2
    """
    options = {
        "name": name,
        "side": side,
        "mean": None if mean is None else parse_levels("--mean", mean),
        "scale": None if scale is None else parse_levels("--scale", scale),
        "color_order": color_order,
        "licence": licence,
        "output": output_name,
        "class_tokens": class_tokens,
    }
    given = {key: value for key, value in options.items() if value is not None}
    if import_file is not None and remove is not None:
        raise UsageError("--import and --remove must not both be given.")
    if given and import_file is None:
        raise UsageError("options that describe a network need --import.")
    from supdocnade.images.network_library import import_network, remove_network

    if remove is not None:
        remove_network(remove)
        if json:
            print_json({"removed": remove})
        elif not quiet:
            print_line(f"{remove} removed")
        return
    if import_file is None:
        rows, errors = list_features()
        if find_spec("onnxruntime") is None and not quiet:
            print_message("note: networks need an extra: pip install 'supdocnade[deep]'.")
    else:
        rows = [network_to_dict(import_network(import_file, describe_network(import_file, given)))]
        errors = []
    for error in errors:
        print_message(f"error: {error}")
    if json:
        for row in rows:
            print_json(row)
    elif import_file is None or not quiet:
        print_line(format_features(rows))
    if errors:
        raise typer.Exit(1)


def parse_levels(option: str, text: str) -> list[float]:
    """Return the numbers of an option.

    >>> parse_levels("--mean", "103.5, 116.3, 123.7")
    [103.5, 116.3, 123.7]
    """
    try:
        levels = [float(part) for part in text.split(",")]
    except ValueError:
        levels = []
    if len(levels) not in (1, 3):
        raise UsageError(f"{option} must be one number or three with commas, got {text!r}.")
    return levels if len(levels) == 3 else levels * 3


def describe_network(path: Path, given: dict[str, Any]) -> "NetworkDescription | None":
    """Return the description that options give, or None if a file beside the network has it."""
    from supdocnade.images.feature_network import NetworkDescription

    beside = path.with_suffix(".json")
    if beside.exists():
        if given:
            raise UsageError(f"{beside} describes the network; options must not do so, too.")
        return None
    missing = [f"--{name}" for name in ("side", "mean", "scale") if name not in given]
    if missing:
        raise UsageError(f"there is no {beside}, so the network needs {', '.join(missing)}.")
    return NetworkDescription(**{"name": path.stem, **given})


def list_features() -> tuple[list[dict[str, Any]], list[SupDocNADEError]]:
    """Return the features that are installed, and the errors of those that cannot be read."""
    from supdocnade.images.network_library import find_network, list_networks

    empty = dict.fromkeys(("side", "rows", "columns"))
    sift = {"name": "sift", **empty, "channels": 128, "bytes": None, "licence": "BSD-3-Clause"}
    rows, errors = [sift], []
    for name in list_networks() if find_spec("onnxruntime") else ():
        try:
            rows.append(network_to_dict(find_network(name)))
        except SupDocNADEError as error:
            errors.append(error)
    return rows, errors


def network_to_dict(network: "FeatureNetwork") -> dict[str, Any]:
    """Return a network as the object that `--json` prints."""
    rows, columns = network.grid
    return {
        "name": network.name,
        "side": network.side,
        "rows": rows,
        "columns": columns,
        "channels": network.n_channels,
        "bytes": sum(file.stat().st_size for file in network.files),
        "licence": network.licence,
    }


def format_features(rows: list[dict[str, Any]]) -> str:
    """Return a table of features."""
    table = [["name", "input", "patches", "channels", "size", "licence"]]
    for row in rows:
        cells = ["any", "any", f"{row['channels']}", "-"]
        if row["side"] is not None:
            cells[0] = f"{row['side']} × {row['side']}"
            cells[1] = f"{row['rows']} × {row['columns']}"
            cells[3] = f"{row['bytes'] / 1e6:.1f} MB"
        table.append([row["name"], *cells, row["licence"]])
    return format_table(table)
