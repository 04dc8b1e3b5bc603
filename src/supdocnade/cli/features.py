"""`supdocnade features`: list, import and remove pretrained networks."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from supdocnade.cli.console import print_json, print_line, print_message
from supdocnade.cli.formats import format_table
from supdocnade.cli.learning_commands import Features
from supdocnade.cli.options import UsageError
from supdocnade.cli.stopping import was_stopped
from supdocnade.errors import SupDocNADEError, install_command
from supdocnade.images.feature_network import FeatureNetwork
from supdocnade.images.network_description import NetworkDescription
from supdocnade.images.network_library import (
    find_network,
    import_network,
    list_networks,
    remove_network,
)
from supdocnade.text import clean_name


def features(options: Features) -> int:
    """List, import or remove networks; return 1 if some cannot be read."""
    json, quiet = options.json, options.quiet
    if options.remove is not None:
        remove_network(options.remove)
        if json:
            print_json({"removed": options.remove})
        elif not quiet:
            print_line(f"{options.remove} removed")
    elif options.import_file is not None:
        row = network_to_dict(import_described(options.import_file, options.description()))
        if json or not quiet:
            print_features([row], json=json)
    else:
        return list_features(json=json, quiet=quiet)
    return 0


def import_described(path: Path, given: dict[str, Any]) -> FeatureNetwork:
    """Import a network that a file beside it or options describe."""
    beside = path.with_suffix(".json")
    if beside.exists():
        if given:
            raise UsageError(f"{beside} describes the network; --set must not do so, too.")
        return import_network(path)
    missing = [f"--set {name}=…" for name in ("side", "mean", "scale") if name not in given]
    if missing:
        raise UsageError(f"there is no {beside}, so the network needs {', '.join(missing)}.")
    return import_network(path, NetworkDescription(**{"name": path.stem, **given}))


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
