"""Make dense_sift.npz with VLFeat, the oracle of our dense SIFT.

VLFeat is no dependency. In an environment of its own:

    apt-get install libvlfeat-dev
    pip install "cython<3" "numpy<2" "scipy<1.12" "setuptools<70" wheel pillow
    pip install --no-build-isolation cyvlfeat
    python tests/golden/make_dense_sift.py PHOTOGRAPHS

PHOTOGRAPHS is the folder of LabelMe's eight outdoor classes; of a photograph only every tenth
descriptor is kept, and none of its pixels.
"""

import sys
from pathlib import Path

import cyvlfeat.sift
import numpy as np
from PIL import Image

PHOTOGRAPHS = ("coast/coast_art1130.jpg", "forest/forest_bost100.jpg", "street/street_a232022.jpg")


def main() -> None:
    folder = Path(sys.argv[1])
    y, x = np.mgrid[0:64, 0:80]
    pictures = {
        "waves": 127 + 60 * np.sin(x / 5) + 60 * np.cos((x + 2 * y) / 9),
        "ramp": (3 * x + y) / 2,
        "noise": np.random.default_rng(0).integers(0, 256, (50, 71)),
        "disc": 255.0 * (np.hypot(y - 30, x - 41) < 17),
    }
    arrays = {}
    for name, levels in pictures.items():
        picture = np.clip(levels, 0, 255).astype(np.uint8)
        arrays[f"picture/{name}"] = picture
        for key, descriptors in describe(picture).items():
            arrays[f"{key}/{name}"] = descriptors.astype(np.float32)
    photographs = [name for name in PHOTOGRAPHS if (folder / name).exists()]
    for name in photographs:
        picture = np.asarray(Image.open(folder / name).convert("L"))
        for key, descriptors in describe(picture).items():
            if not key.endswith("-24") and not key.startswith("frames"):
                arrays[f"{key}/{name}"] = descriptors[::10].astype(np.float16)
    target = Path(__file__).with_name("dense_sift.npz")
    np.savez_compressed(target, **arrays)
    print(f"{target}: {target.stat().st_size} bytes, photographs {photographs}")


def describe(picture: np.ndarray) -> dict[str, np.ndarray]:
    found = {}
    for step, size in ((8, 4), (5, 6)):
        frames, descriptors = cyvlfeat.sift.dsift(
            picture.astype(np.float32), step=step, size=size, fast=False,
            float_descriptors=True, norm=True,
        )  # fmt: skip
        found[f"gaussian-{step}-{4 * size}"] = descriptors
        found[f"frames-{step}-{4 * size}"] = frames
    return found


if __name__ == "__main__":
    main()
