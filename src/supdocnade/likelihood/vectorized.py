"""Prefix sums in plain torch, on any device, differentiable by autograd."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, embedding, linear, softplus

from supdocnade.likelihood.contract import (
    DocumentBatch,
    DocumentTerms,
    Parameters,
    activate,
    touches_few_rows,
)
from supdocnade.likelihood.operations import AdamRates
from supdocnade.tree import WordTree


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


# The tree's likelihood in plain torch: gather the rows of every path, let autograd do the rest.


def tree_nll(
    batch: DocumentBatch, parameters: Parameters, tree: WordTree, activation: str
) -> DocumentTerms:
    """See `operations.tree_nll`."""
    _, _, V_TH, b_T = parameters
    hidden_NH, summary_BH = prefixes(batch, parameters, activation)
    nodes_KL, signs_KL = (torch.as_tensor(table, device=V_TH.device) for table in tree.paths)
    ids_N = batch.word_ids_N.long()
    nodes_NL, signs_NL = nodes_KL[ids_N].long(), signs_KL[ids_N].to(V_TH.dtype)
    rows_NLH = gather_rows(V_TH, nodes_NL, tree.n_words)
    logits_NL = torch.einsum("nlh,nh->nl", rows_NLH, hidden_NH) + b_T[nodes_NL]
    # Padding has sign 0; it must not count the log 2 that softplus(0) would give.
    decisions_NL = softplus(-signs_NL * logits_NL) * signs_NL.abs()
    return DocumentTerms(sum_by_document(decisions_NL.sum(dim=1), batch), summary_BH)


# The softmax likelihood in plain torch: one matrix of logits, words × vocabulary.


def softmax_nll(batch: DocumentBatch, parameters: Parameters, activation: str) -> DocumentTerms:
    """See `operations.softmax_nll`."""
    hidden_NH, summary_BH = prefixes(batch, parameters, activation)
    logits_NK = linear(hidden_NH, parameters.node_weight_TH, parameters.node_bias_T)
    nll_N = cross_entropy(logits_NK, batch.word_ids_N.long(), reduction="none")
    return DocumentTerms(sum_by_document(nll_N, batch), summary_BH)


# Adam on some rows in plain torch, on any device.


def row_adam(
    table_KH: Tensor,
    mean_KH: Tensor,
    square_KH: Tensor,
    rows_R: Tensor,
    gradient_RH: Tensor,
    rates: AdamRates,
) -> None:
    """See `operations.row_adam`."""
    learning_rate, beta1, beta2, epsilon, step = rates
    if isinstance(step, Tensor):
        step = step.double()  # Near 1 a float32 would lose what is left of it.
    mean_RH = mean_KH[rows_R].lerp_(gradient_RH, 1 - beta1)
    square_RH = square_KH[rows_R].mul_(beta2).addcmul_(gradient_RH, gradient_RH, value=1 - beta2)
    mean_KH[rows_R] = mean_RH
    square_KH[rows_R] = square_RH
    spread_RH = (square_RH / (1 - beta2**step)).sqrt_().add_(epsilon)
    size = learning_rate / (1 - beta1**step)
    table_KH.index_add_(0, rows_R, mean_RH.div_(spread_RH).mul_(-size))
