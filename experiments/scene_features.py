"""`SceneModel` with different features, compared on the development pool of LabelMe.

python -m experiments.scene_features               # every variant that is not in the results yet
python -m experiments.scene_features NAME ...      # the variants of these names

Five folds of the pool, near-duplicates in one fold: a model is fitted on four of them, with its
default settings but for those of the variant, and tested on the fifth. Tags are LabelMe's free
ones. Compare variants; the pool is what choices are made on, so quote no figure of it as an
accuracy.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from experiments.common import read_results, write_results
from experiments.data import data_folder
from experiments.paper.data_sets import read_photo_set
from experiments.paper.protocol import protocol_for
from experiments.pool import N_FOLDS, folds
from supdocnade import SceneModel
from supdocnade.metrics import N_TAGS
from supdocnade.scene.prediction import Prediction

SVM = {"classifier": "svm"}
ALONE = {"n_sift_words": 0}
"""A network without SIFT words beside its own; `experiments.joint_words` compares the two."""
VARIANTS: dict[str, dict[str, Any]] = {
    "sift": {},
    "sift, svm": SVM,
    "sift, svm, logistic tags": {**SVM, "annotation_output": "sigmoid"},
    "efficientnet-lite0": {"features": "efficientnet-lite0", **ALONE},
    "efficientnet-lite2": {"features": "efficientnet-lite2", **ALONE},
    "efficientnet-lite2, tags as words": {
        "features": "efficientnet-lite2",
        **ALONE,
        "annotation_output": "words",
    },
}

Part = tuple[list[Any], list[str], list[Sequence[str] | None]]


def pool_parts(
    name: str = "labelme", tags: str | None = "tags_free"
) -> Iterator[tuple[Part, Part]]:
    """Yield the training and the test part of each fold of the pool of a data set.

    Parameters
    ----------
    tags : name of the tag set; None if no tags are known.
    """
    photos = read_photo_set(name, data_folder(name))
    protocol = protocol_for(photos)
    inside = np.flatnonzero(protocol.pool_B)
    pool = photos.take(inside)
    roles = folds(pool, protocol.picture_B[inside])

    def part(rows: Any) -> Part:
        some = pool.take(rows)
        known: list[Any] = [None] * len(some) if tags is None else list(some.tags[tags])
        return list(some.paths), list(some.labels), known

    for number in range(N_FOLDS):
        found = roles.parts(number)
        yield part(found.train), part(found.test)


def measure(settings: dict[str, Any], parts: Iterator[tuple[Part, Part]]) -> dict[str, Any]:
    """Return the share of right classes and the F-measure of five tags over all test parts."""
    right: list[bool] = []
    f: list[float] = []
    for train, (images, labels, tags) in parts:
        model = SceneModel(**settings, random_state=0, n_jobs=-1).fit(*train)
        predictions = [p for p in model.iter_predictions(images) if isinstance(p, Prediction)]
        right += [p.label == label for p, label in zip(predictions, labels, strict=True)]
        for p, truth in zip(predictions, tags, strict=True):
            if truth:
                ranked = [tag for tag, _ in p.ranked_tags[:N_TAGS]]
                f.append(2 * len(set(ranked) & set(truth)) / (N_TAGS + len(set(truth))))
    return {
        "accuracy": float(np.mean(right)),
        "f_measure": float(np.mean(f)) if f else None,
        "n_images": len(right),
        "right": "".join("01"[each] for each in right),
    }


def main() -> None:
    results = read_results("scene_features").get("variants", {})
    for name in sys.argv[1:] or [name for name in VARIANTS if name not in results]:
        results[name] = {"settings": VARIANTS[name], **measure(VARIANTS[name], pool_parts())}
        print(
            name, {k: results[name][k] for k in ("accuracy", "f_measure", "n_images")}, flush=True
        )
        write_results(
            "scene_features", "python -m experiments.scene_features", {"variants": results}
        )


if __name__ == "__main__":
    main()
