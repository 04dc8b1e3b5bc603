"""One hidden layer against two, on short texts and on bags of images.

python -m experiments.depth

TagMyNews: DocNADE with ReLU units and the tree; the learning rate is that of the best perplexity on
the validation part. The accuracy is that of a logistic regression on the topics. LabelMe bags:
SupDocNADE on the published split, with the mean over seeds. Two layers train for as many epochs as
one, and there for four times as many, since an update of long documents costs less. Perplexities
are exact, of one order. A stopped run resumes with the missing models; remove
experiments/results/depth.json to start again.
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

ONE, TWO = 200, (200, 200)
LEARNING_RATES = (1e-3, 3e-3)
SEEDS = (0, 1)
TEXTS: dict[str, Any] = {"random_state": 0, "n_jobs": 1}
IMAGES: dict[str, Any] = {"learning_rate": 1e-3, "n_jobs": 1}
CASES: list[tuple[int | tuple[int, ...], int, int]] = [(ONE, 10, 15), (TWO, 10, 15), (TWO, 0, 60)]
"""Units of the layers, and epochs on texts (0: none) and on images."""


def run_texts(n_topics: int | tuple[int, ...], epochs: int, rate: float) -> dict[str, float]:
    """Return perplexities and accuracy on TagMyNews."""
    train, validation, test = tag_my_news()
    started = time.process_time()
    model = DocNADE(n_topics, max_epochs=epochs, learning_rate=rate, **TEXTS).fit(train.counts)
    seconds = time.process_time() - started
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, C=0.1))
    classifier.fit(model.transform(train.counts), train.labels)
    return {
        "validation_perplexity": model.perplexity(validation.counts),
        "perplexity": model.perplexity(test.counts),
        "accuracy": float(classifier.score(model.transform(test.counts), test.labels)),
        "cpu_seconds": seconds,
    }


def run_images(n_topics: int | tuple[int, ...], epochs: int, seed: int) -> dict[str, float]:
    """Return the accuracy on the LabelMe bags."""
    train, test = class_slda()
    started = time.process_time()
    model = SupDocNADE(n_topics, max_epochs=epochs, random_state=seed, **IMAGES)
    model.fit(train.counts, train.labels)
    seconds = time.process_time() - started
    return {"accuracy": model.score(test.counts, test.labels), "cpu_seconds": seconds}


def main() -> None:
    results: dict[str, Any] = read_results("depth").get("runs", {})
    tasks: dict[str, Callable[[], dict[str, float]]] = {}
    for layers, text_epochs, image_epochs in CASES:
        units = "one layer" if layers == ONE else "two layers"
        for rate in LEARNING_RATES if text_epochs else ():
            name = f"TagMyNews, {units}, {text_epochs} epochs, rate {rate:g}"
            tasks[name] = partial(run_texts, layers, text_epochs, rate)
        for seed in SEEDS:
            name = f"LabelMe bags, {units}, {image_epochs} epochs, seed {seed}"
            tasks[name] = partial(run_images, layers, image_epochs, seed)
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
