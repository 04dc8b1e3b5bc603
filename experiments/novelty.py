"""Photographs of classes that were left out of training, told from those of learned classes.

python -m experiments.novelty

The development pool of LabelMe: a model with default settings is fitted on the training part of a
fold without two of the eight classes. It scores the test photographs of the other six, and all
photographs of the two. Four pairs, so that each class is left out once, in two folds.
"""

from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.metrics import roc_auc_score

from experiments.common import read_results, write_results
from experiments.recipe_pools import Part, pool_parts
from supdocnade import SceneModel
from supdocnade.corpus.documents import Documents
from supdocnade.model.network import network_from_arrays
from supdocnade.scene.novelty import ClassNovelty, NeighbourNovelty, take_references
from supdocnade.scene.prediction import FittedScene, predict_compared
from supdocnade.training.validation import log_prob_over_orderings
from supdocnade.visual_words.encoder import count_words

FEATURES = ("sift", "efficientnet-lite2")
PAIRS = (
    ("coast", "tallbuilding"),
    ("forest", "street"),
    ("highway", "mountain"),
    ("insidecity", "opencountry"),
)
N_FOLDS = 2
SCORES = ("likelihood", "neighbours", "classes", "logit", "probability")
N_ORDERS = 4
"""Orders of the words that log p is averaged over."""


def take(part: Part, labels: set[str]) -> Part:
    """Return the photographs of some classes."""
    rows = [row for row, label in enumerate(part[1]) if label in labels]
    paths, classes, tags = part
    return [paths[i] for i in rows], [classes[i] for i in rows], [tags[i] for i in rows]


def score(fitted: FittedScene, paths: list[Any]) -> dict[str, NDArray[Any]]:
    """Return scores that are larger for unknown photographs, and the flags of the predictions."""
    words = [fitted.encoder.encode(path).words for path in paths]
    counts = fitted.damp(count_words([each.ids for each in words], fitted.encoder.n_features))
    features_BF = None
    if fitted.encoder.n_image_features:
        features_BF = np.array([each.features_F for each in words])
    documents = Documents.from_counts(
        counts,
        annotations=csr_array((len(words), fitted.network.config.n_annotation_words)),
        global_features=features_BF,
        annotations_are_words=not fitted.network.config.n_tag_outputs,
    )
    log_p_RB = log_prob_over_orderings(network_from_arrays(fitted.network), documents, N_ORDERS)
    log_p_B = log_p_RB.mean(axis=0)
    photographs = fitted.compare(words)
    hidden_BH = photographs.topics_BH
    reference_BH, labels = fitted.topics_BH, fitted.training_set.photographs.labels
    rows = take_references(len(labels))
    outputs = fitted.network.parameters
    logit_BC = hidden_BH @ outputs["label_weight"].T + outputs["label_bias"]
    predictions = predict_compared(fitted, [str(path) for path in paths], photographs)
    return {
        "likelihood": -log_p_B / counts.sum(axis=1),
        "neighbours": NeighbourNovelty(reference_BH[rows]).scores(hidden_BH),
        "classes": ClassNovelty(reference_BH[rows], labels[rows]).scores(hidden_BH),
        "logit": -logit_BC.max(axis=1),
        "probability": -np.array([each.probability for each in predictions]),
        "unfamiliar": np.array([each.unfamiliar for each in predictions]),
        "unsure": np.array([each.unsure for each in predictions]),
    }


def measure(features: str, left_out: tuple[str, str], parts: tuple[Part, Part]) -> dict[str, Any]:
    """Return the area under the ROC curve of every score, and the shares that are flagged."""
    train, test = parts
    learned = set(train[1]) - set(left_out)
    model = SceneModel(features=features, random_state=0, n_jobs=-1).fit(*take(train, learned))
    known = score(model.fitted_, take(test, learned)[0])
    others = [path for part in parts for path in take(part, set(left_out))[0]]
    unknown = score(model.fitted_, others)
    is_unknown = np.repeat([0, 1], [len(known["unsure"]), len(others)])
    return {
        "n_known": len(known["unsure"]),
        "n_unknown": len(others),
        "area": {
            name: float(roc_auc_score(is_unknown, np.concatenate([known[name], unknown[name]])))
            for name in SCORES
        },
        "flagged": {
            name: {"known": float(known[name].mean()), "unknown": float(unknown[name].mean())}
            for name in ("unfamiliar", "unsure")
        },
    }


def main() -> None:
    results = read_results("novelty").get("runs", {})
    folds = list(islice(pool_parts(), N_FOLDS))
    for fold, features, left_out in product(range(N_FOLDS), FEATURES, PAIRS):
        name = f"{features}, {' and '.join(left_out)}, fold {fold}"
        if name not in results:
            results[name] = {"features": features, **measure(features, left_out, folds[fold])}
            print(name, results[name], flush=True)
            write_results("novelty", "python -m experiments.novelty", {"runs": results})


if __name__ == "__main__":
    main()
