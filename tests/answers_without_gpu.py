"""Answers of a scene model, here and after it was loaded in a process that sees no GPU.

python -m tests.answers_without_gpu MODEL IMAGES ANSWERS
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import supdocnade
from supdocnade import SceneModel


def answers(model, images):
    """Return everything that a model says of images, as JSON has it: floats keep all their bits."""
    found = [
        {
            "label": each.label,
            "probabilities": list(each.probabilities.items()),
            "ranked_tags": each.ranked_tags,
            "tags": each.tags,
            "unsure": each.unsure,
            "unfamiliar": each.unfamiliar,
        }
        for each in model.iter_predictions(images)
    ]
    told = {"images": found, "topics": model.transform(images).tolist()}
    return json.loads(json.dumps(told))


def answers_elsewhere(model, images, folder):
    """Save a model, load it where there is no GPU, and return what it answers there.

    Parameters
    ----------
    images : arrays of one shape.
    folder : that is empty.
    """
    model.save(folder / "model")
    np.save(folder / "images.npy", np.stack(images))
    packages = [Path(__file__).parents[1], Path(supdocnade.__file__).parents[1]]
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": os.pathsep.join(map(str, packages)),
    }
    places = [folder / name for name in ("model", "images.npy", "answers.json")]
    done = subprocess.run(
        [sys.executable, "-m", "tests.answers_without_gpu", *map(str, places)],
        env=environment,
        cwd=packages[0],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(places[2].read_text())


def main():
    import torch

    assert not torch.cuda.is_available(), "there must be no GPU here"
    model, images, written = sys.argv[1:]
    found = answers(SceneModel.load(model), list(np.load(images)))
    Path(written).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
