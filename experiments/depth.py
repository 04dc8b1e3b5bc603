"""One hidden layer against two, on short texts and on bags of images.

python -m experiments.depth

TagMyNews: DocNADE with ReLU units and the tree; the learning rate is that of the best perplexity on
the validation part. The accuracy is that of a logistic regression on the topics. LabelMe bags:
SupDocNADE on the published split, with the mean over seeds. Every model passes over the documents
equally often; perplexities are exact, of one order. A stopped run resumes with the missing models;
remove experiments/results/depth.json to start again.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.common import read_results, write_results
from experiments.data import class_slda, tag_my_news
from supdocnade import DocNADE, SupDocNADE

LAYERS: dict[str, int | tuple[int, ...]] = {"200": 200, "200, 200": (200, 200)}
LEARNING_RATES = (1e-3, 3e-3)
SEEDS = (0, 1)
TEXTS: dict[str, Any] = {"max_epochs": 10, "random_state": 0, "n_jobs": 1}
IMAGES: dict[str, Any] = {"max_epochs": 15, "learning_rate": 1e-3, "n_jobs": 1}


def run_texts(n_topics: int | tuple[int, ...], rate: float) -> dict[str, float]:
    """Return perplexities and accuracy on TagMyNews."""
    train, validation, test = tag_my_news()
    started = time.process_time()
    model = DocNADE(n_topics, learning_rate=rate, **TEXTS).fit(train.counts)
    seconds = time.process_time() - started
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, C=0.1))
    classifier.fit(model.transform(train.counts), train.labels)
    return {
        "validation_perplexity": model.perplexity(validation.counts),
        "perplexity": model.perplexity(test.counts),
        "accuracy": float(classifier.score(model.transform(test.counts), test.labels)),
        "cpu_seconds": seconds,
    }


def run_images(n_topics: int | tuple[int, ...], seed: int) -> dict[str, float]:
    """Return the accuracy on the LabelMe bags."""
    train, test = class_slda()
    started = time.process_time()
    model = SupDocNADE(n_topics, random_state=seed, **IMAGES).fit(train.counts, train.labels)
    seconds = time.process_time() - started
    return {"accuracy": model.score(test.counts, test.labels), "cpu_seconds": seconds}


def main() -> None:
    results: dict[str, Any] = read_results("depth").get("runs", {})
    tasks: dict[str, Callable[[], dict[str, float]]] = {
        **{
            f"LabelMe bags, {name}, seed {seed}": partial(run_images, layers, seed)
            for seed in SEEDS
            for name, layers in LAYERS.items()
        },
        **{
            f"TagMyNews, {name}, rate {rate:g}": partial(run_texts, layers, rate)
            for rate in reversed(LEARNING_RATES)
            for name, layers in LAYERS.items()
        },
    }
    for name, run in tasks.items():
        if name in results:
            continue
        results[name] = run()
        print(name, results[name], flush=True)
        write_results(
            "depth",
            "python -m experiments.depth",
            {"texts": TEXTS, "images": IMAGES, "runs": results},
        )


if __name__ == "__main__":
    main()
