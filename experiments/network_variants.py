"""`SceneModel` with variants of EfficientNet-Lite2, compared on the development pools.

python -m experiments.network_variants               # every variant that is not in the results yet
python -m experiments.network_variants NAME ...      # the variants of these names

Variants: larger input images, which give more and smaller patches, and an earlier layer beside the
last: the last outputs at strides of 16 pixels, averaged over 2 × 2 places and appended to the
channels of the last feature map. Everything else is the recipe of `SceneModel`. Five folds of the
pools of LabelMe and Scene15, as in `experiments.scene_features`.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from experiments.common import read_results, write_results
from experiments.network_splits import Memory
from experiments.scene_features import measure, pool_parts
from supdocnade.images.efficientnet_lite import MEAN, SCALE, convert, find_weights, read_weights
from supdocnade.images.feature_network import FeatureNetwork, NetworkDescription, write_network
from supdocnade.images.network_library import DEFAULT_NETWORK

COMMAND = "python -m experiments.network_variants"
DATA_SETS = {"labelme": "tags_free", "scene15": None}

EARLIER_WEIGHT = 0.25
"""Multiplies the earlier layer, which is then half as long as the last."""

VARIANTS: dict[str, dict[str, Any]] = {
    "260 pixels: the recipe": {},
    "320 pixels": {"side": 320},
    "384 pixels": {"side": 384},
    "an earlier layer beside the last": {"earlier": True},
}


def with_earlier_layer(network: bytes) -> bytes:
    """Return a network whose feature map has the channels of an earlier layer, too."""
    import onnx

    model = onnx.load_from_string(network)
    graph = model.graph
    # The last layer of stride 16 is the input of the depthwise convolution of the last stride 2.
    strided = [
        node
        for node in graph.node
        if node.op_type == "Conv"
        and any(each.name == "strides" and list(each.ints) == [2, 2] for each in node.attribute)
    ]
    by_output = {node.output[0]: node for node in graph.node}
    expansion = by_output[by_output[strided[-1].input[0]].input[0]]
    earlier, last = expansion.input[0], graph.node[-1]
    pooled = onnx.helper.make_node(
        "AveragePool", [earlier], ["pooled"], kernel_shape=[2, 2], strides=[2, 2],
        auto_pad="SAME_UPPER",
    )  # fmt: skip
    weight = onnx.numpy_helper.from_array(np.array(EARLIER_WEIGHT, np.float32), "weight")
    graph.initializer.append(weight)
    scaled = onnx.helper.make_node("Mul", ["pooled", "weight"], ["scaled"])
    joined = onnx.helper.make_node("Concat", [last.input[0], "scaled"], ["features"], axis=1)
    graph.node.remove(last)
    graph.node.extend([pooled, scaled, joined])
    shape = graph.output[0].type.tensor_type.shape
    shape.dim[1].ClearField("dim_value")
    shape.dim[1].dim_param = "channels"
    return bytes(onnx.shape_inference.infer_shapes(model).SerializeToString(deterministic=True))


def make_network(folder: Path, *, side: int = 260, earlier: bool = False) -> None:
    """Write a variant of the network to a folder."""
    weights = find_weights(DEFAULT_NETWORK)
    if weights is None:
        sys.exit("the extra `deep` must be installed.")
    network = convert(read_weights(weights))
    if earlier:
        network = with_earlier_layer(network)
    description = NetworkDescription(name="variant", side=side, mean=MEAN, scale=SCALE)
    write_network(folder, {"variant.onnx": network}, description)


def main() -> None:
    results = read_results("network_variants").get("variants", {})
    for data_set, tags in DATA_SETS.items():
        for name in sys.argv[1:] or list(VARIANTS):
            if data_set in results.setdefault(name, {}) and not sys.argv[1:]:
                continue
            memory = Memory()
            with tempfile.TemporaryDirectory() as folder:
                os.environ["SUPDOCNADE_NETWORKS"] = folder
                make_network(Path(folder) / "variant", **VARIANTS[name])
                memory.install()
                try:
                    found = measure({"features": "variant"}, pool_parts(data_set, tags))
                finally:
                    FeatureNetwork.describe = memory.describe  # type: ignore[method-assign]
            print(name, data_set, {k: v for k, v in found.items() if k != "right"}, flush=True)
            results[name][data_set] = found
            write_results("network_variants", COMMAND, {"variants": results})


if __name__ == "__main__":
    main()
