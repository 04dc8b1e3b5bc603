"""Make the golden scene model: `python -m tests.golden.make_scene_model`.

Run once for every format of saved models; the tests read what it wrote.
"""

import json
from pathlib import Path

import numpy as np
from tests.scene_model import columns, scenes

from supdocnade.scene.model import scene_model
from supdocnade.schema import FORMAT

FOLDER = Path(__file__).parent


def main():
    target = FOLDER / f"scene_model_format_{FORMAT}"
    if target.exists():
        raise SystemExit(f"{target} is there: it must not be made again.")
    model = scene_model(
        n_topics=6, n_words=10, patch_size=16, max_epochs=8, learning_rate=3e-3, random_state=0
    ).fit(*columns(scenes()))
    model.save(target)
    pictures = np.load(FOLDER / "dense_sift.npz")
    images = [pictures[f"picture/{name}"] for name in ("waves", "noise", "disc")]
    answers = {
        "probabilities": model.predict_proba(images).tolist(),
        "topics": model.transform(images).tolist(),
        "tags": model.annotate(images, top=3),
    }
    (FOLDER / f"scene_model_format_{FORMAT}.json").write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    main()
