"""20 Newsgroups and TagMyNews: how well topics can be read, compared with LDA and NMF.

python -m experiments.topic_coherence

All models learn 50 topics from the training part. The coherence is the mean NPMI of the ten top
words of a topic, with co-occurrences counted in the test part; the diversity is the share of
different words among all top words. The topics of DocNADE are its hidden units, read by their
weights W or by the correlation of words with them over the training part, or the rotated topics of
`top_words(documents=X)`. All are read-outs of the same fitted models.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import NMF, LatentDirichletAllocation
from sklearn.feature_extraction.text import TfidfTransformer

from experiments.common import mean_and_spread, write_results
from experiments.data import newsgroups, tag_my_news
from supdocnade import DocNADE
from supdocnade.metrics import npmi_coherence, presence_correlation, top_ranked
from supdocnade.model.topic_rotation import find_rotation

N_TOPICS, N_WORDS, SEEDS = 50, 10, (0, 1, 2)
DOCNADE: dict[str, Any] = {"learning_rate": 1e-3, "max_epochs": 30}


def scores_of_words(seed: int, train: sparse.csr_array) -> dict[str, NDArray[np.floating]]:
    """Return (topics, words) scores by which words are ranked, for every way of reading topics."""
    scores: dict[str, NDArray[np.floating]] = {}
    for activation in ("relu", "tanh", "sigmoid"):
        model = DocNADE(N_TOPICS, activation=activation, random_state=seed, **DOCNADE).fit(train)
        hidden_BH = model.transform(train)
        rotated_BR = find_rotation(hidden_BH).rotate(hidden_BH)
        scores[f"DocNADE, {activation}, units by weights"] = model.components_
        by_correlation = presence_correlation(hidden_BH, [train])
        scores[f"DocNADE, {activation}, units by correlations"] = by_correlation
        scores[f"DocNADE, {activation}, rotated"] = presence_correlation(rotated_BR, [train])
    lda = LatentDirichletAllocation(N_TOPICS, max_iter=20, random_state=seed).fit(train)
    scores["LDA"] = lda.components_
    weighted = TfidfTransformer().fit_transform(train)
    nmf = NMF(N_TOPICS, init="nndsvda", max_iter=400, random_state=seed).fit(weighted)
    scores["NMF of tf-idf"] = nmf.components_
    return scores


def measure(train: sparse.csr_array, test: sparse.csr_array) -> dict[str, dict[str, Any]]:
    """Return coherence and diversity of every model, as mean and spread over seeds."""
    models: dict[str, dict[str, Any]] = {}
    for seed in SEEDS:
        for name, scores_HK in scores_of_words(seed, train).items():
            words_HX = top_ranked(scores_HK, N_WORDS)
            record = models.setdefault(name, {"coherence": [], "diversity": []})
            record["coherence"].append(float(npmi_coherence(words_HX, test).mean()))
            record["diversity"].append(len(np.unique(words_HX)) / words_HX.size)
            print(seed, name, record, flush=True)
    for record in models.values():
        record |= {name: mean_and_spread(values) for name, values in record.items()}
    return models


def main() -> None:
    corpora = {"20 Newsgroups": newsgroups(), "TagMyNews": tag_my_news()[::2]}
    results: dict[str, Any] = {"topics": N_TOPICS, "words": N_WORDS, "seeds": len(SEEDS)}
    results["corpora"] = {
        name: measure(*(bags.counts[bags.counts.sum(axis=1) > 0] for bags in parts))
        for name, parts in corpora.items()
    }
    write_results("topic_coherence", "python -m experiments.topic_coherence", results)


if __name__ == "__main__":
    main()
