"""Draw the scenes of `supdocnade demo`, and write them into the package as one archive.

python -m tools.draw_scenes

Repeating it gives the same bytes, with the same versions of numpy and Pillow.
"""

import io
import json
import zipfile

from PIL import Image

from supdocnade.cli.demo import (
    ARCHIVE,
    CLASSES,
    METADATA,
    N_PER_CLASS,
    DrawnScene,
    scene_name,
)
from supdocnade.storage import write_atomically
from tools.draw_scenes.scenes import draw_scene

N_TRAIN = 40
"""Scenes per class of seed 0, the first ones; the others are of seed 1."""

QUALITY = 70
"""Of WebP: the archive stays below 3 MB."""


def draw_numbered(label: str, number: int) -> DrawnScene:
    """Return the scene of a number within its class in the archive."""
    seed, number = (0, number) if number < N_TRAIN else (1, number - N_TRAIN)
    return draw_scene(label, seed, number)


def encode(scene: DrawnScene) -> bytes:
    """Return the file of a scene."""
    buffer = io.BytesIO()
    Image.fromarray(scene.image).save(buffer, "WEBP", quality=QUALITY, method=6)
    return buffer.getvalue()


def make_archive() -> bytes:
    """Draw all scenes; return the archive of their files and of their metadata."""
    files, lines = {}, []
    for label in CLASSES:
        for number in range(N_PER_CLASS):
            scene = draw_numbered(label, number)
            name = scene_name(label, number)
            files[name] = encode(scene)
            lines.append({"file_name": name, "label": label, "tags": list(scene.tags)})
    files[METADATA] = "".join(json.dumps(line) + "\n" for line in lines).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # Without the time of now.
    return buffer.getvalue()


def main() -> None:
    """Write the archive."""
    content = make_archive()
    write_atomically(ARCHIVE, content)
    print(f"written to {ARCHIVE}, {len(content) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
