"""The training objective: -log p(y | v) + λ Σ_i -log p(v_i | v_<i), averaged over a batch.

A document without a label has no class term, and a network without classes has none at all. If
documents may have several labels, the class term is Σ_c -log p(t_c | v) over the known ones: t_c is
1 for the labels of the document and 0 for others.

If annotations are no words, α Σ_a -log p(t_a | v) is added: t_a is 1 for the annotations of the
document and 0 for all others, and α is the annotation weight. λ does not multiply this term, since
class and annotations are both predicted from the topics. A document with unknown annotations lacks
it.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from supdocnade.corpus.documents import NO_LABEL
from supdocnade.errors import TrainingDiverged
from supdocnade.likelihood.contract import DocumentBatch
from supdocnade.model.network import DocNADENetwork, SupDocNADENetwork
from supdocnade.training.batches import LabelledBatch
from supdocnade.training.config import TrainerConfig


def batch_loss(
    network: DocNADENetwork,
    batch: LabelledBatch,
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
    annotation_weight : α, of annotations that are no words; words have it in their loss weights.
    n_documents : B, if the batch is a part of a larger one.
    """
    n_documents = max(len(batch), 1) if n_documents is None else n_documents
    weight_B = batch.weight_B.to(network.word_embedding.dtype) / n_documents
    if generative_weight == 0 and isinstance(network, SupDocNADENetwork):
        summary_BH = network.summary(batch.documents)
        loss = weight_B.new_zeros(())
    else:
        documents = _weight_tokens(batch.documents, generative_weight * weight_B)
        nll_B, summary_BH = network.terms(documents)
        loss = nll_B.sum()
    return add_predictions(
        loss, network, summary_BH, batch, weight_B, class_weight_C, annotation_weight
    )


def add_predictions(
    loss: Tensor,
    network: DocNADENetwork,
    summary_BH: Tensor,
    batch: LabelledBatch,
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
    batch: LabelledBatch,
    weight_B: Tensor,
    class_weight_C: Tensor | None,
) -> Tensor:
    logits_BC = network.class_logits(summary_BH)
    class_weight_C = None if class_weight_C is None else class_weight_C.to(weight_B)
    if batch.label_BC is not None:
        return _presence_loss(logits_BC, batch.label_BC, weight_B, class_weight_C)
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


def _weight_tokens(documents: DocumentBatch, weight_B: Tensor) -> DocumentBatch:
    """Multiply the loss weights of tokens by the weight of their document.

    The fused backends then compute the final gradients, with nothing left to scale.
    """
    input_N, loss_N = documents.input_weight_N, documents.loss_weight_N
    weight_N = torch.repeat_interleave(weight_B, documents.offsets_B1.diff())
    if loss_N is not None:
        weight_N = weight_N * loss_N
    return documents._replace(
        input_weight_N=None if input_N is None else input_N.to(weight_B.dtype),
        loss_weight_N=weight_N,
    )


def check_finite(config: TrainerConfig, name: str, value: float, when: str) -> None:
    """Raise `TrainingDiverged` unless a value is finite."""
    if math.isfinite(value):
        return
    clip = "set clip_norm" if config.clip_norm is None else f"clip_norm ({config.clip_norm:g})"
    raise TrainingDiverged(
        f"{name} became {value} {when}; lower learning_rate ({config.learning_rate:g}) or {clip}."
    )
