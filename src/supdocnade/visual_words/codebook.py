"""Codebook of visual words: the centres of k-means on descriptors of patches.

A descriptor belongs to the word whose centre is nearest. Descriptors of any kind do: a codebook
knows only their number of columns.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supdocnade.checks import check_count, check_shape
from supdocnade.devices import full_float32
from supdocnade.errors import InvalidArgument
from supdocnade.progress import ProgressCallback, no_progress
from supdocnade.visual_words.kmeans import find_centres

Floats = NDArray[np.float32]

MAX_WORDS = 100_000

BLOCK = 2**22
"""Distances that exist at a time: 16 MiB."""

BLOCK_ON_GPU = 2**26
"""The same on a GPU, which needs larger blocks to be busy: 256 MiB."""


@dataclass(frozen=True, eq=False)
class Codebook:
    """The visual words."""

    centres_KD: Floats
    """(words, descriptor size)."""

    def __post_init__(self) -> None:
        # A contiguous copy that nobody else can change.
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
    def half_squares_K(self) -> Floats:
        """|c|² / 2 of each word."""
        half: Floats = 0.5 * np.square(self.centres_KD).sum(axis=1)
        return half

    def assign(self, values_SD: Floats, *, device: str = "cpu") -> NDArray[np.int32]:
        """Return the nearest word of each descriptor, (S,).

        Distances are rounded, and differently for other numbers of threads, on other devices and
        for a descriptor alone: one half-way between two words may be assigned to either.

        Parameters
        ----------
        device : where the products are computed, as torch names it; a GPU pays for the descriptors
            of many images at once.
        """
        check_shape("descriptors", values_SD.shape[1:], self.centres_KD.shape[1:])
        if not np.isfinite(values_SD).all():
            raise InvalidArgument("descriptors must be finite, got NaN or infinity.")
        words = DeviceCodebook(self, torch.device(device))
        words_S = np.empty(len(values_SD), np.int32)
        for start in range(0, len(values_SD), words.block_rows):
            rows = slice(start, start + words.block_rows)
            part = torch.from_numpy(np.array(values_SD[rows], np.float32))
            words_S[rows] = words.assign(part.to(device)).cpu()
        return words_S


class DeviceCodebook:
    """A codebook on the device of the descriptors."""

    def __init__(self, codebook: Codebook, device: torch.device):
        self.centres_KD = torch.from_numpy(codebook.centres_KD).to(device)
        self.half_squares_K = torch.from_numpy(codebook.half_squares_K).to(device)

    @property
    def block_rows(self) -> int:
        """Number of descriptors whose distances are computed together."""
        block = BLOCK if self.centres_KD.is_cpu else BLOCK_ON_GPU
        return max(block // len(self.centres_KD), 1)

    def assign(self, values_SD: Tensor) -> Tensor:
        """Return the nearest word of each descriptor, the first of equals, (S,) int64."""
        words_S = torch.empty(len(values_SD), dtype=torch.int64, device=values_SD.device)
        for start in range(0, len(values_SD), self.block_rows):
            rows = slice(start, start + self.block_rows)
            # |v - c|² = |v|² - 2 v · c + |c|², and |v|² is the same for all words.
            with full_float32(values_SD.device):
                scores = torch.addmm(
                    self.half_squares_K, values_SD[rows], self.centres_KD.T, alpha=-1
                )
            if scores.is_cpu:  # numpy takes a tenth of the time of torch.
                words_S[rows] = torch.from_numpy(scores.numpy().argmin(axis=1))
            else:
                torch.argmin(scores, dim=1, out=words_S[rows])
        return words_S


def fit_codebook(
    sample_ND: Floats,
    n_words: int,
    seed: int,
    *,
    max_rounds: int = 30,
    progress: ProgressCallback = no_progress,
) -> Codebook:
    """Learn visual words from a sample of descriptors.

    Descriptors of zero, which patches of one colour have, are ignored: they would take a word away
    from patches with a texture. Later they are assigned like all others.

    Parameters
    ----------
    sample_ND : (sample, descriptor size), with at least as many different rows as words.
    n_words : 2 to 100,000.
    max_rounds : maximum number of passes of k-means over the sample.
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
    return Codebook(find_centres(sample, n_words, seed, max_rounds=max_rounds, progress=progress))
