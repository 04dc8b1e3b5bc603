"""The softmax likelihood in plain torch: one matrix of logits, words × vocabulary."""

from torch.nn.functional import cross_entropy, linear

from supdocnade.ops.contract import DocumentBatch, DocumentTerms, Parameters
from supdocnade.ops.prefix_sum.vectorized import prefixes, sum_by_document


def softmax_nll(batch: DocumentBatch, parameters: Parameters, activation: str) -> DocumentTerms:
    """See `supdocnade.ops.softmax_nll`."""
    hidden_NH, summary_BH = prefixes(batch, parameters, activation)
    logits_NK = linear(hidden_NH, parameters.node_weight_TH, parameters.node_bias_T)
    nll_N = cross_entropy(logits_NK, batch.word_ids_N.long(), reduction="none")
    return DocumentTerms(sum_by_document(nll_N, batch), summary_BH)
