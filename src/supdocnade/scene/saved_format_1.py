"""Scene models of format 1: a file for every part, and their digests in model.json.

Nothing is written in this format any more, and it stays readable for ever.
"""

import hashlib
from pathlib import Path
from typing import Any

from supdocnade.errors import StorageError
from supdocnade.scene.fitted import FittedScene
from supdocnade.scene.stored import PARTS, Parts, scene_from_storage
from supdocnade.storage import parse_arrays, read_file

FILES = tuple(f"{part}.safetensors" for part in PARTS)


def load_scene(folder: Path, description: dict[str, Any]) -> tuple[FittedScene, dict[str, Any]]:
    """Read a model; return it with the parameters of its `SceneModel`.

    Parameters
    ----------
    description : what its model.json says.
    """
    digests = description.get("files")
    if not isinstance(digests, dict):
        raise StorageError(f"{folder / 'model.json'} is damaged: it must list the files.")
    parts: Parts = {}
    for part, file in zip(PARTS, FILES, strict=True):
        content = read_file(folder / file)
        if hashlib.blake2b(content, digest_size=16).hexdigest() != digests.get(file):
            raise StorageError(
                f"{folder / file} is damaged: its contents are not those that were written."
            )
        parts[part] = parse_arrays(content, folder / file)
    return scene_from_storage(parts, description, str(folder / "model.json"))
