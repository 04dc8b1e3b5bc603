"""Measuring a network on a corpus, without changing it."""

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from supdocnade.checks import check_count, check_shape
from supdocnade.corpus import Documents
from supdocnade.corpus.documents import NO_LABEL
from supdocnade.errors import InvalidArgument, TrainingDiverged
from supdocnade.likelihood.cpu.threads import one_torch_thread
from supdocnade.metrics import f_measure, perplexity, top_ranked
from supdocnade.model import DocNADENetwork, SupDocNADENetwork
from supdocnade.training.batches import LabelledBatch, batch_loss, make_batch, ordered_batches
from supdocnade.training.config import TrainerConfig

TOP_TAGS = 5
"""Tags chosen for the F-measure, as in the paper."""

MEASURED_AT_ONCE = 64


def _measure(
    network: DocNADENetwork,
    corpus: Documents,
    function: Callable[[LabelledBatch], Tensor],
    seed: int = 0,
    ordering: int = 0,
) -> NDArray[np.float64]:
    """Apply a function of batches to all documents, in an order of words that never changes."""
    nothing = np.empty(0, np.int64)
    with torch.no_grad(), one_torch_thread():
        # The empty batch gives the result of an empty corpus its other axes.
        device = network.word_embedding.device
        parts = [function(make_batch(corpus, nothing, nothing).to(device))]
        batches = ordered_batches(corpus, MEASURED_AT_ONCE, seed, ordering)
        parts += [function(batch.to(device)) for batch in batches]
        return torch.cat(parts).double().cpu().numpy()


def log_prob_over_orderings(
    network: DocNADENetwork, corpus: Documents, n_orderings: int = 1, seed: int = 0
) -> NDArray[np.float64]:
    """Return log p(v) of every document under several random orders of its words, (R, B).

    `metrics.over_orderings` combines them.
    """
    check_count("n_orderings", n_orderings, least=1)
    return np.stack(
        [
            _measure(
                network, corpus, lambda batch: network.log_prob(batch.documents), seed, ordering
            )
            for ordering in range(n_orderings)
        ]
    )


def joint_log_prob_over_orderings(
    network: SupDocNADENetwork, corpus: Documents, n_orderings: int = 1, seed: int = 0
) -> NDArray[np.float64]:
    """Return log p(v, y) of every document and its label, as `log_prob_over_orderings` does."""
    check_count("n_orderings", n_orderings, least=1)
    if (corpus.label_B == NO_LABEL).any():
        raise InvalidArgument("log p(v, y) needs a label for every document, some have none.")

    def joint(batch: LabelledBatch) -> Tensor:
        return network.joint_log_prob(batch.documents, batch.label_B)

    return np.stack(
        [_measure(network, corpus, joint, seed, ordering) for ordering in range(n_orderings)]
    )


def class_log_prob(network: SupDocNADENetwork, corpus: Documents) -> NDArray[np.float64]:
    """Return log p(y | v) from the visual words of every document, (B, C)."""
    visual = corpus.without_annotations()
    return _measure(network, visual, lambda batch: network.class_log_prob(batch.documents))


def annotation_log_prob(network: DocNADENetwork, corpus: Documents) -> NDArray[np.float64]:
    """Return log p(a | v) over the annotation words from the visual words, (B, A)."""
    visual = corpus.without_annotations()
    return _measure(network, visual, lambda batch: network.annotation_log_prob(batch.documents))


def available_metrics(network: DocNADENetwork, corpus: Documents) -> tuple[str, ...]:
    """Return what can be measured of this network on this corpus."""
    names = ["loss"]
    if corpus.has_visual_words():
        names.append("perplexity")
    if isinstance(network, SupDocNADENetwork) and (corpus.label_B != NO_LABEL).any():
        names.append("accuracy")
    if corpus.n_annotation_words and corpus.annotation_presence().any():
        names.append("f_measure")
    return tuple(names)


def validate(
    network: DocNADENetwork,
    corpus: Documents,
    *,
    generative_weight: float,
    annotation_weight: float,
    seed: int,
    class_weight_C: Tensor | None = None,
) -> dict[str, float]:
    """Return every available metric, under one order of each document that never changes.

    The perplexity is that of the visual words within the joint vocabulary: what probability a
    network gives to annotation words at every step counts against it.
    """
    wanted = available_metrics(network, corpus)
    options = {
        "annotation_weight": annotation_weight,
        "n_summary_words": network.n_summary_words,
    }
    with torch.no_grad(), one_torch_thread():
        device, losses = network.word_embedding.device, []
        for batch in ordered_batches(corpus, MEASURED_AT_ONCE, seed, 0, **options):
            loss = batch_loss(network, batch.to(device), generative_weight, class_weight_C)
            losses.append((len(batch), float(loss)))
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


# What is refused before training begins, and what stops it.


def check_trainable(
    network: DocNADENetwork,
    config: TrainerConfig,
    corpus: Documents,
    validation: Documents | None,
) -> None:
    """Refuse documents that do not fit the network, and settings that do not fit them."""
    if len(corpus) == 0:
        raise InvalidArgument("corpus must have a document, got none.")
    if config.generative_weight == 0 and not isinstance(network, SupDocNADENetwork):
        raise InvalidArgument(
            "generative_weight must be above 0 for a network without classes, got 0."
        )
    for name, part in (("corpus", corpus), ("validation", validation)):
        if part is None:
            continue
        ours = (network.config.n_visual_words, network.config.n_annotation_words)
        theirs = (part.n_visual_words, part.n_annotation_words)
        if ours != theirs:
            raise InvalidArgument(
                f"{name} must have {ours[0]} visual and {ours[1]} annotation words, "
                f"got {theirs[0]} and {theirs[1]}."
            )
        if isinstance(network, SupDocNADENetwork) and part.n_classes > network.config.n_classes:
            raise InvalidArgument(
                f"{name} must have at most {network.config.n_classes} classes, "
                f"got {part.n_classes}."
            )
    if config.early_stopping:
        if validation is None or len(validation) == 0:
            raise InvalidArgument("early_stopping needs a validation part, got none.")
        known = available_metrics(network, validation)
        if config.metric not in known:
            raise InvalidArgument(
                f"metric must be one of {known} for this network and validation part, "
                f"got {config.metric!r}."
            )


def class_weight_of(network: DocNADENetwork, given: ArrayLike | None) -> torch.Tensor | None:
    """Return what multiplies the class term of documents of each class, (C,), if it is right."""
    if given is None:
        return None
    if not isinstance(network, SupDocNADENetwork):
        raise InvalidArgument("class_weight needs a network with classes.")
    weight = torch.as_tensor(np.asarray(given, np.float32))
    check_shape("class_weight", weight.shape, (network.config.n_classes,))
    if not bool((weight.isfinite() & (weight >= 0)).all()):
        raise InvalidArgument(
            f"class_weight must be finite and not negative, got {weight.tolist()}."
        )
    # An update that is recorded on a GPU cannot fetch it from here.
    return weight.to(network.word_embedding.device)


def check_finite(config: TrainerConfig, what: str, value: float, when: str) -> None:
    """Stop with a sentence if a run has diverged."""
    if math.isfinite(value):
        return
    clip = "set clip_norm" if config.clip_norm is None else f"clip_norm ({config.clip_norm:g})"
    raise TrainingDiverged(
        f"{what} became {value} {when}; lower learning_rate ({config.learning_rate:g}) or {clip}."
    )
