"""From documents to batches of tokens in a fresh random order."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supdocnade.corpus import Documents
from supdocnade.corpus.tokens import Tokens
from supdocnade.ops.contract import DocumentBatch
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
