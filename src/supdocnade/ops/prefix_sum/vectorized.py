"""Prefix sums in plain torch, on any device, differentiable by autograd."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding

from supdocnade.ops.contract import DocumentBatch, Parameters, activate, touches_few_rows


class Prefixes(NamedTuple):
    """Hidden units before every token, and the summary of every document."""

    hidden_NH: Tensor
    summary_BH: Tensor


def gather_rows(table: Tensor, rows: Tensor, n_words: int) -> Tensor:
    """Return rows of a table; with a large vocabulary its gradient is those rows alone."""
    return embedding(rows, table, sparse=touches_few_rows(n_words))


def documents_of_tokens(batch: DocumentBatch) -> Tensor:
    """Return the document (N,) that each token belongs to."""
    lengths_B = batch.offsets_B1.diff()
    numbers_B = torch.arange(batch.n_documents, device=lengths_B.device)
    return torch.repeat_interleave(numbers_B, lengths_B)


def _pad(values_NH: Tensor, used_BD: Tensor) -> Tensor:
    """Lay out the tokens of documents in rows of slots, zero where a document has ended."""
    shape = (*used_BD.shape, values_NH.shape[1])
    if used_BD.all():
        return values_NH.view(shape)
    return values_NH.new_zeros(shape).masked_scatter(used_BD[:, :, None], values_NH)


def _unpad(values_BDH: Tensor, used_BD: Tensor) -> Tensor:
    """Return the used slots one after the other."""
    return values_BDH.flatten(0, 1) if used_BD.all() else values_BDH[used_BD]


def prefixes(batch: DocumentBatch, parameters: Parameters, activation: str) -> Prefixes:
    """Return g(c + Σ_{k<i} x_k W[v_k]) for every token i, and c + Σ_k x_k W[v_k]."""
    W_KH, c_H = parameters.word_embedding_KH, parameters.hidden_bias_H
    ids_N = batch.word_ids_N.long()
    document_N = documents_of_tokens(batch)
    embedded_NH = gather_rows(W_KH, ids_N, len(W_KH))
    if batch.input_weight_N is not None:
        embedded_NH = embedded_NH * batch.input_weight_N[:, None]

    # Each document gets a row of its own: one running sum over all tokens would lose precision.
    B, H = batch.n_documents, len(c_H)
    lengths_B = batch.offsets_B1.diff()
    D = int(lengths_B.max()) if B else 0
    used_BD = torch.arange(D, device=ids_N.device) < lengths_B[:, None]
    slots_BDH = _pad(embedded_NH, used_BD)
    before_BDH = torch.cat([slots_BDH.new_zeros(B, 1, H), slots_BDH.cumsum(dim=1)[:, :-1]], dim=1)
    hidden_NH = activate(activation, c_H + _unpad(before_BDH[:, :D], used_BD))

    if batch.n_summary_words is not None:
        embedded_NH = embedded_NH * (ids_N < batch.n_summary_words)[:, None]
    summed_BH = embedded_NH.new_zeros(B, H).index_add(0, document_N, embedded_NH)
    return Prefixes(hidden_NH, c_H + summed_BH)


def sum_by_document(values_N: Tensor, batch: DocumentBatch) -> Tensor:
    """Return Σ_i w_i values_i for every document, w the loss weights."""
    if batch.loss_weight_N is not None:
        values_N = values_N * batch.loss_weight_N
    totals_B = values_N.new_zeros(batch.n_documents)
    return totals_B.index_add(0, documents_of_tokens(batch), values_N)
