"""k-means on a sample of descriptors, by one thread, and how far it is.

scikit-learn's k-means calls nobody while it works, but prints a line a round where it is asked to
be verbose. Those lines are counted; what it computes stays the same to the last bit. A version that
prints other lines would show no progress, and find the same words.
"""

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import TextIOBase

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, MiniBatchKMeans, kmeans_plusplus
from threadpoolctl import threadpool_limits

from supdocnade.seeding import named_generator

Floats = NDArray[np.float32]
OnRound = Callable[[int, int], None]
"""Called with the number of rounds done and of all rounds; it may be done after fewer of them."""

FULL_BATCH_WORDS = 2_000
"""Above this many words k-means takes small batches: full rounds would take hours."""

START_SAMPLE = 30
"""Descriptors a word among which k-means++ looks for the first centres. To look at all of 100,000
took longer than k-means itself and led to no better words (240 of them, of photographs)."""

_A_ROUND = re.compile(r"Iteration \d+, inertia|Minibatch step \d+/")
_listening = threading.Lock()


def find_centres(
    sample_ND: Floats,
    n_words: int,
    seed: int,
    *,
    max_rounds: int,
    on_round: OnRound | None = None,
) -> Floats:
    """Return the centres of k-means, (words, descriptor size).

    Parameters
    ----------
    sample_ND : (sample, descriptor size) in one piece, at least as many different ones as words.
    max_rounds : passes over the sample; with many words, about as many.
    """
    generator = named_generator(seed, "codebook")
    state = int(generator.integers(2**31))
    options = {"n_clusters": n_words, "n_init": 1, "random_state": state}
    small = n_words <= FULL_BATCH_WORDS
    batch = min(max(10 * n_words, 2**14), len(sample_ND))
    n_rounds = max_rounds if small else max_rounds * len(sample_ND) // batch
    # scikit-learn's k-means gives other bits on other numbers of threads.
    with threadpool_limits(1), _told(on_round, n_rounds) as verbose:
        if small:
            few = sample_ND[
                np.sort(generator.permutation(len(sample_ND))[: START_SAMPLE * n_words])
            ]
            if len(np.unique(few, axis=0)) < n_words:
                few = sample_ND
            start, _ = kmeans_plusplus(few, n_words, random_state=state)
            means = KMeans(init=start, max_iter=max_rounds, verbose=verbose, **options)
        else:
            means = MiniBatchKMeans(
                batch_size=batch, max_iter=max_rounds, init="random", verbose=verbose, **options
            )
        means.fit(sample_ND)
    return np.ascontiguousarray(means.cluster_centers_, np.float32)


@contextmanager
def _told(on_round: OnRound | None, n_rounds: int) -> Iterator[int]:
    """Report the rounds of the k-means within; yields how verbose it must be for that."""
    # There is one stdout for all threads: a second k-means at the same time works in silence.
    if on_round is None or not _listening.acquire(blocking=False):
        yield 0
        return
    try:
        on_round(0, n_rounds)
        with redirect_stdout(_Rounds(on_round, n_rounds)):
            yield 1
        on_round(n_rounds, n_rounds)
    finally:
        _listening.release()


class _Rounds(TextIOBase):
    """Takes what this thread prints and counts its rounds; other threads print as before."""

    def __init__(self, on_round: OnRound, n_rounds: int):
        self.on_round, self.n_rounds, self.done = on_round, n_rounds, 0
        self.before, self.owner = sys.stdout, threading.get_ident()

    def write(self, text: str) -> int:
        if threading.get_ident() != self.owner:
            return self.before.write(text)
        if _A_ROUND.match(text):
            self.done += 1
            with redirect_stdout(self.before):
                self.on_round(self.done, self.n_rounds)
        return len(text)

    def flush(self) -> None:
        self.before.flush()
