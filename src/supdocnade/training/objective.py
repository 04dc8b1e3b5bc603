"""The training objective: -log p(y | v) + λ Σ_i -log p(v_i | v_<i), averaged over a batch.

A document without a label has no class term, and a network without classes has none at all.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from supdocnade.corpus.documents import NO_LABEL
from supdocnade.errors import TrainingDiverged
from supdocnade.likelihood.contract import DocumentBatch
from supdocnade.likelihood.cpu.threads import one_torch_thread
from supdocnade.model.network import DocNADENetwork, SupDocNADENetwork
from supdocnade.training.batches import LabelledBatch
from supdocnade.training.trainer_config import TrainerConfig


def batch_loss(
    network: DocNADENetwork,
    batch: LabelledBatch,
    generative_weight: float,
    class_weight_C: Tensor | None = None,
) -> Tensor:
    """Return the sum over a batch of the weighted objectives of its documents, divided by B.

    Parameters
    ----------
    generative_weight : λ; with 0 only the class is modelled, and the word term is skipped.
    class_weight_C : multiplies the class term of documents of each class.
    """
    weight_B = batch.weight_B.to(network.word_embedding.dtype) / max(len(batch), 1)
    if generative_weight == 0 and isinstance(network, SupDocNADENetwork):
        summary_BH = network.summary(batch.documents)
        return _class_loss(network, summary_BH, batch.label_B, weight_B, class_weight_C)
    documents = _weight_tokens(batch.documents, generative_weight * weight_B)
    return weighted_loss(network, LabelledBatch(documents, batch.label_B, weight_B), class_weight_C)


def weighted_loss(
    network: DocNADENetwork, batch: LabelledBatch, class_weight_C: Tensor | None
) -> Tensor:
    """Return the objective of a batch whose weights already include λ and 1 / B."""
    terms = network.terms(batch.documents)
    loss = terms.nll_B.sum()
    if not isinstance(network, SupDocNADENetwork):
        return loss
    return loss + _class_loss(
        network, terms.summary_BH, batch.label_B, batch.weight_B, class_weight_C
    )


def _class_loss(
    network: SupDocNADENetwork,
    summary_BH: Tensor,
    label_B: Tensor,
    weight_B: Tensor,
    class_weight_C: Tensor | None,
) -> Tensor:
    with one_torch_thread():
        loss_B = cross_entropy(
            network.class_logits(summary_BH),
            label_B,
            weight=None if class_weight_C is None else class_weight_C.to(weight_B),
            ignore_index=NO_LABEL,
            reduction="none",
        )
        return torch.dot(weight_B, loss_B)


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
