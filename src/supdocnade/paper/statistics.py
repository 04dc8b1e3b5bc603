"""Whether a difference is more than luck: photographs and splits drawn again.

Two intervals, since neither says everything. The paired bootstrap draws photographs: it keeps the
training sets and asks which photographs happened to be tested. The corrected resampled t interval
looks at the spread between splits, and allows for their training sets being nearly the same.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from supdocnade.errors import InvalidArgument
from supdocnade.seeding import named_generator

Floats = NDArray[np.float64]

DRAWS = 10_000
LEVEL = 0.95
_BLOCK = 500


class Interval(NamedTuple):
    """A mean with the ends of an interval around it."""

    mean: float
    low: float
    high: float


class Comparison(NamedTuple):
    """How much better one method is than another."""

    differences: tuple[float, ...]
    """Of every split."""
    bootstrap: Interval
    corrected_t: Interval | None
    """None: there is one split alone."""

    @property
    def is_above(self) -> bool:
        """Whether both intervals lie above 0."""
        low = [self.bootstrap.low, *([self.corrected_t.low] if self.corrected_t else [])]
        return min(low) > 0

    @property
    def is_below(self) -> bool:
        """Whether both intervals lie below 0."""
        high = [self.bootstrap.high, *([self.corrected_t.high] if self.corrected_t else [])]
        return max(high) < 0


def compare(
    first_SB: Floats,
    second_SB: Floats,
    unit_B: NDArray[np.integer],
    n_train: int,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Comparison:
    """Compare two methods on the same photographs.

    Parameters
    ----------
    first_SB, second_SB : (splits, photographs) how well each did on every test photograph; NaN
        where a photograph is not in the test part of a split.
    unit_B : (photographs,) equal where photographs are drawn together, being copies of a picture.
    n_train : photographs that were learned from in every split.
    """
    difference_SB = first_SB - second_SB
    tested = np.isfinite(difference_SB)
    if not tested.any(axis=1).all():
        raise InvalidArgument("every split must have photographs that both methods answered.")
    per_split = np.nanmean(difference_SB, axis=1)
    n_test = float(tested.sum(axis=1).mean())
    return Comparison(
        tuple(per_split.tolist()),
        paired_bootstrap(difference_SB, unit_B, draws=draws, seed=seed),
        corrected_t_interval(per_split, n_train, n_test) if len(per_split) > 1 else None,
    )


def paired_bootstrap(
    difference_SB: Floats, unit_B: NDArray[np.integer], *, draws: int = DRAWS, seed: int = 0
) -> Interval:
    """Return the mean over splits of the mean difference, with percentiles over drawn photographs.

    A photograph in several test parts is drawn for all of them at once. A draw takes as many units
    as there are, with repetition.
    """
    tested_SB = np.isfinite(difference_SB)
    _, number_B = np.unique(unit_B, return_inverse=True)
    n_units = int(number_B.max()) + 1
    sums_US, counts_US = (
        np.stack([np.bincount(number_B, row, n_units) for row in table], axis=1)
        for table in (np.where(tested_SB, difference_SB, 0.0), tested_SB.astype(np.float64))
    )
    used = counts_US.any(axis=1)
    sums_US, counts_US = sums_US[used], counts_US[used]
    times_XU = _times_drawn(len(sums_US), draws, seed)
    means = []
    for start in range(0, draws, _BLOCK):
        times = times_XU[start : start + _BLOCK].astype(np.float64)
        with np.errstate(invalid="ignore"):  # A draw may miss all of a small test part.
            means.append(np.nanmean((times @ sums_US) / (times @ counts_US), axis=1))
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(np.concatenate(means), [tail, 100 - tail])
    mean = float((sums_US.sum(axis=0) / counts_US.sum(axis=0)).mean())
    return Interval(mean, float(low), float(high))


@lru_cache(maxsize=2)
def _times_drawn(n_units: int, draws: int, seed: int) -> NDArray[np.uint16]:
    """Return how often every unit is in every draw; comparisons of as many units share it."""
    generator = named_generator(seed, "bootstrap")
    share = np.full(n_units, 1 / n_units)
    times_XU = np.empty((draws, n_units), np.uint16)
    for start in range(0, draws, _BLOCK):
        size = min(_BLOCK, draws - start)
        times_XU[start : start + size] = generator.multinomial(n_units, share, size=size)
    return times_XU


def corrected_t_interval(per_split: Floats, n_train: float, n_test: float) -> Interval:
    """Return the interval of Nadeau and Bengio (2003) for J random splits.

    Training sets overlap, so the variance of the mean is (1/J + n_test/n_train) s², not s²/J.
    """
    n_splits = len(per_split)
    if n_splits < 2:
        raise InvalidArgument(f"per_split must have at least two splits, got {n_splits}.")
    mean, spread = float(np.mean(per_split)), float(np.std(per_split, ddof=1))
    half = (
        float(stats.t.ppf(0.5 + LEVEL / 2, n_splits - 1))
        * spread
        * float(np.sqrt(1 / n_splits + n_test / n_train))
    )
    return Interval(mean, mean - half, mean + half)
