"""RBF machines with hinge loss and with squared loss, compared on the development pools.

python -m experiments.class_machines

The machines see the means of the three maps of EfficientNet-Lite2, without topics, and the same
distances. Those with hinge loss are scikit-learn's, one per class against the rest, all classes
costing the same; those with squared loss are the classifier of `SceneModel`. Five folds, as in
`experiments.recipe_pools`. Every setting is tested, so the best rows are a little too good.
"""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC

from experiments.common import write_results
from experiments.network_splits import NETWORK
from experiments.recipe_pools import DATA_SETS, pool_parts
from supdocnade.images.decode import decode
from supdocnade.scene.calibration import SVMSettings
from supdocnade.scene.class_heads import fit_machines
from supdocnade.scene.references import References
from supdocnade.visual_words.describer import NetworkDescriber

GAMMAS, COSTS, PENALTIES = (0.15, 0.4, 1.0), (1.0, 4.0, 16.0), (0.03, 0.1, 0.3)


def measure(name: str) -> dict[str, Any]:
    """Return the accuracy of every machine on one pool, and the seconds to train all of a kind."""
    describer, known = NetworkDescriber.find(NETWORK), {}
    right: dict[str, list[bool]] = {}
    seconds = {"hinge": 0.0, "squared": 0.0}

    def features(paths: list[Any]) -> NDArray[np.float32]:
        for path in paths:
            if path not in known:
                known[path] = describer.describe(decode(path, describer.decoding)).image_F
        return np.array([known[path] for path in paths], np.float32)

    def no_topics(paths: list[Any]) -> NDArray[np.float32]:
        return np.zeros((len(paths), 1), np.float32)

    for train, test in pool_parts(name, DATA_SETS[name]):
        classes, label_N = np.unique(train[1], return_inverse=True)
        widths = [channels for _, _, channels in describer.network.shapes]
        # One topic that never varies takes no part in distances.
        references = References.of(no_topics(train[0]), features(train[0]), widths)
        photographs = references.compare(no_topics(test[0]), features(test[0]))
        distance_NN, distance_BN = references.mutual_distances(), photographs.distance_BN
        for gamma in GAMMAS:
            scores = {}
            started = time.process_time()
            settings = [SVMSettings(gamma, penalty) for penalty in PENALTIES]
            for each, machine in zip(
                settings, fit_machines(references, label_N, len(classes), settings), strict=True
            ):
                scores[f"squared loss, penalty {each.penalty}"] = machine.scores(photographs)
            middle = time.process_time()
            kernel_NN, kernel_BN = np.exp(-gamma * distance_NN), np.exp(-gamma * distance_BN)
            for C in COSTS:
                columns = []
                for number in range(len(classes)):
                    svc = SVC(C=C, kernel="precomputed", class_weight="balanced")
                    svc.fit(kernel_NN, label_N == number)
                    columns.append(svc.decision_function(kernel_BN))
                scores[f"hinge loss, C {C:g}"] = np.stack(columns, axis=1)
            seconds["squared"] += middle - started
            seconds["hinge"] += time.process_time() - middle
            for title, scores_BC in scores.items():
                found = classes[scores_BC.argmax(axis=1)] == np.array(test[1])
                right.setdefault(f"{title}, gamma {gamma}", []).extend(found.tolist())
    accuracy = {title: float(np.mean(each)) for title, each in right.items()}
    return {
        "accuracy": accuracy,
        "cpu_seconds": seconds,
        "n_images": len(next(iter(right.values()))),
    }


def main() -> None:
    pools = {name: measure(name) for name in DATA_SETS}
    for name, found in pools.items():
        print(name, found["cpu_seconds"])
        for title, accuracy in sorted(found["accuracy"].items(), key=lambda each: -each[1]):
            print(f"  {100 * accuracy:.2f}  {title}")
    write_results("class_machines", "python -m experiments.class_machines", {"pools": pools})


if __name__ == "__main__":
    main()
