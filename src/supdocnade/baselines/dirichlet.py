"""Latent Dirichlet allocation of words and tags with a response: inference and updates of topics.

`dirichlet_kernels` has the equations. Documents are divided into parts that depend on the documents
alone, and sums over parts are added in their order, so the bits of a result do not depend on the
number of threads.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.baselines.dirichlet_kernels import (
    SOFTMAX,
    TAGS,
    WORDS,
    accept_or_shorten,
    add_counts,
    complete_bounds,
    expect_counts,
)
from supdocnade.corpus.documents import NO_LABEL
from supdocnade.threads import SMALL_WORK, even_ranges, run_parts

Floats = NDArray[np.float64]

N_PARTS = 16
"""Parts of the documents, if the sums of each part fit into memory."""

MAX_PART_SUMS = 2**26
"""Number of values of the sums of all parts together: 512 MiB."""


class Bags(NamedTuple):
    """Documents with their tags, classes and weights."""

    counts_X: tuple[sparse.csr_array, sparse.csr_array]
    """Words and tags, of 64-bit indices and floats."""
    label_B: NDArray[np.int64]
    weight_B: Floats

    @classmethod
    def from_counts(
        cls,
        words: sparse.csr_array,
        tags: sparse.csr_array,
        label_B: NDArray[np.int64] | None = None,
        weight_B: Floats | None = None,
    ) -> "Bags":
        """Return documents; without classes and of weight 1 if none are given."""
        n_documents = words.shape[0]
        return cls(
            (_wide(words), _wide(tags)),
            np.full(n_documents, NO_LABEL) if label_B is None else label_B,
            np.ones(n_documents) if weight_B is None else weight_B,
        )

    @property
    def size_XB(self) -> Floats:
        """Numbers of words and of tags."""
        return np.stack([np.asarray(counts.sum(axis=1)) for counts in self.counts_X])

    def parts(self, n_values: int = 0) -> list[tuple[int, int]]:
        """Return ranges of documents for sums over parts of bounded size."""
        n_parts = min(max(MAX_PART_SUMS // max(n_values, 1), 1), N_PARTS)
        work = sum(counts.indptr for counts in self.counts_X) + np.arange(len(self.label_B) + 1)
        return even_ranges(work, n_parts)


def _wide(counts: sparse.csr_array) -> sparse.csr_array:
    """Return counts of the types for which the kernels are compiled."""
    wide = sparse.csr_array(counts.shape)
    wide.data = counts.data.astype(np.float64, copy=False)
    wide.indices = counts.indices.astype(np.int64, copy=False)
    wide.indptr = counts.indptr.astype(np.int64, copy=False)
    return wide


class Topics(NamedTuple):
    """Parameters of the model."""

    alpha: float
    topic_X: tuple[Floats, Floats]
    """Probability of every word and of every tag in each topic, (K, H) and (A, H)."""
    eta_CH: Floats
    """Coefficients of the response."""
    response: int = SOFTMAX
    cost: float = 1.0
    """Factor of the loss of a margin."""


class States(NamedTuple):
    """Variational distributions of documents, see `dirichlet_kernels`."""

    log_u_XBH: Floats
    expected_XBH: Floats
    """Expected numbers of words and of tags of each topic."""
    bound_B: Floats
    """Lower bounds of log p(words, tags, class)."""

    @classmethod
    def start(cls, n_documents: int, n_topics: int) -> "States":
        """Return states in which every topic is as probable as the others."""
        shape = (2, n_documents, n_topics)
        return cls(np.zeros(shape), np.zeros(shape), np.zeros(n_documents))


def infer_topics(
    bags: Bags, topics: Topics, states: States, *, n_trials: int, tolerance: float
) -> None:
    """Improve the states of documents, which begin as they are.

    Parameters
    ----------
    n_trials : number of states that are tried, at most.
    tolerance : gain of the bound per word at which a document is finished.
    """
    size_XB = bags.size_XB
    n_topics = topics.topic_X[WORDS].shape[1]

    def infer_part(part: tuple[int, int]) -> None:
        rows = slice(*part)
        csr_X = [
            (counts.indptr[part[0] : part[1] + 1], counts.indices, counts.data)
            for counts in bags.counts_X
        ]
        n_documents = part[1] - part[0]
        is_open_B, rate_B = np.ones(n_documents, np.bool_), np.ones(n_documents)
        # Contiguous copies: kernels are compiled again for every memory layout.
        part_XB = size_XB[:, rows].copy()
        best, trial = (States.start(n_documents, n_topics) for _ in range(2))
        best.bound_B[:], trial.log_u_XBH[:] = -np.inf, states.log_u_XBH[:, rows]
        target_XBH, trial_target_XBH = (np.zeros_like(trial.log_u_XBH) for _ in range(2))
        for _ in range(n_trials):
            for x in (WORDS, TAGS):
                expect_counts(
                    *csr_X[x], topics.topic_X[x], trial.log_u_XBH[x], is_open_B,
                    trial.expected_XBH[x], trial.bound_B,
                )  # fmt: skip
            complete_bounds(
                topics.alpha, part_XB, topics.response, topics.cost, bags.label_B[rows],
                topics.eta_CH, is_open_B, trial.expected_XBH, trial.bound_B, trial_target_XBH,
            )  # fmt: skip
            accept_or_shorten(
                tolerance * part_XB.sum(axis=0), is_open_B, rate_B,
                best.bound_B, best.log_u_XBH, best.expected_XBH, target_XBH,
                trial.bound_B, trial.log_u_XBH, trial.expected_XBH, trial_target_XBH,
            )  # fmt: skip
            if not is_open_B.any():
                break
        states.log_u_XBH[:, rows], states.expected_XBH[:, rows] = best.log_u_XBH, best.expected_XBH
        states.bound_B[rows] = best.bound_B

    small = bags.counts_X[WORDS].nnz * n_topics * n_trials < SMALL_WORK
    run_parts(infer_part, bags.parts(), small=small)


def sum_counts(bags: Bags, topics: Topics, states: States, x: int) -> Floats:
    """Return the expected counts of every word, or tag, in each topic, (K, H)."""
    topic_KH, counts = topics.topic_X[x], bags.counts_X[x]
    parts = bags.parts(topic_KH.size)
    sums_PKH = np.zeros((len(parts), *topic_KH.shape))

    def add_part(number: int) -> None:
        first, last = parts[number]
        add_counts(
            counts.indptr[first : last + 1], counts.indices, counts.data, topic_KH,
            states.log_u_XBH[x, first:last], bags.weight_B[first:last], sums_PKH[number],
        )  # fmt: skip

    run_parts(add_part, range(len(parts)), small=counts.nnz * topic_KH.shape[1] < SMALL_WORK)
    total_KH: Floats = sums_PKH.sum(axis=0)  # One part after the other.
    return total_KH


def normalize_topics(counts_KH: Floats, smoothing: float) -> Floats:
    """Return topics as distributions over words; each word is counted `smoothing` times more."""
    smoothed_KH = counts_KH + smoothing
    topic_KH: Floats = smoothed_KH / smoothed_KH.sum(axis=0)
    return topic_KH
