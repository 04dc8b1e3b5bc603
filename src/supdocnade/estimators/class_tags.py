"""What the class of a document says of its annotations.

The paper ranks annotations by p(a | v). A document's class says something of them, too: the score

    log p(a | v) + α log Σ_c p(c | v) share(a | c)

adds the share that an annotation has among all annotations of a class, averaged over the classes
that the document may be of. α = 0 is the paper's ranking.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]


def class_tag_shares(
    annotations: sparse.csr_array, label_N: NDArray[np.integer], n_classes: int
) -> Floats:
    """Return the share of every annotation among all those of a class, (classes, annotations).

    Add-one smoothing, shared by all annotations: those of no document of a class stay possible, and
    a class of which no annotation is known says nothing.

    Parameters
    ----------
    annotations : (documents, annotations) counts.
    label_N : (documents,) class numbers; below 0: not known.

    >>> class_tag_shares(sparse.csr_array([[1, 0], [1, 1], [0, 1]]), np.array([0, 0, -1]), 2)
    array([[0.625, 0.375],
           [0.5  , 0.5  ]])
    """
    known = np.flatnonzero(label_N >= 0)
    member_NC = np.eye(n_classes)[label_N[known]]
    share_CA: Floats = member_NC.T @ annotations[known] + 1 / annotations.shape[1]
    share_CA /= share_CA.sum(axis=1, keepdims=True)
    return share_CA


def add_classes(log_p_BA: Floats, proba_BC: Floats, share_CA: Floats, weight: float) -> Floats:
    """Return log p(a | v) + weight · log Σ_c p(c | v) share(a | c), (B, A).

    Parameters
    ----------
    log_p_BA : (documents, annotations) log p(a | v).
    proba_BC : (documents, classes) p(c | v).
    share_CA : of `class_tag_shares`.
    """
    # Class by class: a product of matrices rounds a document alone and among others differently.
    mixed_BA = np.zeros_like(log_p_BA)
    for proba_B, share_A in zip(proba_BC.T, share_CA, strict=True):
        mixed_BA += proba_B[:, None] * share_A
    scores_BA: Floats = log_p_BA + weight * np.log(mixed_BA)
    return scores_BA
