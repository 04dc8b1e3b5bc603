"""Batches of documents with their tokens in random order, and the training objective of a batch.

The objective is -log p(y | v) + λ Σ_i -log p(v_i | v_<i), averaged over a batch. A document without
a label has no class term, and a network without classes has none at all. If documents may have
several labels, the class term is Σ_c -log p(t_c | v) over the known ones: t_c is 1 for the labels
of the document and 0 for others.

If annotations are not words, α Σ_a -log p(t_a | v) is added: t_a is 1 for the annotations of the
document and 0 for all others, and α is the annotation weight. λ does not multiply this term, since
class and annotations are both predicted from the topics. A document with unknown annotations lacks
it.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from supdocnade.corpus.documents import NO_LABEL, Documents
from supdocnade.corpus.tokens import Rows, Tokens
from supdocnade.errors import TrainingDiverged
from supdocnade.likelihood.contract import Batch
from supdocnade.model.network import DocNADENetwork, SupDocNADENetwork
from supdocnade.seeding import bag_keys, kept_features, named_generator, token_order
from supdocnade.training.config import TrainerConfig


def make_batch(
    corpus: Documents,
    rows_B: Rows,
    order_N: NDArray[np.int64],
    *,
    annotation_weight: float = 1.0,
    n_summary_words: int | None = None,
) -> Batch:
    """Gather documents with their tokens in a given order.

    Parameters
    ----------
    rows_B : document numbers.
    order_N : positions in the concatenation of the documents, as `token_order` returns them.
    annotation_weight : multiplies the loss of annotation words, never their input.
    n_summary_words : ids below this enter the summary (`Batch`).
    """
    tokens = corpus.tokens.gather(rows_B, order_N)
    return _label_tokens(corpus, rows_B, tokens, annotation_weight, n_summary_words)


def drop_features(batch: Batch, rate: float, seed: int, epoch: int, rows_B: Rows) -> Batch:
    """Set a random part of the global features of a batch to zero, and scale the others up.

    Parameters
    ----------
    rate : probability that a feature is dropped.
    rows_B : document numbers, which determine the dropped features.
    """
    features_BF = batch.global_features_BF
    if features_BF is None or rate == 0:
        return batch
    kept_BF = torch.from_numpy(kept_features(seed, epoch, rows_B, features_BF.shape[1], rate))
    return batch._replace(global_features_BF=features_BF * kept_BF * (1 / (1 - rate)))


def _label_tokens(
    corpus: Documents,
    rows_B: Rows,
    tokens: Tokens,
    annotation_weight: float,
    n_summary_words: int | None,
) -> Batch:
    """Combine gathered tokens with the labels and weights of their documents."""
    ids_N, input_N = tokens
    loss_N = input_N
    if annotation_weight != 1.0 and corpus.n_annotation_words:
        factor_N = np.where(ids_N < corpus.n_visual_words, 1.0, annotation_weight)
        loss_N = (factor_N if input_N is None else factor_N * input_N).astype(np.float32)

    def take(table: NDArray[Any] | None) -> Tensor | None:
        return None if table is None else torch.from_numpy(table[rows_B])

    return Batch(
        torch.from_numpy(ids_N),
        torch.from_numpy(np.concatenate([[0], np.cumsum(corpus.length_B[rows_B])])),
        None if input_N is None else torch.from_numpy(input_N),
        None if loss_N is None else torch.from_numpy(loss_N),
        n_summary_words,
        global_features_BF=take(corpus.global_features_BF),
        label_B=take(corpus.label_B),
        weight_B=take(corpus.document_weight_B),
        tag_BA=take(corpus.tag_BA),
        label_BC=take(corpus.label_BC),
    )


def epoch_batches(n_documents: int, batch_size: int, seed: int, epoch: int) -> list[Rows]:
    """Return the documents of every batch of an epoch: a random partition."""
    shuffled = named_generator(seed, "documents", epoch).permutation(n_documents)
    return [shuffled[i : i + batch_size] for i in range(0, n_documents, batch_size)]


def ordered_batches(
    corpus: Documents,
    batch_size: int,
    seed: int,
    ordering: int,
    *,
    annotation_weight: float = 1.0,
    n_summary_words: int | None = None,
) -> Iterator[Batch]:
    """Yield all documents in sequence, their tokens in the `ordering`-th random order.

    For evaluation, not for training: the order of a document depends on its contents alone, not on
    its position in the corpus, and is the same at every call.
    """
    for first in range(0, len(corpus), batch_size):
        rows_B = np.arange(first, min(first + batch_size, len(corpus)))
        tokens, length_B = corpus.tokens.gather(rows_B), corpus.length_B[rows_B]
        keys_B = bag_keys(*tokens, np.concatenate([[0], np.cumsum(length_B)]))
        order_N = token_order(seed, ordering, keys_B, length_B, stream="measuring")
        yield _label_tokens(
            corpus, rows_B, tokens.reorder(order_N), annotation_weight, n_summary_words
        )


def batch_loss(
    network: DocNADENetwork,
    batch: Batch,
    generative_weight: float,
    class_weight_C: Tensor | None = None,
    annotation_weight: float = 1.0,
    n_documents: int | None = None,
) -> Tensor:
    """Return the sum over a batch of the weighted objectives of its documents, divided by B.

    Parameters
    ----------
    generative_weight : λ; with 0 the word term is skipped.
    class_weight_C : multiplies the class term of documents of each class; with several labels, the
        terms -log p(t_c = 1 | v).
    annotation_weight : α, for annotations that are not words; words have it in their loss weights.
    n_documents : B, if the batch is a part of a larger one.
    """
    weight_B = network.word_embedding.new_ones(batch.n_documents)
    if batch.weight_B is not None:
        weight_B *= batch.weight_B
    weight_B /= max(batch.n_documents, 1) if n_documents is None else n_documents
    if generative_weight == 0 and isinstance(network, SupDocNADENetwork):
        summary_BH = network.summary(batch)
        loss = weight_B.new_zeros(())
    else:
        nll_B, summary_BH = network.terms(_weight_tokens(batch, generative_weight * weight_B))
        loss = nll_B.sum()
    return add_predictions(
        loss, network, summary_BH, batch, weight_B, class_weight_C, annotation_weight
    )


def add_predictions(
    loss: Tensor,
    network: DocNADENetwork,
    summary_BH: Tensor,
    batch: Batch,
    weight_B: Tensor,
    class_weight_C: Tensor | None,
    annotation_weight: float,
) -> Tensor:
    """Add the terms of classes, and of annotations that are not words, to the loss of a batch.

    Parameters
    ----------
    weight_B : weights of the documents, divided by B.
    """
    if isinstance(network, SupDocNADENetwork):
        loss = loss + _class_loss(network, summary_BH, batch, weight_B, class_weight_C)
    if batch.tag_BA is not None:
        logits_BA = network.tag_logits(summary_BH)
        loss = loss + annotation_weight * _presence_loss(logits_BA, batch.tag_BA, weight_B)
    return loss


def _class_loss(
    network: SupDocNADENetwork,
    summary_BH: Tensor,
    batch: Batch,
    weight_B: Tensor,
    class_weight_C: Tensor | None,
) -> Tensor:
    logits_BC = network.class_logits(summary_BH)
    class_weight_C = None if class_weight_C is None else class_weight_C.to(weight_B)
    if batch.label_BC is not None:
        return _presence_loss(logits_BC, batch.label_BC, weight_B, class_weight_C)
    assert batch.label_B is not None, "the network has classes"
    loss_B = cross_entropy(
        logits_BC, batch.label_B, weight=class_weight_C, ignore_index=NO_LABEL, reduction="none"
    )
    return torch.dot(weight_B, loss_B)


def _presence_loss(
    logits_BA: Tensor, table_BA: Tensor, weight_B: Tensor, present_weight_A: Tensor | None = None
) -> Tensor:
    """Return Σ_a -log p(t_a | v) over the known entries of a table, summed over the documents.

    Parameters
    ----------
    table_BA : 1, 0, or `NO_LABEL` where unknown.
    present_weight_A : multiplies the terms with t_a = 1.
    """
    loss_BA = binary_cross_entropy_with_logits(
        logits_BA, (table_BA == 1).to(weight_B), reduction="none", pos_weight=present_weight_A
    )
    return torch.dot(weight_B, (loss_BA * (table_BA != NO_LABEL)).sum(dim=1))


def _weight_tokens(batch: Batch, weight_B: Tensor) -> Batch:
    """Multiply the loss weights of tokens by the weight of their document.

    The fused backends then compute the final gradients, with nothing left to scale.
    """
    weighted, input_N = batch.scale_losses(weight_B), batch.input_weight_N
    return (
        weighted
        if input_N is None
        else weighted._replace(input_weight_N=input_N.to(weight_B.dtype))
    )


def check_finite(config: TrainerConfig, name: str, value: float, when: str) -> None:
    """Raise `TrainingDiverged` unless a value is finite."""
    if math.isfinite(value):
        return
    clip = "set clip_norm" if config.clip_norm is None else f"clip_norm ({config.clip_norm:g})"
    raise TrainingDiverged(
        f"{name} became {value} {when}; lower learning_rate ({config.learning_rate:g}) or {clip}."
    )
