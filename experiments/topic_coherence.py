"""20 Newsgroups and TagMyNews: how well topics can be read, compared with LDA and NMF.

python -m experiments.topic_coherence

All models learn 50 topics from the training part. The coherence is the mean NPMI of the ten top
words of a topic, with co-occurrences counted in the test part; the diversity is the share of
different words among all top words. The topics of DocNADE are its hidden units, read by their
weights W or by the correlation of words with them over the training part, or the rotated topics of
`top_words()` and of `top_words(documents=X)`, X being the training part. All are read-outs of the
same fitted models. A run that was stopped continues with the models that are missing.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import NMF, LatentDirichletAllocation
from sklearn.feature_extraction.text import TfidfTransformer

from experiments.common import read_results, write_results
from experiments.data import newsgroups, tag_my_news
from supdocnade import DocNADE
from supdocnade.metrics import npmi_coherence, presence_correlation, top_ranked
from supdocnade.model.topic_rotation import find_rotation, rise_with_topics

N_TOPICS, N_WORDS, SEEDS = 50, 10, (0, 1, 2)
DOCNADE: dict[str, Any] = {"learning_rate": 1e-3, "max_epochs": 30}

Scores = dict[str, NDArray[np.floating]]
"""(topics, words) scores by which words are ranked, for every way of reading topics."""


def read_docnade(activation: str, seed: int, train: sparse.csr_array) -> Scores:
    model = DocNADE(N_TOPICS, activation=activation, random_state=seed, **DOCNADE).fit(train)
    hidden_BH, alone_KH = model.transform(train), model.transform(np.eye(train.shape[1]))
    rotated_BR = find_rotation(hidden_BH).rotate(hidden_BH)
    rotated_KR = find_rotation(alone_KH).rotate(alone_KH)
    rise_RK = rise_with_topics(model.network_.arrays(), alone_KH, rotated_KR)
    return {
        f"DocNADE, {activation}, units by weights": model.components_,
        f"DocNADE, {activation}, units by correlations": presence_correlation(hidden_BH, [train]),
        f"DocNADE, {activation}, rotated, without documents": rise_RK,
        f"DocNADE, {activation}, rotated": presence_correlation(rotated_BR, [train]),
    }


def read_lda(seed: int, train: sparse.csr_array) -> Scores:
    lda = LatentDirichletAllocation(N_TOPICS, max_iter=20, random_state=seed).fit(train)
    return {"LDA": lda.components_}


def read_nmf(seed: int, train: sparse.csr_array) -> Scores:
    weighted = TfidfTransformer().fit_transform(train)
    nmf = NMF(N_TOPICS, init="nndsvda", max_iter=400, random_state=seed).fit(weighted)
    return {"NMF of tf-idf": nmf.components_}


MODELS: dict[str, Callable[[int, sparse.csr_array], Scores]] = {
    "DocNADE, sigmoid, rotated": partial(read_docnade, "sigmoid"),
    "DocNADE, relu, rotated": partial(read_docnade, "relu"),
    "LDA": read_lda,
    "NMF of tf-idf": read_nmf,
}
"""Functions of a seed and documents, by the last of their read-outs."""


def main() -> None:
    corpora = {"20 Newsgroups": newsgroups(), "TagMyNews": tag_my_news()[::2]}
    results: dict[str, Any] = {"topics": N_TOPICS, "words": N_WORDS}
    # Per corpus and read-out, the coherence and diversity of every seed.
    found = results["corpora"] = read_results("topic_coherence").get("corpora", {})
    for seed in SEEDS:
        for corpus, bags in corpora.items():
            train, test = (part.counts[part.counts.sum(axis=1) > 0] for part in bags)
            records = found.setdefault(corpus, {})
            for last, read in MODELS.items():
                if len(records.get(last, {}).get("coherence", ())) > seed:
                    continue
                for name, scores_HK in read(seed, train).items():
                    words_HX = top_ranked(scores_HK, N_WORDS)
                    record = records.setdefault(name, {"coherence": [], "diversity": []})
                    record["coherence"].append(float(npmi_coherence(words_HX, test).mean()))
                    record["diversity"].append(len(np.unique(words_HX)) / words_HX.size)
                    print(corpus, seed, name, record, flush=True)
                write_results("topic_coherence", "python -m experiments.topic_coherence", results)


if __name__ == "__main__":
    main()
