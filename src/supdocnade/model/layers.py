"""Hidden layers above the first, and the objective that trains them.

    h⁽¹⁾ = g(c + Σ_{k<d} x_k W[v_k])        h⁽ˡ⁾ = g(c⁽ˡ⁾ + W⁽ˡ⁾ h⁽ˡ⁻¹⁾)

Words, classes and annotations are predicted from the top layer. The hidden units before word i + 1
do not follow from those before word i by one addition, so a document of D words would cost D passes
through the layers. In training (Zheng, Zhang, Larochelle 2015) one random split point d of a random
order is drawn for each document and update, and all words after it are predicted from those before:

    D / (D - d + 1) Σ_{i≥d} -w_i log p(v_i | v_<d)

Given the words before the split, each other word is equally probable to come next, so the mean over
split points and orders is that of Σ_i -w_i log p(v_i | v_<i), and so is the mean of its gradient.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import embedding, pad

from supdocnade.likelihood import Activation
from supdocnade.likelihood.bags import WordBag, embed_bags
from supdocnade.likelihood.contract import (
    DocumentBatch,
    DocumentTerms,
    Parameters,
    activate,
    has_sparse_gradients,
)
from supdocnade.likelihood.cpu.bag_counts import count_split
from supdocnade.likelihood.cpu.products import apply_layer, multiply
from supdocnade.model.outputs import WordOutput

Layer = tuple[Tensor, Tensor]
"""Weights W⁽ˡ⁾, (units, units of the layer below), and biases c⁽ˡ⁾ of a layer."""

MAX_ACTIVATIONS = 2**22
"""Activations of one layer that `exact_nll` computes at a time: 16 MiB."""

MAX_COUNTS = 2**24
"""Documents × words of a training batch that is computed at a time: 128 MiB of sums of weights."""


def max_documents(n_words: int) -> int:
    """Return how many documents of a batch are computed at a time, so that memory is bounded.

    >>> max_documents(10_000), max_documents(2**24)
    (1677, 1)
    """
    return max(MAX_COUNTS // n_words, 1)


def ascend(a_BH: Tensor, layers: Sequence[Layer], activation: Activation) -> Tensor:
    """Return the activations of the top layer before g, given those of the first."""
    for weight, bias in layers:
        a_BH = apply_layer(activate(activation, a_BH), weight, bias)
    return a_BH


def split_terms(
    batch: DocumentBatch,
    parameters: Parameters,
    layers: Sequence[Layer],
    activation: Activation,
    output: WordOutput,
    *,
    with_summary: bool,
) -> DocumentTerms:
    """Return the objective and the summary of every document.

    Parameters
    ----------
    batch : with `given_N`, the tokens before the split point.
    with_summary : compute the summaries, top activations of the whole documents; otherwise there
        are none, (0, H).
    """
    assert batch.given_N is not None, "a batch with split points"
    W_KH, n_documents = parameters.word_embedding_KH, batch.n_documents
    bias_BH = parameters.hidden_bias_H.expand(n_documents, -1)
    # The whole documents are further rows of the same products.
    bias_BH = bias_BH.repeat(2, 1) if with_summary else bias_BH
    n_counts = n_documents * len(W_KH)
    if W_KH.is_cuda or has_sparse_gradients(len(W_KH)) or 4 * len(batch.word_ids_N) < n_counts:
        bags, after, n_after_B = _make_bags(batch, len(W_KH), with_summary)
        top_BH = ascend(bias_BH + embed_bags(bags, W_KH), layers, activation)
        hidden_BH = activate(activation, top_BH[:n_documents])
        nll_B = output.bag_nll(hidden_BH, after, parameters)
    else:
        counts = count_split(batch, len(W_KH), W_KH.dtype, with_summary=with_summary)
        sums_BH = multiply(torch.cat([counts.before_BK, counts.whole_BK]), W_KH)
        top_BH = ascend(bias_BH + sums_BH, layers, activation)
        hidden_BH = activate(activation, top_BH[:n_documents])
        nll_B = output.counts_nll(hidden_BH, counts.after_BK, parameters)
        n_after_B = counts.n_after_B
    factor_B = batch.offsets_B1.diff().to(nll_B.dtype) / n_after_B.clamp_min(1)
    return DocumentTerms(nll_B * factor_B, top_BH[n_documents:])


def _make_bags(
    batch: DocumentBatch, n_words: int, with_summary: bool
) -> tuple[list[WordBag], WordBag, Tensor]:
    """Return the bags to embed, that of the words after the split points, and their number, (B,).

    The first are the words before the split points and, with a summary, whole documents.
    """
    assert batch.given_N is not None, "a batch with split points"
    ids_N = batch.word_ids_N.long()
    document_N, exists_N = _find_documents(batch)
    given_N, follows_N = batch.given_N & exists_N, ~batch.given_N & exists_N

    def make_bag(mask_N: Tensor, weight_N: Tensor | None) -> WordBag:
        weight_N = mask_N.double() if weight_N is None else weight_N * mask_N
        return WordBag(document_N, ids_N, weight_N, batch.n_documents)

    bags = [make_bag(given_N, batch.input_weight_N)]
    if with_summary:
        limit = n_words if batch.n_summary_words is None else batch.n_summary_words
        bags.append(make_bag(exists_N & (ids_N < limit), batch.input_weight_N))
    n_after_B = torch.zeros_like(batch.offsets_B1[1:]).scatter_add_(0, document_N, follows_N.long())
    return bags, make_bag(follows_N, batch.loss_weight_N), n_after_B


def _find_documents(batch: DocumentBatch) -> tuple[Tensor, Tensor]:
    """Return the document of every token, and True where there is one, (N,) each.

    The token arrays of a recorded batch may be longer than its documents.
    """
    n_tokens, offsets_B1 = len(batch.word_ids_N), batch.offsets_B1
    if not batch.checked:
        numbers_B = torch.arange(batch.n_documents, device=offsets_B1.device)
        document_N = torch.repeat_interleave(numbers_B, offsets_B1.diff(), output_size=n_tokens)
        return document_N, torch.ones_like(document_N, dtype=torch.bool)
    place_N = torch.arange(n_tokens, device=offsets_B1.device)
    document_N = torch.searchsorted(offsets_B1, place_N, right=True) - 1
    return document_N.clamp_max(batch.n_documents - 1), document_N < batch.n_documents


def exact_nll(
    batch: DocumentBatch,
    parameters: Parameters,
    layers: Sequence[Layer],
    activation: Activation,
    output: WordOutput,
) -> Tensor:
    """Return Σ_i -w_i log p(v_i | v_<i) of every document in the order of the batch, (B,).

    Every word needs a pass of its own through the layers; some thousand are made at a time.
    """
    W_KH, c_H = parameters.word_embedding_KH, parameters.hidden_bias_H
    ids_N, offsets_B1 = batch.word_ids_N.long(), batch.offsets_B1
    document_N, _ = _find_documents(batch)
    width = max(W_KH.shape[1], *(len(bias) for _, bias in layers))
    step = max(MAX_ACTIVATIONS // width, 1)
    nll, carried_H = [c_H.new_zeros(0)], W_KH.new_zeros(W_KH.shape[1], dtype=torch.float64)
    for start in range(0, len(ids_N), step):
        tokens = slice(start, start + step)
        words_N, rows_N = ids_N[tokens], document_N[tokens]
        embedded_NH = embedding(words_N, W_KH, sparse=has_sparse_gradients(len(W_KH))).double()
        if batch.input_weight_N is not None:
            embedded_NH = embedded_NH * batch.input_weight_N[tokens, None]
        # Sums of all tokens of the block up to each one, less those of earlier documents.
        sums_NH = pad(embedded_NH.cumsum(dim=0), (0, 0, 1, 0))
        first_N = offsets_B1[rows_N] - start
        before_NH = sums_NH[:-1] - sums_NH[first_N.clamp_min(0)]
        before_NH = before_NH + (first_N < 0)[:, None] * carried_H
        bias = c_H if c_H.ndim == 1 else c_H[rows_N]
        top_NH = ascend(bias + before_NH.to(W_KH.dtype), layers, activation)
        nll.append(output.token_nll(activate(activation, top_NH), words_N, parameters))
        carried_H = before_NH[-1] + embedded_NH[-1]
    nll_N = torch.cat(nll)
    if batch.loss_weight_N is not None:
        nll_N = nll_N * batch.loss_weight_N
    return torch.segment_reduce(nll_N, "sum", offsets=offsets_B1, initial=0)
