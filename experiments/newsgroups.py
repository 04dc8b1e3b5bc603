"""20 Newsgroups: likelihood compared with scikit-learn's LDA.

python -m experiments.newsgroups

Settings of both are chosen on a tenth of the training part; those of the clustered tree are those
of the random one. The perplexity of LDA is that of its variational bound, an upper limit of the
true one (`common.lda_log_prob_bound`); that of DocNADE is exact for one random order of each
document. Both are per word over the corpus. A stopped run resumes with the missing models; remove
experiments/results/newsgroups.json to start again.
"""

from typing import Any

import numpy as np
from benchmarks.common import metadata
from scipy import sparse
from sklearn.decomposition import LatentDirichletAllocation

from experiments.common import (
    lda_log_prob_bound,
    read_results,
    timed,
    unigram_log_prob,
    write_results,
)
from experiments.data import newsgroups
from supdocnade import DocNADE

DOCNADE_GRID: list[dict[str, Any]] = [
    {"learning_rate": rate, "max_epochs": epochs} for rate in (3e-4, 1e-3) for epochs in (10, 30)
]
LDA_GRID = [{"n_components": topics} for topics in (20, 50, 100, 200)]

RANDOM, CLUSTERED = "DocNADE, tree, 200 topics", "DocNADE, clustered tree, 200 topics"


def docnade(settings: dict[str, Any], train: sparse.csr_array) -> DocNADE:
    return DocNADE(200, random_state=0, **settings).fit(train)


def docnade_perplexity(model: DocNADE, counts: sparse.csr_array) -> float:
    return model.perplexity(counts, average="corpus")


def lda(settings: dict[str, Any], train: sparse.csr_array) -> LatentDirichletAllocation:
    return LatentDirichletAllocation(max_iter=20, n_jobs=2, random_state=0, **settings).fit(train)


def main() -> None:
    train, test = (bags.counts[bags.counts.sum(axis=1) > 0] for bags in newsgroups())
    shuffled = np.random.default_rng(0).permutation(train.shape[0])
    cut = train.shape[0] // 10
    held_out, known = train[shuffled[:cut]], train[shuffled[cut:]]
    results: dict[str, Any] = read_results("newsgroups").get("models", {})
    results.pop("unigram", None)  # The last row.
    for name, fit, grid, measure in (
        (RANDOM, docnade, DOCNADE_GRID, docnade_perplexity),
        ("LDA (bound)", lda, LDA_GRID,
         lambda model, X: float(np.exp(-lda_log_prob_bound(model, X) / X.sum()))),
    ):  # fmt: skip
        if name in results:
            continue
        record: dict[str, Any] = {"measured": metadata(), "validation": []}
        for settings in grid:
            value = measure(fit(settings, known), held_out)
            record["validation"].append({**settings, "perplexity": value})
            print(name, settings, value, flush=True)
        best = min(range(len(grid)), key=lambda i: record["validation"][i]["perplexity"])
        record["settings"] = grid[best]
        with timed(record, "fit seconds"):
            model = fit(grid[best], train)
        record["perplexity"] = measure(model, test)
        results[name] = record
    if CLUSTERED not in results:
        settings = {**results[RANDOM]["settings"], "tree": "clustered"}
        perplexity = docnade_perplexity(docnade(settings, train), test)
        results[CLUSTERED] = {
            "measured": metadata(),
            "settings": settings,
            "perplexity": perplexity,
        }
    unigram = np.exp(-unigram_log_prob(train, test).sum() / test.sum())
    results["unigram"] = {"perplexity": float(unigram)}
    for name, record in results.items():
        print(f"{name}: {record['perplexity']:.1f}")
    write_results("newsgroups", "python -m experiments.newsgroups", {"models": results})


if __name__ == "__main__":
    main()
