"""The hybrid objective of a batch: -log p(y | v) + λ Σ_i -log p(v_i | v_<i), averaged."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from supdocnade.corpus.documents import NO_LABEL
from supdocnade.models import DocNADENetwork, SupDocNADENetwork
from supdocnade.ops.contract import DocumentBatch
from supdocnade.ops.threads import one_torch_thread
from supdocnade.training.batches import LabelledBatch


def batch_loss(
    network: DocNADENetwork,
    batch: LabelledBatch,
    generative_weight: float,
    class_weight_C: Tensor | None = None,
) -> Tensor:
    """Return the sum over the documents of a batch of their weighted objective, divided by B.

    A document without a label has no class term; a network without classes has none at all. With
    λ = 0 the words are not modelled, only the class.

    Parameters
    ----------
    class_weight_C : multiplies the class term of documents of each class.
    """
    weight_B = batch.weight_B.to(network.word_embedding.dtype) / max(len(batch), 1)
    if generative_weight == 0 and isinstance(network, SupDocNADENetwork):
        summary_BH = network.summary(batch.documents)
        return _class_loss(network, summary_BH, batch.label_B, weight_B, class_weight_C)
    documents = _weigh_tokens(batch.documents, generative_weight * weight_B)
    return weighted_loss(network, documents, batch.label_B, weight_B, class_weight_C)


def weighted_loss(
    network: DocNADENetwork,
    documents: DocumentBatch,
    label_B: Tensor,
    weight_B: Tensor,
    class_weight_C: Tensor | None,
) -> Tensor:
    """Return the objective of documents whose loss weights are those of the objective.

    Parameters
    ----------
    weight_B : multiplies the class terms.
    """
    terms = network.terms(documents)
    loss = terms.nll_B.sum()
    if not isinstance(network, SupDocNADENetwork):
        return loss
    return loss + _class_loss(network, terms.summary_BH, label_B, weight_B, class_weight_C)


def _class_loss(
    network: SupDocNADENetwork,
    summary_BH: Tensor,
    label_B: Tensor,
    weight_B: Tensor,
    class_weight_C: Tensor | None,
) -> Tensor:
    with one_torch_thread():
        per_document_B = cross_entropy(
            network.class_logits(summary_BH),
            label_B,
            weight=None if class_weight_C is None else class_weight_C.to(weight_B),
            ignore_index=NO_LABEL,
            reduction="none",
        )
        return torch.dot(weight_B, per_document_B)


def _weigh_tokens(documents: DocumentBatch, weight_B: Tensor) -> DocumentBatch:
    """Put the weight of every document into the loss weights of its tokens.

    The fused backends then have the final gradients at hand, with nothing left to scale.
    """
    input_N, loss_N = documents.input_weight_N, documents.loss_weight_N
    weight_N = torch.repeat_interleave(weight_B, documents.offsets_B1.diff())
    if loss_N is not None:
        weight_N = weight_N * loss_N
    return documents._replace(
        input_weight_N=None if input_N is None else input_N.to(weight_B.dtype),
        loss_weight_N=weight_N,
    )
