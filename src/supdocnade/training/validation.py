"""Probabilities and metrics of a network on a corpus, without training it."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from supdocnade.checks import check_count
from supdocnade.corpus.documents import NO_LABEL, Documents
from supdocnade.likelihood.contract import Batch
from supdocnade.metrics import (
    N_TAGS,
    accuracy,
    f_measure,
    perplexity,
    top_ranked,
)
from supdocnade.model.inference import (
    NetworkArrays,
    annotation_log_proba,
    class_log_proba,
    topic_features,
)
from supdocnade.model.network import DocNADENetwork, SupDocNADENetwork
from supdocnade.threads import limit_threads
from supdocnade.training.objective import batch_loss, make_batch, ordered_batches

BATCH_SIZE = 64


def _map_batches(
    network: DocNADENetwork,
    corpus: Documents,
    function: Callable[[Batch], Tensor],
    seed: int = 0,
    ordering: int = 0,
) -> NDArray[np.float64]:
    """Apply a function to all documents in batches, in a fixed order of their words."""
    none = np.empty(0, np.int64)
    with torch.no_grad(), limit_threads():
        device = network.word_embedding.device
        # The empty batch gives the result its other axes when the corpus is empty.
        results = [function(make_batch(corpus, none, none).to(device))]
        batches = ordered_batches(corpus, BATCH_SIZE, seed, ordering)
        results += [function(batch.to(device)) for batch in batches]
        return torch.cat(results).double().cpu().numpy()


def log_prob_over_orderings(
    network: DocNADENetwork,
    corpus: Documents,
    n_orderings: int = 1,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Return log p(v) of every document under several random orders of its words, (R, B).

    `metrics.over_orderings` combines them.
    """
    check_count("n_orderings", n_orderings, least=1)
    return np.stack(
        [
            _map_batches(network, corpus, network.log_prob, seed, ordering)
            for ordering in range(n_orderings)
        ]
    )


def visual_topics(
    network: DocNADENetwork, corpus: Documents
) -> tuple[NetworkArrays, NDArray[np.float32]]:
    """Return the arrays of a network, and the topics of documents by their visual words, (B, H)."""
    arrays, visual = network.arrays(), corpus.without_annotations()
    parts = [np.empty((0, network.config.n_topics), np.float32)]
    for rows_B, (ids_N, weight_N) in visual.tokens.blocks():
        ends_B1 = np.concatenate([[0], np.cumsum(visual.length_B[rows_B])])
        values_N = np.ones(len(ids_N), np.float32) if weight_N is None else weight_N
        shape = len(rows_B), visual.n_visual_words
        features_BF = corpus.global_features_BF
        parts.append(
            topic_features(
                arrays,
                sparse.csr_array((values_N, ids_N, ends_B1), shape=shape),
                None if features_BF is None else features_BF[rows_B],
            )
        )
    return arrays, np.concatenate(parts)


def available_metrics(network: DocNADENetwork, corpus: Documents) -> tuple[str, ...]:
    """Return the names of the metrics that this network has on this corpus."""
    names = ["loss"]
    if corpus.without_annotations().length_B.any():
        names.append("perplexity")
    labels = corpus.label_B if corpus.label_BC is None else corpus.label_BC
    if isinstance(network, SupDocNADENetwork) and (labels != NO_LABEL).any():
        names.append("accuracy")
    if corpus.n_annotation_words and corpus.annotation_presence().any():
        names.append("f_measure")
    return tuple(names)


def compute_metrics(
    network: DocNADENetwork,
    corpus: Documents,
    *,
    generative_weight: float,
    annotation_weight: float,
    seed: int,
    class_weight_C: Tensor | None = None,
) -> dict[str, float]:
    """Return every available metric, under one fixed order of the words of each document.

    The perplexity is that of the visual words within the joint vocabulary: the probability that
    the network gives to annotation words at every step counts against it.
    """
    names = available_metrics(network, corpus)
    batches = ordered_batches(
        corpus,
        BATCH_SIZE,
        seed,
        ordering=0,
        annotation_weight=annotation_weight,
        n_summary_words=network.n_summary_words,
    )
    device = network.word_embedding.device
    with torch.no_grad(), limit_threads():
        losses = [
            batch.n_documents
            * float(
                batch_loss(
                    network, batch.to(device), generative_weight, class_weight_C, annotation_weight
                )
            )
            for batch in batches
        ]
    results = {"loss": sum(losses) / max(len(corpus), 1)}
    if "perplexity" in names:
        visual = corpus.without_annotations()
        log_prob_B = log_prob_over_orderings(network, visual, seed=seed)[0]
        results["perplexity"] = perplexity(log_prob_B, visual.size_B)
    arrays, hidden_BH = visual_topics(network, corpus)
    if "accuracy" in names:
        log_p_BC, label_BC = class_log_proba(arrays, hidden_BH), corpus.label_BC
        if label_BC is None:
            known_B = corpus.label_B != NO_LABEL
            results["accuracy"] = accuracy(log_p_BC.argmax(axis=1), corpus.label_B, known_B)
        else:
            predicted_BC, known_BC = np.exp(log_p_BC) > 0.5, label_BC != NO_LABEL
            results["accuracy"] = accuracy(predicted_BC, label_BC == 1, known_BC)
    if "f_measure" in names:
        top_tags = top_ranked(annotation_log_proba(arrays, hidden_BH), N_TAGS)
        results["f_measure"] = f_measure(top_tags, corpus.annotation_presence())
    return results
