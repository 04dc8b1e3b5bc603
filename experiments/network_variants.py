"""`SceneModel` with variants of EfficientNet-Lite2, compared on the development pools.

python -m experiments.network_variants               # every variant that is not in the results yet
python -m experiments.network_variants NAME ...      # the variants of these names

Variants: larger input images, which give more and smaller patches. Everything else is the recipe of
`SceneModel`. Five folds of the pools of LabelMe and Scene15, as in `experiments.scene_features`.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from experiments.common import read_results, write_results
from experiments.network_splits import Memory
from experiments.scene_features import measure, pool_parts
from supdocnade.images.efficientnet_lite import (
    MEAN,
    OUTPUTS,
    SCALE,
    convert,
    find_weights,
    read_weights,
)
from supdocnade.images.feature_network import FeatureNetwork, write_network
from supdocnade.images.network_description import NetworkDescription
from supdocnade.images.network_library import DEFAULT_NETWORK

COMMAND = "python -m experiments.network_variants"
DATA_SETS = {"labelme": "tags_free", "scene15": None}

VARIANTS: dict[str, dict[str, Any]] = {
    "260 pixels: the recipe": {},
    "320 pixels": {"side": 320},
    "384 pixels": {"side": 384},
}


def make_network(folder: Path, *, side: int = 260) -> None:
    """Write the network for images of another side to a folder."""
    weights = find_weights(DEFAULT_NETWORK)
    if weights is None:
        sys.exit("the extra `deep` must be installed.")
    network = convert(read_weights(weights))
    description = NetworkDescription(
        name="variant", side=side, mean=MEAN, scale=SCALE, outputs=OUTPUTS
    )
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
