"""`SceneModel` with a network on the paper's splits, beside the network without a topic model.

python -m experiments.network_splits               # the rows that are not in the results yet
python -m experiments.network_splits labelme       # those of one data set

The recipe of `SceneModel(features=NETWORK)` was chosen on the development pools alone
(`experiments.recipe_pools`) and is not changed here. On every split it is fitted on the training
part, as a user would fit it. The other methods see what the model sees: the means of the maps at
three depths of the network, and the visual words. Their settings are chosen on a fifth of the
training part, and then they are trained on all of it. The rows "before" are those of an earlier
recipe, which is not in the package any more: features of the last depth alone, and SIFT words.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.linear_model import LogisticRegression

from experiments.common import read_results, timed, write_results
from experiments.data import data_folder
from experiments.paper.claims import compare
from experiments.paper.data_sets import MIN_TAG_COUNT, PhotoSet, read_photo_set
from experiments.paper.kernel_svm import (
    add_kernels,
    best_svm,
    predict_svm,
    rbf_kernel,
    score_svms,
    standardize,
)
from experiments.paper.protocol import Parts, Protocol, protocol_for
from supdocnade import SceneModel
from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.images.feature_network import FeatureNetwork
from supdocnade.images.network_library import DEFAULT_NETWORK
from supdocnade.images.reading import content_key
from supdocnade.metrics import N_TAGS, f_measure, top_ranked
from supdocnade.scene.model import scene_model
from supdocnade.scene.prediction import Prediction
from supdocnade.visual_words.encoder import encode_all

NETWORK = DEFAULT_NETWORK
MODEL = "SupDocNADE, three depths"
C_GRID = (1e-4, 1e-3, 1e-2)
"""Of logistic regressions on standardised features."""

Floats = NDArray[np.float64]


class Memory:
    """In its block the network's outputs are kept, so that a photograph passes through it once."""

    def __init__(self) -> None:
        self.outputs: dict[str | None, Any] = {}
        self.describe = FeatureNetwork.describe

    def __enter__(self) -> None:
        def describe(network: FeatureNetwork, pixels: Any, *, device: str = "auto") -> Any:
            key = content_key(pixels)
            if key not in self.outputs:
                self.outputs[key] = self.describe(network, pixels, device=device)
            return self.outputs[key]

        FeatureNetwork.describe = describe  # type: ignore[assignment, method-assign]

    def __exit__(self, *_: object) -> None:
        FeatureNetwork.describe = self.describe  # type: ignore[method-assign]


def tag_truth(photos: PhotoSet, name: str) -> list[list[str] | None]:
    """Return the tags of photographs without those on fewer than three of them."""
    vocabulary = AnnotationVocabulary.of(photos.tags[name], min_count=MIN_TAG_COUNT)
    known = set(vocabulary.names)
    return [None if t is None else [tag for tag in t if tag in known] for t in photos.tags[name]]


def count_hits(ranked: Sequence[Sequence[str]], truth: Sequence[Sequence[str] | None]) -> str:
    """Return how many of the first five tags of every photograph are right, one digit each."""
    return "".join(
        str(len(set(tags[:N_TAGS]) & set(true or ())))
        for tags, true in zip(ranked, truth, strict=True)
    )


def as_digits(right: NDArray[np.bool_]) -> str:
    return "".join("01"[int(each)] for each in right)


def run_scene_model(
    settings: dict[str, Any], photos: PhotoSet, parts: Parts, tag_sets: Sequence[str]
) -> tuple[dict[str, Any], SceneModel]:
    """Return the results of a `SceneModel`, and the model with the first tag set."""
    first, record = None, {}
    for name in tag_sets or [""]:
        truth = tag_truth(photos, name) if name else None
        train, test = ([photos.paths[i] for i in rows] for rows in (parts.train, parts.test))
        model = scene_model(**settings, random_state=0, n_jobs=-1, on_error="raise").fit(
            train,
            [photos.labels[i] for i in parts.train],
            None if truth is None else [truth[i] for i in parts.train],
        )
        found = [p for p in model.iter_predictions(test) if isinstance(p, Prediction)]
        if first is None:
            first = model
            labels = [photos.labels[i] for i in parts.test]
            record["right"] = as_digits(
                np.array([p.label == label for p, label in zip(found, labels, strict=True)])
            )
        if truth is not None:
            ranked = [[tag for tag, _ in p.ranked_tags] for p in found]
            record[name] = count_hits(ranked, [truth[i] for i in parts.test])
    assert first is not None
    return record, first


