"""TagMyNews, short texts: likelihood, retrieval and classification, beside published results.

python -m experiments.tmn

200 topics, and more in the last row. Learning rate and number of epochs are those of the best
perplexity on the validation part, chosen with the random tree for each activation and used for the
other outputs, too.
Retrieval: every test text is a query, the training texts are ranked by the cosine similarity of
topics, and the precision is the share of the query's class among the first 2 %. A stopped run
resumes with the missing models; remove experiments/results/tmn.json to start again.
"""

from typing import Any

import numpy as np
from benchmarks.common import metadata
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize

from experiments.common import read_results, timed, unigram_log_prob, write_results
from experiments.data import Bags, tag_my_news
from supdocnade import DocNADE
from supdocnade.metrics import over_orderings, perplexity

FRACTION = 0.02

LEARNING_RATES = (1e-3, 3e-3, 1e-2)
EPOCHS = (5, 10, 20, 40)

OUTPUTS: dict[str, dict[str, Any]] = {
    "tree": {},
    "clustered tree": {"tree": "clustered"},
    "softmax": {"output": "softmax"},
}
LARGER_BATCHES: dict[str, Any] = {"batch_size": 256, "learning_rate": 1e-2}
"""Other settings of sigmoid units. They give the clustered tree a lower perplexity on the
validation part."""

MORE_TOPICS = 1_024
"""With this many topics the clustered tree has about the perplexity of the softmax with 200."""

PUBLISHED = {
    "DocNADE, tree, sigmoid": {"perplexity": 548, "precision": 0.64},
    "DocNADE, softmax": {"perplexity": 592, "precision": 0.60},
    "iDocNADE": {"perplexity": 536, "precision": 0.66},
}


def perplexities(model: DocNADE, test: Bags, n_orderings: int) -> dict[str, dict[str, float]]:
    """Return the perplexity over 1, 16, 256 orders, orders combined in both ways."""
    corpus = model._without_annotations(test.counts)
    log_prob_RB = model._log_prob_RB(corpus, n_orderings)
    return {
        str(count): {
            combine: perplexity(over_orderings(log_prob_RB[:count], combine), corpus.size_B)
            for combine in ("mean_log", "log_mean")
        }
        for count in (1, 16, 256)
        if count <= n_orderings
    }


def retrieval_precision(train: NDArray[Any], y: NDArray[Any], test: NDArray[Any],
                        z: NDArray[Any]) -> float:  # fmt: skip
    """Return the precision among the nearest 2 % of the training texts."""
    first, second = normalize(train), normalize(test)
    count = round(FRACTION * len(first))
    hits = []
    for start in range(0, len(second), 500):
        near = np.argpartition(-second[start : start + 500] @ first.T, count, axis=1)[:, :count]
        hits.append((y[near] == z[start : start + 500, None]).mean(axis=1))
    return float(np.concatenate(hits).mean())


def choose(activation: str) -> dict[str, Any]:
    """Return learning rate and epochs with the best perplexity on the validation part."""
    train, validation, _ = tag_my_news()
    tried = []
    for rate in LEARNING_RATES:
        for epochs in EPOCHS:
            settings: dict[str, Any] = {
                "activation": activation,
                "learning_rate": rate,
                "max_epochs": epochs,
            }
            model = DocNADE(200, random_state=0, **settings).fit(train.counts)
            tried.append((model.perplexity(validation.counts), settings))
            print(f"  validation perplexity {tried[-1][0]:.1f} with {settings}", flush=True)
    return min(tried, key=lambda pair: pair[0])[1]


def run(output: str, settings: dict[str, Any], n_orderings: int = 256) -> dict[str, Any]:
    train, validation, test = tag_my_news()
    record: dict[str, Any] = {"measured": metadata(), "settings": settings}
    model = DocNADE(random_state=0, **{"n_topics": 200, **OUTPUTS[output], **settings})
    with timed(record, "fit seconds"):
        model.fit(train.counts)
    record["validation perplexity"] = model.perplexity(validation.counts)
    with timed(record, "perplexity seconds"):
        record["perplexity"] = perplexities(model, test, n_orderings)
    topics, unseen = model.transform(train.counts), model.transform(test.counts)
    record["precision"] = retrieval_precision(topics, train.labels, unseen, test.labels)
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, C=0.1))
    record["accuracy"] = float(classifier.fit(topics, train.labels).score(unseen, test.labels))
    return record


def main() -> None:
    results: dict[str, Any] = read_results("tmn").get("models", {})
    results.pop("unigram", None)  # The last row.

    def measure(name: str, output: str, settings: dict[str, Any], n_orderings: int) -> None:
        if name in results:
            return
        print(name, flush=True)
        results[name] = run(output, settings, n_orderings)
        print("  ", results[name], flush=True)
        save(results)

    for activation in ("sigmoid", "relu"):
        chosen = results.get(f"tree, {activation}", {}).get("settings") or choose(activation)
        for output in OUTPUTS:
            measure(f"{output}, {activation}", output, chosen, 256)
    for output in ("tree", "clustered tree"):
        settings = {**results["tree, sigmoid"]["settings"], **LARGER_BATCHES}
        measure(f"{output}, sigmoid, batches of 256", output, settings, 16)
    settings = {**settings, "n_topics": MORE_TOPICS}
    measure("clustered tree, sigmoid, batches of 256, 1,024 topics", "clustered tree", settings, 16)
    train, _, test = tag_my_news()
    sizes = test.counts.sum(axis=1)
    per_word = (unigram_log_prob(train.counts, test.counts) / np.maximum(sizes, 1))[sizes > 0]
    results["unigram"] = {"perplexity": float(np.exp(-per_word.mean()))}
    save(results)


def save(results: dict[str, Any]) -> None:
    command = "python -m experiments.tmn"
    write_results("tmn", command, {"published": PUBLISHED, "models": results})


if __name__ == "__main__":
    main()
