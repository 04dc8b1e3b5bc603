"""Answers of scene models, here and after they were loaded in a process that sees no GPU.

python -m tests.answers_without_gpu IMAGES ANSWERS MODEL...
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


def answers_elsewhere(models, images, folder):
    """Save models, load them where there is no GPU, and return what each answers there.

    Parameters
    ----------
    images : arrays of one shape.
    folder : that is empty.
    """
    saved = [folder / f"model-{number}" for number in range(len(models))]
    for model, path in zip(models, saved, strict=True):
        model.save(path)
    np.save(folder / "images.npy", np.stack(images))
    packages = [Path(__file__).parents[1], Path(supdocnade.__file__).parents[1]]
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": os.pathsep.join(map(str, packages)),
    }
    places = [folder / "images.npy", folder / "answers.json", *saved]
    done = subprocess.run(
        [sys.executable, "-m", "tests.answers_without_gpu", *map(str, places)],
        env=environment,
        cwd=packages[0],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(places[1].read_text())


def main():
    import torch

    assert not torch.cuda.is_available(), "there must be no GPU here"
    images, written, *models = sys.argv[1:]
    found = [answers(SceneModel.load(model), list(np.load(images))) for model in models]
    Path(written).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
