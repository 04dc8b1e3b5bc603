"""Train SupDocNADE on documents from known distributions and compare it with the optimum.

    python examples/planted_scenes.py

No data is needed: documents are drawn from known classes, so the best possible accuracy, tags and
likelihood are known.
"""

import time
from typing import Any

import numpy as np

from supdocnade import DocNADE, SupDocNADE
from supdocnade.demo import planted_scenes
from supdocnade.metrics import f_measure, perplexity, top_ranked

N_TRAIN, N_TEST, N_TAGS = 2000, 1000, 3
SETTINGS: dict[str, Any] = {
    "n_topics": 32,
    "learning_rate": 3e-3,
    "batch_size": 50,
    "max_epochs": 20,
    "random_state": 0,
}


def main() -> None:
    scenes = planted_scenes(
        N_TRAIN + N_TEST, np.random.default_rng(0), mean_length=40, contrast=1.0
    )
    train, test = slice(N_TRAIN), slice(N_TRAIN, None)
    X, y, tags = scenes.counts, scenes.labels, scenes.tags
    print(
        f"{N_TRAIN} training and {N_TEST} test documents: {X.shape[1]} words, "
        f"{tags.shape[1]} tags, {scenes.n_classes} classes\n"
    )
    started = time.perf_counter()
    print("training SupDocNADE on words, tags and classes", flush=True)
    supervised = SupDocNADE(**SETTINGS, generative_weight=0.1, annotation_weight=5.0)
    supervised.fit(X[train], y[train], annotations=tags[train])
    print("training DocNADE on words alone", flush=True)
    unsupervised = DocNADE(**SETTINGS).fit(X[train])
    print(f"done in {time.perf_counter() - started:.1f} s\n")

    def accuracy(scores: np.ndarray) -> str:
        return f"{(scores.argmax(axis=1) == y[test]).mean():.1%}"

    def tag_score(scores: np.ndarray) -> str:
        return f"{f_measure(top_ranked(scores, N_TAGS), tags[test] > 0):.3f}"

    def words_score(log_prob: np.ndarray) -> str:
        return f"{perplexity(log_prob, X[test].sum(axis=1)):.1f}"

    # Predictions from frequencies alone, by the model, and from the true distributions.
    posterior = scenes.class_posterior()[test]
    classes = [
        np.tile(np.bincount(y[train]), (N_TEST, 1)),
        supervised.predict_proba(X[test]),
        posterior,
    ]
    annotations = [
        np.tile(tags[train].mean(axis=0), (N_TEST, 1)),
        supervised.annotation_proba(X[test]),
        posterior @ scenes.tag_probability,
    ]
    counts = X[train].sum(axis=0) + 0.5
    likelihoods = [
        X[test] @ np.log(counts / counts.sum()),
        unsupervised.log_prob(X[test]),
        scenes.log_prob()[test],
    ]
    rows = [
        ["on the test documents", "frequencies", "ours", "best possible"],
        ["SupDocNADE: accuracy", *map(accuracy, classes)],
        [f"SupDocNADE: F-measure, top {N_TAGS} tags", *map(tag_score, annotations)],
        ["DocNADE: perplexity of words", *map(words_score, likelihoods)],
    ]
    for row in rows:
        print(row[0].ljust(34), *(cell.rjust(13) for cell in row[1:]))


if __name__ == "__main__":
    main()
