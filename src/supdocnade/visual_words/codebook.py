"""Visual words: the centres of k-means on descriptors; each descriptor has its nearest one."""

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from io import TextIOBase
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans, MiniBatchKMeans, kmeans_plusplus
from threadpoolctl import threadpool_limits
from torch import Tensor

from supdocnade.checks import check_count, check_shape
from supdocnade.devices import full_float32
from supdocnade.errors import InvalidArgument
from supdocnade.seeding import named_generator

# k-means on a sample of descriptors, by one thread, and how far it is.
#
# scikit-learn's k-means calls nobody while it works, but prints a line a round where it is asked to
# be verbose. Those lines are counted; what it computes stays the same to the last bit. A version
# that prints other lines would show no progress, and find the same words.

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


MAX_WORDS = 100_000

BLOCK = 2**22
"""Distances that exist at a time: 16 MiB."""

BLOCK_ON_GPU = 2**26
"""The same on a GPU, which must be given more at a time to be busy: 256 MiB."""


@dataclass(frozen=True, eq=False)
class Codebook:
    """The visual words."""

    centres_KD: Floats
    """(words, descriptor size)."""

    def __post_init__(self) -> None:
        # An array of our own, in one piece, whatever was given.
        object.__setattr__(self, "centres_KD", np.array(self.centres_KD, order="C"))
        centres = self.centres_KD
        if centres.ndim != 2 or centres.dtype != np.float32 or not centres.size:
            raise InvalidArgument(
                "centres must be a matrix of float32, "
                f"got shape {centres.shape} of {centres.dtype}."
            )
        if not np.isfinite(centres).all():
            raise InvalidArgument("centres must be finite, got NaN or infinity.")

    @property
    def n_words(self) -> int:
        """K, the number of words."""
        return len(self.centres_KD)

    @cached_property
    def _half_squares_K(self) -> Floats:
        """|c|² / 2 of every word; kept, for images come one at a time."""
        half: Floats = 0.5 * np.square(self.centres_KD).sum(axis=1)
        return half

    def assign(self, values_SD: Floats, *, device: str = "cpu") -> NDArray[np.int32]:
        """Return the nearest word of every descriptor, (S,).

        Distances are rounded, and differently for other numbers of threads, on other devices and
        for a descriptor alone: one that lies half-way between two words may go to either.

        Parameters
        ----------
        device : where the products are computed, as torch names it; worth it for the descriptors
            of many images at once.
        """
        check_shape("descriptors", values_SD.shape[1:], self.centres_KD.shape[1:])
        if not np.isfinite(values_SD).all():
            raise InvalidArgument("descriptors must be finite, got NaN or infinity.")
        centres, words_S = self.on(torch.device(device)), np.empty(len(values_SD), np.int32)
        for start in range(0, len(values_SD), centres.most_rows):
            rows = slice(start, start + centres.most_rows)
            part = torch.from_numpy(np.array(values_SD[rows], np.float32))
            words_S[rows] = centres.nearest(part.to(device)).cpu()
        return words_S

    def on(self, device: torch.device) -> "CentresOnDevice":
        """Return the words on a device, for descriptors that are there."""
        return CentresOnDevice(
            torch.from_numpy(self.centres_KD).to(device),
            torch.from_numpy(self._half_squares_K).to(device),
        )


class CentresOnDevice(NamedTuple):
    """The visual words where the descriptors are."""

    centres_KD: Tensor
    half_squares_K: Tensor

    @property
    def most_rows(self) -> int:
        """Descriptors that are looked at together."""
        block = BLOCK if self.centres_KD.is_cpu else BLOCK_ON_GPU
        return max(block // len(self.centres_KD), 1)

    def nearest(self, values_SD: Tensor) -> Tensor:
        """Return the nearest word of every descriptor, the first of equals, (S,) int64."""
        words_S = torch.empty(len(values_SD), dtype=torch.int64, device=values_SD.device)
        for start in range(0, len(values_SD), self.most_rows):
            rows = slice(start, start + self.most_rows)
            # |v - c|² = |v|² - 2 v · c + |c|², and |v|² is the same for all words.
            with full_float32(values_SD.device):
                near = torch.addmm(
                    self.half_squares_K, values_SD[rows], self.centres_KD.T, alpha=-1
                )
            if near.is_cpu:  # numpy takes a tenth of the time of torch.
                words_S[rows] = torch.from_numpy(near.numpy().argmin(axis=1))
            else:
                torch.argmin(near, dim=1, out=words_S[rows])
        return words_S


def fit_codebook(
    sample_ND: Floats,
    n_words: int,
    seed: int,
    *,
    max_rounds: int = 30,
    on_round: OnRound | None = None,
) -> Codebook:
    """Return the words of a sample of descriptors.

    Descriptors of zero, which patches of one colour have, are left out: they would draw a word of
    their own away from patches that show something. They are assigned like all others.

    Parameters
    ----------
    sample_ND : (sample, descriptor size), at least as many different ones as words.
    n_words : 2 to 100,000.
    max_rounds : passes of k-means over the sample; with many words, about as many.
    on_round : called with the number of rounds done and of all rounds.
    """
    check_count("n_words", n_words, least=2)
    check_count("max_rounds", max_rounds, least=1)
    if sample_ND.ndim != 2 or not np.isfinite(sample_ND).all():
        raise InvalidArgument(
            f"descriptors must be a finite matrix, got one of shape {sample_ND.shape}."
        )
    if n_words > MAX_WORDS:
        raise InvalidArgument(f"n_words must be at most {MAX_WORDS}, got {n_words}.")
    sample = np.ascontiguousarray(sample_ND[np.any(sample_ND != 0, axis=1)], np.float32)
    if len(sample) < n_words or len(np.unique(sample[: 50 * n_words], axis=0)) < n_words:
        n_different = len(np.unique(sample, axis=0))
        if n_different < n_words:
            raise InvalidArgument(
                f"n_words must be at most the number of different patches, {n_different}, "
                f"got {n_words}."
            )
    return Codebook(find_centres(sample, n_words, seed, max_rounds=max_rounds, on_round=on_round))
