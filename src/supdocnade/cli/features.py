"""`supdocnade features`: list, import and remove pretrained networks."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from supdocnade.cli import options as opt
from supdocnade.cli.console import format_table, print_json, print_line, print_message
from supdocnade.cli.options import UsageError
from supdocnade.errors import SupDocNADEError, install_command
from supdocnade.text import clean_name

if TYPE_CHECKING:
    from supdocnade.images.feature_network import FeatureNetwork


OnnxFile = Annotated[
    Path | None,
    typer.Option(
        "--import", metavar="FILE", exists=True, dir_okay=False, help="ONNX file to import."
    ),
]
Mean = Annotated[
    str | None,
    typer.Option(metavar="LEVEL", help="Subtracted from levels of 0 to 255; A,B,C: per channel."),
]
Scale = Annotated[
    str | None, typer.Option(metavar="LEVEL", help="Divisor after that; A,B,C: per channel.")
]
ColorOrder = Annotated[
    Literal["rgb", "bgr"] | None, typer.Option(help="Order of its channels; default: rgb.")
]


def features(
    import_file: OnnxFile = None,
    remove: Annotated[
        str | None, typer.Option(metavar="NAME", help="Imported network to remove.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the network; default: that of its file.")
    ] = None,
    side: Annotated[
        int | None, typer.Option(min=1, help="Side of its input images in pixels.")
    ] = None,
    mean: Mean = None,
    scale: Scale = None,
    color_order: ColorOrder = None,
    licence: Annotated[
        str | None, typer.Option("--licence", "--license", help="Licence of its weights.")
    ] = None,
    outputs: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Outputs to take, A,B: that of visual words first."),
    ] = None,
    class_tokens: Annotated[
        int | None, typer.Option(min=0, help="Number of tokens before those of patches.")
    ] = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
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
        "mean": parse_levels("--mean", mean),
        "scale": parse_levels("--scale", scale),
        "color_order": color_order,
        "licence": licence,
        "outputs": None if outputs is None else outputs.split(","),
        "class_tokens": class_tokens,
    }
    given = {key: value for key, value in options.items() if value is not None}
    if import_file is not None and remove is not None:
        raise UsageError("--import and --remove must not both be given.")
    if given and import_file is None:
        raise UsageError("options that describe a network need --import.")
    if remove is not None:
        from supdocnade.images.network_library import remove_network

        remove_network(remove)
        if json:
            print_json({"removed": remove})
        elif not quiet:
            print_line(f"{remove} removed")
    elif import_file is not None:
        row = network_to_dict(import_described(import_file, given))
        if json or not quiet:
            print_features([row], json=json)
    else:
        list_features(json=json, quiet=quiet)


def parse_levels(option: str, text: str | None) -> list[float] | None:
    """Return the numbers of an option, one for each channel.

    >>> parse_levels("--mean", "103.5, 116.3, 123.7")
    [103.5, 116.3, 123.7]
    """
    if text is None:
        return None
    try:
        levels = [float(part) for part in text.split(",")]
    except ValueError:
        levels = []
    if len(levels) not in (1, 3):
        raise UsageError(f"{option} must be one number or three with commas, got {text!r}.")
    return levels if len(levels) == 3 else levels * 3


def import_described(path: Path, given: dict[str, Any]) -> "FeatureNetwork":
    """Import a network that a file beside it or options describe."""
    from supdocnade.images.feature_network import NetworkDescription
    from supdocnade.images.network_library import import_network

    beside = path.with_suffix(".json")
    if beside.exists():
        if given:
            raise UsageError(f"{beside} describes the network; options must not do so, too.")
        return import_network(path)
    missing = [f"--{name}" for name in ("side", "mean", "scale") if name not in given]
    if missing:
        raise UsageError(f"there is no {beside}, so the network needs {', '.join(missing)}.")
    return import_network(path, NetworkDescription(**{"name": path.stem, **given}))


def list_features(*, json: bool, quiet: bool) -> None:
    """Print the features that are installed; exit with code 1 if some cannot be read."""
    from supdocnade.images.network_library import find_network, list_networks

    empty = dict.fromkeys(("side", "maps", "bytes"))
    rows = [{"name": "sift", **empty, "licence": "BSD-3-Clause"}]
    names = list_networks()
    if find_spec("onnxruntime") is None:
        names = []
        if not quiet:
            print_message(f"note: networks need an extra: {install_command('deep')}.")
    n_failed = 0
    for name in names:
        try:
            rows.append(network_to_dict(find_network(name)))
        except SupDocNADEError as error:
            print_message(f"error: {error}")
            n_failed += 1
    print_features(rows, json=json)
    if n_failed:
        raise typer.Exit(1)


def network_to_dict(network: "FeatureNetwork") -> dict[str, Any]:
    """Return a network as the object that `--json` prints."""
    return {
        "name": network.name,
        "side": network.side,
        "maps": [list(shape) for shape in network.shapes],
        "bytes": sum(file.stat().st_size for file in network.files),
        "licence": network.licence,
    }


def print_features(rows: list[dict[str, Any]], *, json: bool) -> None:
    """Print features as objects of JSON or as a table."""
    table = [["name", "input", "rows × columns × channels", "size", "licence"]]
    for row in rows:
        if json:
            print_json(row)
        cells = ["any", "any", "-"]
        if row["side"] is not None:
            cells = [
                f"{row['side']} × {row['side']}",
                ", ".join(" × ".join(map(str, shape)) for shape in row["maps"]),
                f"{row['bytes'] / 1e6:.1f} MB",
            ]
        table.append([row["name"], *cells, clean_name(row["licence"])])
    if not json:
        print_line(format_table(table))
