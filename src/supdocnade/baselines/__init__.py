"""The topic models of words, tags and classes that the paper compares with SupDocNADE.

================== ========================================================================
dirichlet_kernels  variational inference of latent Dirichlet allocation with a response
dirichlet          documents, inference and updates of topics, in parallel
supervised_lda     `SLDA`: the response is a softmax of topic frequencies; `MMLDA`: it is a margin
replicated_softmax `ReplicatedSoftmax`: an undirected model without classes
================== ========================================================================
"""

from supdocnade.baselines.replicated_softmax import ReplicatedSoftmax
from supdocnade.baselines.supervised_lda import MMLDA, SLDA

__all__ = ["MMLDA", "SLDA", "ReplicatedSoftmax"]
