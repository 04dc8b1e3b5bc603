"""`supdocnade features`: list and import pretrained networks; and the features of a command."""

from importlib.util import find_spec
from typing import Any

from supdocnade.cli.console import format_table, print_json, print_line, print_message
from supdocnade.cli.learning_commands import Features
from supdocnade.cli.stopping import was_stopped
from supdocnade.errors import SupDocNADEError, install_command
from supdocnade.images.feature_network import FeatureNetwork
from supdocnade.images.network_library import (
    choose_features,
    find_network,
    import_network,
    list_networks,
)
from supdocnade.text import clean_name


def features(options: Features) -> int:
    """List or import networks; return 1 if some cannot be read."""
    if options.import_file is None:
        return list_features(json=options.json, quiet=options.quiet)
    row = network_to_dict(import_network(options.import_file))
    if options.json or not options.quiet:
        print_features([row], json=options.json)
    return 0


def list_features(*, json: bool, quiet: bool) -> int:
    """Print the features that are installed; return 1 if some cannot be read."""
    empty = dict.fromkeys(("side", "maps", "bytes"))
    rows = [{"name": "sift", **empty, "licence": "BSD-3-Clause"}]
    names = list_networks()
    if find_spec("onnxruntime") is None:
        names = []
        if not quiet:
            print_message(f"note: networks need an extra: {install_command('deep')}.")
    code = 0
    for name in names:
        try:
            rows.append(network_to_dict(find_network(name)))
        except SupDocNADEError as error:
            if was_stopped():  # Ctrl-C was taken for a failing import.
                raise
            print_message(f"error: {error}")
            code = 1
    print_features(rows, json=json)
    return code


def network_to_dict(network: FeatureNetwork) -> dict[str, Any]:
    """Return a network as the object that `--json` prints."""
    return {
        "name": network.name,
        "side": network.description.side,
        "maps": [list(shape) for shape in network.shapes],
        "bytes": network.path.stat().st_size,
        "licence": network.description.licence,
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


def resolve_features(features: str) -> str:
    """Return the features that "auto" stands for on this machine; others if they are installed."""
    if features == "auto":
        return choose_features()
    if features not in ("sift", *list_networks()):
        find_network(features)  # Raises.
    return features


def describe_features(features: str) -> str:
    """Return a line that names the features of a model."""
    if features != "sift":
        return f"features: the pretrained network {features}"
    hint = ""
    if choose_features() == "sift":
        hint = f"; {install_command('deep')} adds a network, which is more accurate"
    return f"features: SIFT{hint}"
