"""Batches of documents with their tokens in random order."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supdocnade.corpus.counts import Rows
from supdocnade.corpus.documents import Documents
from supdocnade.corpus.tokens import Tokens
from supdocnade.likelihood.contract import DocumentBatch
from supdocnade.seeding import bag_keys, kept_features, named_generator, token_order


class LabelledBatch(NamedTuple):
    """Documents with their labels and their weights in the objective."""

    documents: DocumentBatch
    label_B: Tensor
    """Class numbers, `NO_LABEL` where unknown."""
    weight_B: Tensor
    tag_BA: Tensor | None = None
    """Annotations that are no words: 1, 0, or `NO_LABEL` where unknown."""
    label_BC: Tensor | None = None
    """Labels where a document may have several: 1, 0, or `NO_LABEL` where unknown."""

    def __len__(self) -> int:
        """B, the number of documents."""
        return len(self.label_B)

    def to(self, device: torch.device) -> "LabelledBatch":
        """Return the batch on another device."""
        return LabelledBatch(
            self.documents.to(device),
            self.label_B.to(device),
            self.weight_B.to(device),
            None if self.tag_BA is None else self.tag_BA.to(device),
            None if self.label_BC is None else self.label_BC.to(device),
        )


def make_batch(
    corpus: Documents,
    rows_B: Rows,
    order_N: NDArray[np.int64],
    *,
    annotation_weight: float = 1.0,
    n_summary_words: int | None = None,
) -> LabelledBatch:
    """Gather documents with their tokens in a given order.

    Parameters
    ----------
    rows_B : document numbers.
    order_N : positions in the concatenation of the documents, as `token_order` returns them.
    annotation_weight : multiplies the loss of annotation words, never their input.
    n_summary_words : ids below this enter the summary (`DocumentBatch`).
    """
    tokens = corpus.tokens.gather(rows_B, order_N)
    return _label_tokens(corpus, rows_B, tokens, annotation_weight, n_summary_words)


def drop_features(
    batch: LabelledBatch, rate: float, seed: int, epoch: int, rows_B: Rows
) -> LabelledBatch:
    """Set a random part of the global features of a batch to zero, and scale the others up.

    Parameters
    ----------
    rate : probability that a feature is dropped.
    rows_B : document numbers, which determine the dropped features.
    """
    features_BF = batch.documents.global_features_BF
    if features_BF is None or rate == 0:
        return batch
    kept_BF = torch.from_numpy(kept_features(seed, epoch, rows_B, features_BF.shape[1], rate))
    dropped_BF = features_BF * kept_BF * (1 / (1 - rate))
    documents = batch.documents._replace(global_features_BF=dropped_BF)
    return LabelledBatch(documents, batch.label_B, batch.weight_B, batch.tag_BA, batch.label_BC)


def _label_tokens(
    corpus: Documents,
    rows_B: Rows,
    tokens: Tokens,
    annotation_weight: float,
    n_summary_words: int | None,
) -> LabelledBatch:
    """Combine gathered tokens with the labels and weights of their documents."""
    ids_N, input_N = tokens
    loss_N = input_N
    if annotation_weight != 1.0 and corpus.n_annotation_words:
        factor_N = np.where(ids_N < corpus.n_visual_words, 1.0, annotation_weight)
        loss_N = (factor_N if input_N is None else factor_N * input_N).astype(np.float32)
    documents = DocumentBatch(
        torch.from_numpy(ids_N),
        torch.from_numpy(np.concatenate([[0], np.cumsum(corpus.length_B[rows_B])])),
        None if input_N is None else torch.from_numpy(input_N),
        None if loss_N is None else torch.from_numpy(loss_N),
        n_summary_words,
    )
    features_BF = corpus.global_features_BF
    if features_BF is not None:
        documents = documents._replace(global_features_BF=torch.from_numpy(features_BF[rows_B]))
    all_weights_B = corpus.document_weight_B
    weight_B = np.ones(len(rows_B), np.float32) if all_weights_B is None else all_weights_B[rows_B]
    return LabelledBatch(
        documents,
        torch.from_numpy(corpus.label_B[rows_B]),
        torch.from_numpy(weight_B),
        None if corpus.tag_BA is None else torch.from_numpy(corpus.tag_BA[rows_B]),
        None if corpus.label_BC is None else torch.from_numpy(corpus.label_BC[rows_B]),
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
) -> Iterator[LabelledBatch]:
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
