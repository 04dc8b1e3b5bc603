"""From documents to batches of tokens in a fresh random order."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from supdocnade.corpus import Documents
from supdocnade.corpus.documents import NO_LABEL
from supdocnade.corpus.tokens import Tokens
from supdocnade.likelihood.contract import DocumentBatch
from supdocnade.likelihood.cpu.threads import one_torch_thread
from supdocnade.model import DocNADENetwork, SupDocNADENetwork
from supdocnade.seeding import bag_keys, named_generator, token_order


class LabelledBatch(NamedTuple):
    """Documents with their labels and their weights in the objective."""

    documents: DocumentBatch
    label_B: Tensor
    """Class numbers, `NO_LABEL` where not known."""
    weight_B: Tensor

    def __len__(self) -> int:
        """B, the number of documents."""
        return len(self.label_B)

    def to(self, device: torch.device) -> "LabelledBatch":
        """Return the batch on another device."""
        return LabelledBatch(
            self.documents.to(device), self.label_B.to(device), self.weight_B.to(device)
        )


def make_batch(
    corpus: Documents,
    documents: NDArray[np.int64],
    order_N: NDArray[np.int64],
    *,
    annotation_weight: float = 1.0,
    n_summary_words: int | None = None,
) -> LabelledBatch:
    """Gather documents with their tokens in a given order.

    Parameters
    ----------
    order_N : places in the concatenation of the documents, as `token_order` gives them.
    annotation_weight : multiplies the loss of annotation words, never their input.
    n_summary_words : ids below this enter the summary (`DocumentBatch`).
    """
    tokens = corpus.tokens.gather(documents, order_N)
    return _batch_of(corpus, documents, tokens, annotation_weight, n_summary_words)


def _batch_of(
    corpus: Documents,
    documents: NDArray[np.int64],
    tokens: Tokens,
    annotation_weight: float = 1.0,
    n_summary_words: int | None = None,
) -> LabelledBatch:
    """Put tokens that were gathered together with what is known of their documents."""
    ids_N, share_N = tokens
    lengths_B = corpus.length_B[documents]
    loss_N = share_N
    if annotation_weight != 1.0 and corpus.n_annotation_words:
        factor_N = np.where(ids_N < corpus.n_visual_words, 1.0, annotation_weight)
        loss_N = factor_N.astype(np.float32) if share_N is None else (factor_N * share_N)
        loss_N = loss_N.astype(np.float32)
    batch = DocumentBatch(
        torch.from_numpy(ids_N),
        torch.from_numpy(np.concatenate([[0], np.cumsum(lengths_B)])),
        None if share_N is None else torch.from_numpy(share_N),
        None if loss_N is None else torch.from_numpy(loss_N),
        n_summary_words,
    )
    weight_B = corpus.document_weight_B
    chosen_B = np.ones(len(documents), np.float32) if weight_B is None else weight_B[documents]
    return LabelledBatch(
        batch, torch.from_numpy(corpus.label_B[documents]), torch.from_numpy(chosen_B)
    )


def epoch_batches(
    n_documents: int, batch_size: int, seed: int, epoch: int
) -> list[NDArray[np.int64]]:
    """Return the documents of every batch of an epoch: a partition in random order."""
    shuffled = named_generator(seed, "documents", epoch).permutation(n_documents)
    return [shuffled[i : i + batch_size] for i in range(0, n_documents, batch_size)]


def ordered_batches(
    corpus: Documents, batch_size: int, seed: int, ordering: int, **options: float | int | None
) -> Iterator[LabelledBatch]:
    """Yield all documents in their own sequence, their tokens in the `ordering`-th random order.

    For measuring, not for training: the orders are the same however often they are asked for, and
    follow from the contents of a document, not from its place among the others.
    """
    for first in range(0, len(corpus), batch_size):
        documents = np.arange(first, min(first + batch_size, len(corpus)))
        tokens, lengths = corpus.tokens.gather(documents), corpus.length_B[documents]
        keys = bag_keys(*tokens, np.concatenate([[0], np.cumsum(lengths)]))
        order = token_order(seed, ordering, keys, lengths, stream="measuring")
        yield _batch_of(corpus, documents, tokens.ordered(order), **options)  # type: ignore[arg-type]


# The hybrid objective of a batch: -log p(y | v) + λ Σ_i -log p(v_i | v_<i), averaged.


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