def run_svms(
    blocks_of: dict[str, list[Floats]], label_B: NDArray[np.int64], parts: Parts
) -> dict[str, dict[str, Any]]:
    """Return the results of RBF SVMs; the kernels of all blocks of features of one are added."""

    def kernel(blocks: Sequence[Floats], train: Any, other: Any) -> Any:
        return add_kernels([rbf_kernel(each[train], each[other]) for each in blocks])

    results = {}
    for name, blocks in blocks_of.items():
        scores = score_svms(
            kernel(blocks, parts.fit, parts.held), label_B[parts.fit], label_B[parts.held]
        )
        C, gamma, _ = best_svm(scores)
        predicted = predict_svm(
            kernel(blocks, parts.train, parts.test), label_B[parts.train], C, gamma
        )
        results[name] = {"right": as_digits(predicted == label_B[parts.test])}
    return results


def run_baselines(
    model: SceneModel, photos: PhotoSet, parts: Parts, tag_sets: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return the results of methods without a topic model."""
    encoded = encode_all(model.fitted_.encoder, photos.paths)
    pooled_BF = standardize(np.asarray(encoded.global_features, np.float64), parts.train)
    maps = np.split(pooled_BF, np.cumsum(model.fitted_.encoder.map_width)[:-1], axis=1)
    roots_BK = np.sqrt(encoded.counts.toarray())
    label_B = photos.label_numbers()
    blocks_of = {
        "last depth, RBF SVM": maps[:1],
        "three depths, RBF SVM": maps,
        "√counts of words, RBF SVM": [roots_BK],
        "√counts and three depths, RBF SVM": [roots_BK, *maps],
    }
    results = run_svms(blocks_of, label_B, parts)
    for name, features_BF in (("last depth", maps[0]), ("three depths", pooled_BF)):
        results[f"{name}, logistic regression"] = run_regressions(
            features_BF, label_B, photos, parts, tag_sets
        )
    return results


def run_regressions(
    features_BF: Floats,
    label_B: NDArray[np.int64],
    photos: PhotoSet,
    parts: Parts,
    tag_sets: Sequence[str],
) -> dict[str, Any]:
    """Return the results of a logistic regression for the class, and of one for every tag."""

    def predict_class(C: float, train: Any, other: Any) -> NDArray[np.int64]:
        first, second = rotate(features_BF[train], features_BF[other])
        regression = LogisticRegression(C=C, max_iter=500).fit(first, label_B[train])
        classes: NDArray[np.int64] = regression.predict(second)
        return classes

    accuracy = {
        C: (predict_class(C, parts.fit, parts.held) == label_B[parts.held]).mean() for C in C_GRID
    }
    C = max(C_GRID, key=accuracy.__getitem__)
    predicted = predict_class(C, parts.train, parts.test)
    record = {"right": as_digits(predicted == label_B[parts.test])}
    for name in tag_sets:
        truth = tag_truth(photos, name)
        vocabulary = AnnotationVocabulary.of(
            [truth[i] for i in parts.train], min_count=MIN_TAG_COUNT
        )
        has_BA = vocabulary.encode(truth).toarray() > 0

        def rank(C: float, train: Any, other: Any, has_BA: Any = has_BA) -> NDArray[np.int64]:
            first, second = rotate(features_BF[train], features_BF[other])
            weight_AF, bias_A = fit_regressions(first, has_BA[train], C)
            return top_ranked(second @ weight_AF.T + bias_A, N_TAGS)

        def f_value(C: float, has_BA: Any = has_BA, rank: Any = rank) -> float:
            return f_measure(rank(C, parts.fit, parts.held), has_BA[parts.held])

        top_BX = rank(max(C_GRID, key=f_value), parts.train, parts.test)
        ranked = [[vocabulary.names[a] for a in row] for row in top_BX]
        record[name] = count_hits(ranked, [truth[i] for i in parts.test])
    return record


def rotate(train_AF: Floats, other_BF: Floats) -> tuple[Floats, Floats]:
    """Return features in a basis of the space that the training photographs span.

    A regression with a penalty on |w|² is the same in it, and has fewer numbers to find.
    """
    _, _, basis_NF = np.linalg.svd(train_AF, full_matrices=False)
    return train_AF @ basis_NF.T, other_BF @ basis_NF.T


def fit_regressions(
    features_BF: Floats, target_BA: NDArray[np.bool_], C: float
) -> tuple[Floats, Floats]:
    """Return the weights and biases of one logistic regression per column of the target.

    The objective of each is that of scikit-learn, ½ |w|² + C Σ log(1 + exp(-t (w · x + b))). All
    are fitted together, which is many times as fast.
    """
    n_targets, n_features = target_BA.shape[1], features_BF.shape[1]
    sign_BA = np.where(target_BA, 1.0, -1.0)

    def loss(flat: Floats) -> tuple[float, Floats]:
        weight_AF = flat[:-n_targets].reshape(n_targets, n_features)
        margin_BA = sign_BA * (features_BF @ weight_AF.T + flat[-n_targets:])
        slope_BA = -C * sign_BA * expit(-margin_BA)
        value = 0.5 * np.square(weight_AF).sum() - C * log_expit(margin_BA).sum()
        gradient_AF = weight_AF + slope_BA.T @ features_BF
        return float(value), np.concatenate([gradient_AF.ravel(), slope_BA.sum(axis=0)])

    start = np.zeros(n_targets * (n_features + 1))
    options = {"maxiter": 300, "ftol": 1e-7}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
    return found[:-n_targets].reshape(n_targets, n_features), found[-n_targets:]


def run_split(
    photos: PhotoSet, protocol: Protocol, split: int, known: dict[str, Any]
) -> dict[str, Any]:
    """Return the rows of a split, those that are known already among them."""
    parts, tag_sets, results = protocol.parts(split), list(photos.tags), dict(known)
    if MODEL not in results:
        results[MODEL], model = run_scene_model({"features": NETWORK}, photos, parts, tag_sets)
        results |= run_baselines(model, photos, parts, tag_sets)
    return {MODEL: results.pop(MODEL), **results}  # The model first.


def compare_methods(
    splits: Sequence[dict[str, Any]], photos: PhotoSet, protocol: Protocol
) -> dict[str, Any]:
    """Return the mean of every method and figure, and how far `MODEL` is above the others.

    Differences are those outside the pool. They have the 95 % interval of a bootstrap over
    photographs, and the corrected resampled t interval over splits.
    """
    compared: dict[str, Any] = {}
    for figure in ("right", *photos.tags):
        scores = {
            method: figure_scores(splits, photos, protocol, method, figure)
            for method, found in splits[0].items()
            if figure in found
        }
        n_train = len(protocol.parts(0).train)
        outside = {
            method: np.where(protocol.pool_B, np.nan, each) for method, each in scores.items()
        }
        for method, scores_SB in scores.items():
            record: dict[str, Any] = {
                "mean": float(np.nanmean(scores_SB, axis=1).mean()),
                "outside": float(np.nanmean(outside[method], axis=1).mean()),
            }
            if method != MODEL:
                found = compare(outside[MODEL], outside[method], protocol.picture_B, n_train)
                record |= {"photographs": found.bootstrap, "splits": found.corrected_t}
            compared.setdefault(figure, {})[method] = record
    return compared


def figure_scores(
    splits: Sequence[dict[str, Any]], photos: PhotoSet, protocol: Protocol, method: str, figure: str
) -> Floats:
    """Return the scores of test photographs: 1 if the class is right, or the F-measure of tags.

    They are (splits, photographs), NaN where a photograph is not tested or has no tags.
    """
    scores_SB = np.full((len(splits), len(photos)), np.nan)
    for split, found in enumerate(splits):
        test = protocol.parts(split).test
        scores_SB[split, test] = [int(digit) for digit in found[method][figure]]
    if figure != "right":
        n_true_B = np.array([len(tags or ()) for tags in tag_truth(photos, figure)])
        with np.errstate(invalid="ignore"):
            scores_SB = np.where(n_true_B > 0, 2 * scores_SB / (N_TAGS + n_true_B), np.nan)
    return scores_SB


def main() -> None:
    results = read_results("network_splits").get("data_sets", {})
    for name in sys.argv[1:] or ("labelme", "scene15"):
        photos = read_photo_set(name, data_folder(name))
        protocol = protocol_for(photos)
        record = results.setdefault(name, {"splits": [{}] * protocol.n_splits})
        with Memory():
            for split in range(protocol.n_splits):
                with timed({}, f"{name}, split {split}"):
                    found = run_split(photos, protocol, split, record["splits"][split])
                record["splits"][split] = found
                accuracy = {k: np.mean([c == "1" for c in v["right"]]) for k, v in found.items()}
                print({k: round(100 * share, 2) for k, share in accuracy.items()}, flush=True)
                _write(results)
        record["compared"] = compare_methods(record["splits"], photos, protocol)
        _write(results)


def _write(results: dict[str, Any]) -> None:
    command = "python -m experiments.network_splits"
    write_results("network_splits", command, {"network": NETWORK, "data_sets": results})


if __name__ == "__main__":
    main()
