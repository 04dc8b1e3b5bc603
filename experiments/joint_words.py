"""Words of a network with and without SIFT words beside them, on the development pools.

python -m experiments.joint_words [labelme] [scene15]

Five folds of a pool, as in `experiments.scene_features`. A `SupDocNADE` with the settings of the
network's recipe learns from the words and the features of the network, with and without SIFT words.
Classes are predicted by its softmax, and by an RBF SVM on standardised topics with fixed settings.
Compare the rows with each other: `SceneModel` also chooses the classifier and the epochs.
"""

import sys
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from experiments.common import read_results, write_results
from experiments.network_splits import NETWORK, Memory, count_hits
from experiments.scene_features import pool_parts
from supdocnade import SupDocNADE
from supdocnade.corpus.tokens import damp_counts
from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.metrics import N_TAGS
from supdocnade.runs import RunOptions
from supdocnade.scene.fitting import make_word_settings
from supdocnade.scene.settings import SceneSettings
from supdocnade.visual_words.encode import encode_all
from supdocnade.visual_words.learn import learn_words

DATA_SETS = {"labelme": "tags_free", "scene15": None}
SVM = {"C": 10.0, "gamma": "scale"}
ROWS = {"words of the network": 0, "and 200 SIFT words": 200}
"""Numbers of SIFT words."""


def encode(
    n_sift_words: int, train: list[Any], test: list[Any]
) -> tuple[sparse.csr_array, Any, sparse.csr_array, Any]:
    """Return damped counts and global features of both parts, with words of the training part."""
    settings = SceneSettings(features=NETWORK, n_sift_words=n_sift_words).check()
    options = RunOptions(n_jobs=-1)
    encoder = learn_words(train, make_word_settings(settings, 0), 0, options).encoder
    of_train, of_test = (encode_all(encoder, part, options) for part in (train, test))
    X, X_test = (damp_counts(each.counts, settings.damping) for each in (of_train, of_test))
    return X, of_train.global_features, X_test, of_test.global_features


def fit_and_test(n_sift_words: int, train: Any, test: Any) -> Any:
    """Return which classes are right by softmax and by SVM, and the number of right tags."""
    X, F, X_test, F_test = encode(n_sift_words, train[0], test[0])
    _, labels, tags = train
    _, truth, true_tags = test
    settings: Any = SceneSettings(features=NETWORK).check()
    vocabulary = AnnotationVocabulary.of(tags, min_count=settings.min_tag_count)
    annotated = vocabulary.encode(tags)
    model = SupDocNADE(
        settings.n_topics,
        annotation_output="sigmoid",
        annotation_weight=settings.annotation_weight,
        learning_rate=settings.learning_rate,
        max_epochs=settings.max_epochs,
        batch_size=settings.batch_of(len(labels)),
        n_jobs=-1,
        random_state=0,
    )
    named: dict[str, Any] = {}
    if vocabulary.names:
        named = {"annotations": annotated, "annotation_names": list(vocabulary.names)}
    model.fit(X, labels, global_features=F, **named)
    topics, test_topics = (
        model.transform(X, global_features=F),
        model.transform(X_test, global_features=F_test),
    )
    svm = make_pipeline(StandardScaler(), SVC(**SVM)).fit(topics, labels)
    right = model.predict(X_test, global_features=F_test) == truth
    hits = ""
    if vocabulary.names:
        ranked = model.annotate(X_test, top=N_TAGS, global_features=F_test)
        hits = count_hits([list(row) for row in ranked], true_tags)
    return right, svm.predict(test_topics) == truth, hits


def measure(name: str) -> dict[str, Any]:
    """Return accuracies and F-measure of all rows on one pool."""
    found: dict[str, Any] = {row: {"softmax": [], "svm": [], "f": []} for row in ROWS}
    for train, test in pool_parts(name, DATA_SETS[name]):
        for row, n_sift_words in ROWS.items():
            softmax, svm, hits = fit_and_test(n_sift_words, train, test)
            found[row]["softmax"] += list(softmax)
            found[row]["svm"] += list(svm)
            found[row]["f"] += [
                2 * int(hit) / (N_TAGS + len(set(tags)))
                for hit, tags in zip(hits, test[2], strict=False)
                if tags
            ]
        print(name, {r: {k: np.mean(v) for k, v in f.items() if v} for r, f in found.items()})
    return {
        row: {
            "accuracy_softmax": float(np.mean(each["softmax"])),
            "accuracy_svm": float(np.mean(each["svm"])),
            "f_measure": float(np.mean(each["f"])) if each["f"] else None,
            "n_images": len(each["svm"]),
        }
        for row, each in found.items()
    }


def main() -> None:
    results = read_results("joint_words").get("pools", {})
    Memory().install()
    for name in sys.argv[1:] or list(DATA_SETS):
        results[name] = measure(name)
        write_results("joint_words", "python -m experiments.joint_words", {"pools": results})


if __name__ == "__main__":
    main()
