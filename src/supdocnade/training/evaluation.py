"""Measuring a network on a corpus, without changing it."""

import numpy as np
import torch
from numpy.typing import NDArray

from supdocnade.corpus import Corpus
from supdocnade.corpus.documents import NO_LABEL
from supdocnade.metrics import f_measure, perplexity, top_ranked
from supdocnade.models import DocNADENetwork, SupDocNADENetwork
from supdocnade.training.batches import ordered_batches
from supdocnade.training.objective import batch_loss, n_summary_words

TOP_TAGS = 5
"""Tags chosen for the F-measure, as in the paper."""

BATCH = 64


@torch.no_grad()
def log_prob_over_orderings(
    network: DocNADENetwork, corpus: Corpus, n_orderings: int = 1, seed: int = 0
) -> NDArray[np.float64]:
    """Return log p(v) of every document under several random orders of its words, (R, B).

    `metrics.over_orderings` combines them.
    """
    rounds = [
        torch.cat(
            [
                network.log_prob(batch.documents)
                for batch in ordered_batches(corpus, BATCH, seed, ordering)
            ]
        ).double()
        for ordering in range(n_orderings)
    ]
    return torch.stack(rounds).numpy()


@torch.no_grad()
def class_log_prob(network: SupDocNADENetwork, corpus: Corpus) -> NDArray[np.float64]:
    """Return log p(y | v) from the visual words of every document, (B, C)."""
    visual = corpus.without_annotations()
    parts = [
        network.class_log_prob(batch.documents) for batch in ordered_batches(visual, BATCH, 0, 0)
    ]
    return torch.cat(parts).double().numpy()


@torch.no_grad()
def annotation_log_prob(network: DocNADENetwork, corpus: Corpus) -> NDArray[np.float64]:
    """Return log p(a | v) over the annotation words from the visual words, (B, A)."""
    visual = corpus.without_annotations()
    parts = [
        network.annotation_log_prob(batch.documents)
        for batch in ordered_batches(visual, BATCH, 0, 0)
    ]
    return torch.cat(parts).double().numpy()


def available_metrics(network: DocNADENetwork, corpus: Corpus) -> tuple[str, ...]:
    """Return what can be measured of this network on this corpus."""
    names = ["loss"]
    if (corpus.token_ids_N < corpus.n_visual_words).any():
        names.append("perplexity")
    if isinstance(network, SupDocNADENetwork) and (corpus.label_B != NO_LABEL).any():
        names.append("accuracy")
    if corpus.n_annotation_words and corpus.annotation_presence().any():
        names.append("f_measure")
    return tuple(names)


@torch.no_grad()
def validate(
    network: DocNADENetwork,
    corpus: Corpus,
    *,
    generative_weight: float,
    annotation_weight: float,
    seed: int,
) -> dict[str, float]:
    """Return every available metric, under one order of each document that never changes.

    The perplexity is that of the visual words within the joint vocabulary: what probability a
    network gives to annotation words at every step counts against it.
    """
    wanted = available_metrics(network, corpus)
    options = {
        "annotation_weight": annotation_weight,
        "n_summary_words": n_summary_words(network),
    }
    losses = [
        (len(batch), float(batch_loss(network, batch, generative_weight)))
        for batch in ordered_batches(corpus, BATCH, seed, 0, **options)
    ]
    results = {"loss": sum(n * loss for n, loss in losses) / max(len(corpus), 1)}
    if "perplexity" in wanted:
        visual = corpus.without_annotations()
        log_prob_B = log_prob_over_orderings(network, visual, seed=seed)[0]
        results["perplexity"] = perplexity(log_prob_B, visual.size_B).value
    if "accuracy" in wanted and isinstance(network, SupDocNADENetwork):
        known = corpus.label_B != NO_LABEL
        predicted_B = class_log_prob(network, corpus).argmax(axis=1)
        results["accuracy"] = float((predicted_B == corpus.label_B)[known].mean())
    if "f_measure" in wanted:
        chosen = top_ranked(annotation_log_prob(network, corpus), TOP_TAGS)
        results["f_measure"] = f_measure(chosen, corpus.annotation_presence()).value
    return results
