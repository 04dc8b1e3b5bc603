"""Explanations checked on photographs: cover the patches that support the class most.

python -m experiments.explanations

Of each test photograph of the first split of LabelMe, a tenth of the patches is covered with the
mean colour of the photograph: those with the largest shares in the score of the predicted class,
those with the smallest, or random ones. If the explanation is right, the score falls most in the
first case. Models have their default settings.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.common import read_results, write_results
from experiments.data import data_folder
from experiments.paper.data_sets import read_labelme
from experiments.paper.protocol import split_records
from supdocnade import SceneModel
from supdocnade.images.decode import DecodeConfig, decode
from supdocnade.scene.attribution import Explanation
from supdocnade.scene.prediction import FittedScene

FEATURES = ("sift", "efficientnet-lite2")
COVERED = 0.1
"""Share of the area that is covered."""

N_PHOTOGRAPHS = 100
CELLS = 7
"""Photographs are covered in cells of a grid of this many rows and columns."""


def cell_shares(explanation: Explanation) -> NDArray[np.float64]:
    """Return the share of each cell of the grid, (cells,): the sum over patches by their centre."""
    cells_S2 = (explanation.centres_S2 / explanation.size * CELLS).astype(int)
    shares = np.zeros(CELLS * CELLS)
    np.add.at(shares, cells_S2[:, 0] * CELLS + cells_S2[:, 1], explanation.share_S)
    return shares


def cover(pixels: NDArray[np.uint8], cells: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the photograph with some cells in its mean colour."""
    covered = pixels.copy()
    height, width = pixels.shape[:2]
    for row, column in zip(*np.divmod(cells, CELLS), strict=True):
        rows = slice(row * height // CELLS, (row + 1) * height // CELLS)
        columns = slice(column * width // CELLS, (column + 1) * width // CELLS)
        covered[rows, columns] = pixels.mean(axis=(0, 1)).round()
    return covered


def score_of(fitted: FittedScene, image: Any, label: str) -> float:
    photographs = fitted.compare([fitted.encoder.encode(image).words])
    assert fitted.class_head is not None, "the model knows classes"
    return float(fitted.class_head.scores(photographs)[0, fitted.classes.index(label)])


def measure(model: SceneModel, images: list[NDArray[np.uint8]]) -> dict[str, Any]:
    """Return the mean fall of the score, and how often the supporting cells matter more."""
    rng, falls = np.random.default_rng(0), []
    n_covered = round(COVERED * CELLS * CELLS)
    for pixels in images:
        explanation = model.explain(pixels)
        order = np.argsort(-cell_shares(explanation), kind="stable")
        chosen = (order[:n_covered], order[-n_covered:], rng.permutation(order)[:n_covered])
        scores = [
            score_of(model.fitted_, cover(pixels, cells), explanation.name) for cells in chosen
        ]
        falls.append([explanation.whole - score for score in scores])
    supporting, opposing, random = np.array(falls).T
    difference = supporting - random
    return {
        "n_photographs": len(images),
        "fall_supporting": float(supporting.mean()),
        "fall_random": float(random.mean()),
        "fall_opposing": float(opposing.mean()),
        "difference": float(difference.mean()),
        "standard_error": float(difference.std(ddof=1) / np.sqrt(len(difference))),
        "share_larger": float((difference > 0).mean()),
    }


def main() -> None:
    records = read_labelme(data_folder("labelme"))
    train, test = split_records("labelme", records, seed=0)
    chosen = np.random.default_rng(0).permutation(test)[:N_PHOTOGRAPHS]
    in_color = DecodeConfig(color=True)
    images = [decode(records[i].path, in_color) for i in chosen]
    results = read_results("explanations").get("features", {})
    for features in FEATURES:
        if features not in results:
            model = SceneModel(features=features, random_state=0, n_jobs=-1)
            model.fit([records[i].path for i in train], [records[i].label for i in train])
            results[features] = measure(model, images)
            print(features, results[features], flush=True)
            write_results(
                "explanations", "python -m experiments.explanations", {"features": results}
            )


if __name__ == "__main__":
    main()
