"""The tree's likelihood in plain torch: gather the rows of every path, let autograd do the rest."""

import torch
from torch.nn.functional import softplus

from supdocnade.ops.contract import DocumentBatch, DocumentTerms, Parameters
from supdocnade.ops.prefix_sum.vectorized import gather_rows, prefixes, sum_by_document
from supdocnade.tree import WordTree


def tree_nll(
    batch: DocumentBatch, parameters: Parameters, tree: WordTree, activation: str
) -> DocumentTerms:
    """See `supdocnade.ops.tree_nll`."""
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
