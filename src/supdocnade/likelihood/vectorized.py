"""The operations in plain torch, on any device, differentiable by autograd."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear, softplus

from supdocnade.likelihood import Activation
from supdocnade.likelihood.contract import (
    Batch,
    DocumentTerms,
    Parameters,
    activate,
)
from supdocnade.tree import WordTree


def _document_of_token(batch: Batch) -> Tensor:
    """Return the document (N,) that each token belongs to."""
    lengths_B = batch.offsets_B1.diff()
    numbers_B = torch.arange(batch.n_documents, device=lengths_B.device)
    return torch.repeat_interleave(numbers_B, lengths_B)


def _pad(values_NH: Tensor, used_BD: Tensor) -> Tensor:
    """Return the values of the tokens by document and position, zero after a document's end."""
    shape = (*used_BD.shape, values_NH.shape[1])
    if used_BD.all():
        return values_NH.view(shape)
    return values_NH.new_zeros(shape).masked_scatter(used_BD[:, :, None], values_NH)


def _unpad(values_BDH: Tensor, used_BD: Tensor) -> Tensor:
    """Return the values at used positions, document after document."""
    return values_BDH.flatten(0, 1) if used_BD.all() else values_BDH[used_BD]


def prefix_sums(
    batch: Batch, parameters: Parameters, activation: Activation
) -> tuple[Tensor, Tensor]:
    """Return h_i = g(c + Σ_{k<i} x_k W[v_k]) of all tokens, (N, H), and the summaries, (B, H)."""
    W_KH, c_H = parameters.word_embedding_KH, parameters.hidden_bias_H
    ids_N = batch.word_ids_N.long()
    document_N = _document_of_token(batch)
    embedded_NH = W_KH[ids_N]
    if batch.input_weight_N is not None:
        embedded_NH = embedded_NH * batch.input_weight_N[:, None]

    # Documents are summed separately: one running sum over all tokens would lose precision.
    B, H = batch.n_documents, W_KH.shape[1]
    lengths_B = batch.offsets_B1.diff()
    D = int(lengths_B.max()) if B else 0
    used_BD = torch.arange(D, device=ids_N.device) < lengths_B[:, None]
    slots_BDH = _pad(embedded_NH, used_BD)
    before_BDH = torch.cat([slots_BDH.new_zeros(B, 1, H), slots_BDH.cumsum(dim=1)[:, :-1]], dim=1)
    bias = c_H if c_H.ndim == 1 else c_H[document_N]
    hidden_NH = activate(activation, bias + _unpad(before_BDH[:, :D], used_BD))

    if batch.n_summary_words is not None:
        embedded_NH = embedded_NH * (ids_N < batch.n_summary_words)[:, None]
    summed_BH = embedded_NH.new_zeros(B, H).index_add(0, document_N, embedded_NH)
    return hidden_NH, c_H + summed_BH


def sum_by_document(values_N: Tensor, batch: Batch) -> Tensor:
    """Return Σ_i w_i values_i for every document, w the loss weights."""
    if batch.loss_weight_N is not None:
        values_N = values_N * batch.loss_weight_N
    totals_B = values_N.new_zeros(batch.n_documents)
    return totals_B.index_add(0, _document_of_token(batch), values_N)


def tree_nll(
    batch: Batch, parameters: Parameters, tree: WordTree, activation: Activation
) -> DocumentTerms:
    """See `operations.tree_nll`."""
    hidden_NH, summary_BH = prefix_sums(batch, parameters, activation)
    ids_N, (_, _, V_TH, b_T) = batch.word_ids_N.long(), parameters
    nodes_KL, signs_KL = (torch.as_tensor(table, device=V_TH.device) for table in tree.paths)
    nodes_NL, signs_NL = nodes_KL[ids_N].long(), signs_KL[ids_N].to(V_TH.dtype)
    rows_NLH = V_TH[nodes_NL]
    logits_NL = torch.einsum("nlh,nh->nl", rows_NLH, hidden_NH) + b_T[nodes_NL]
    # Padding has sign 0, for which softplus would give log 2.
    decisions_NL = softplus(-signs_NL * logits_NL) * signs_NL.abs()
    return DocumentTerms(sum_by_document(decisions_NL.sum(dim=1), batch), summary_BH)


def softmax_nll(batch: Batch, parameters: Parameters, activation: Activation) -> DocumentTerms:
    """See `operations.softmax_nll`."""
    hidden_NH, summary_BH = prefix_sums(batch, parameters, activation)
    logits_NK = linear(hidden_NH, parameters.node_weight_TH, parameters.node_bias_T)
    nll_N = cross_entropy(logits_NK, batch.word_ids_N.long(), reduction="none")
    return DocumentTerms(sum_by_document(nll_N, batch), summary_BH)


def write_softmax_delta(
    hidden_NH: Tensor,
    V_KH: Tensor,
    b_K: Tensor,
    words_N1: Tensor,
    weight_N1: Tensor,
    delta_NK: Tensor,
) -> Tensor:
    """Return w · -log p, and write w · (p - 1_v), the derivative with respect to the logits."""
    torch.addmm(b_K, hidden_NH, V_KH.T, out=delta_NK)
    delta_NK -= delta_NK.max(dim=1, keepdim=True).values
    logit_N1 = delta_NK.gather(1, words_N1)
    total_N1 = delta_NK.exp_().sum(dim=1, keepdim=True)
    cost_N: Tensor = (weight_N1 * (total_N1.log() - logit_N1))[:, 0]
    delta_NK *= weight_N1 / total_N1
    delta_NK.scatter_add_(1, words_N1, -weight_N1)
    return cost_N


def slope(activation: str, hidden: Tensor) -> Tensor:
    """Return g'(a) in terms of h = g(a)."""
    match activation:
        case "relu":
            return (hidden > 0).to(hidden.dtype)
        case "tanh":
            return 1 - hidden.square()
        case _:
            return hidden * (1 - hidden)
