"""Claims and targets, tested on the results, and the numbers that the paper reports.

A claim holds if both of its 95 % intervals lie above 0. The paired bootstrap draws photographs: it
keeps the training sets and varies the test photographs. The corrected resampled t interval measures
the spread between splits, and allows for their overlapping training sets. A target holds if the
mean over splits reaches it. Photographs of the development pool never count.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from experiments.paper.plans import (
    ACCURACY,
    ALL_WORDS,
    BASELINES,
    DOC,
    F_MEASURE,
    NO_WORDS,
    SUP,
    TAG_BASELINES,
    TAGGING_BASELINES,
    TITLES,
    TOPIC_BASELINES,
    baseline_grid,
)
from experiments.paper.results import Results, Series
from supdocnade.errors import InvalidArgument
from supdocnade.seeding import named_generator

Floats = NDArray[np.float64]

HOLDS, OPEN, REVERSED = "holds", "not shown", "the reverse holds"

DRAWS = 10_000
LEVEL = 0.95
_BLOCK = 500


class Interval(NamedTuple):
    """A mean with its interval."""

    mean: float
    low: float
    high: float


class Comparison(NamedTuple):
    """The difference between two methods."""

    differences: tuple[float, ...]
    """One per split."""
    bootstrap: Interval
    corrected_t: Interval | None
    """None if there is only one split."""

    @property
    def verdict(self) -> str:
        """HOLDS, OPEN or REVERSED."""
        intervals = [each for each in (self.bootstrap, self.corrected_t) if each is not None]
        if min(each.low for each in intervals) > 0:
            return HOLDS
        return REVERSED if max(each.high for each in intervals) < 0 else OPEN


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
    first_SB, second_SB : (splits, photographs) scores of the test photographs; NaN where a
        photograph is not in the test part of a split.
    unit_B : (photographs,) equal for near-duplicates, which are drawn together.
    n_train : number of training photographs in every split.
    """
    difference_SB = first_SB - second_SB
    tested = np.isfinite(difference_SB)
    if not tested.any(axis=1).all():
        raise InvalidArgument("every split must have photographs with scores of both methods.")
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

    A draw takes as many units as there are, with replacement; a unit in several test parts is drawn
    for all of them at once.
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
    count_XU = _draw_units(len(sums_US), draws, seed)
    both_US, means = np.hstack([sums_US, counts_US]), []
    for start in range(0, draws, _BLOCK):
        drawn_XS = count_XU[start : start + _BLOCK].astype(np.float64) @ both_US
        sums_XS, counts_XS = np.hsplit(drawn_XS, 2)
        with np.errstate(invalid="ignore"):  # A draw may miss all of a small test part.
            means.append(np.nanmean(sums_XS / counts_XS, axis=1))
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(np.concatenate(means), [tail, 100 - tail])
    mean = float((sums_US.sum(axis=0) / counts_US.sum(axis=0)).mean())
    return Interval(mean, float(low), float(high))


@lru_cache(maxsize=2)
def _draw_units(n_units: int, draws: int, seed: int) -> NDArray[np.uint16]:
    """Return the count of every unit in every draw, shared by comparisons of as many units."""
    generator = named_generator(seed, "bootstrap")
    share = np.full(n_units, 1 / n_units)
    count_XU = np.empty((draws, n_units), np.uint16)
    for start in range(0, draws, _BLOCK):
        size = min(_BLOCK, draws - start)
        count_XU[start : start + size] = generator.multinomial(n_units, share, size=size)
    return count_XU


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


def max_topics(results: Results) -> int:
    """Return the largest number of topics with the recipe of the paper."""
    return max(s.n_topics or 0 for s in results.scores if (s.recipe, s.method) == ("paper", SUP))


def split_means(results: Results, series: Series, *, full: bool = False) -> Floats:
    """Return the mean score of every split, outside the pool or on the full test part."""
    table_SB = results.scores[series] if full else _outside_pool(results, series)
    tested = np.isfinite(table_SB).any(axis=1)
    means: Floats = np.nanmean(table_SB[tested], axis=1)
    return means


def _outside_pool(results: Results, series: Series) -> Floats:
    return np.where(results.pool_B[None], np.nan, results.scores[series])


def find_targets(results: Results) -> list[tuple[str, float, float, float]]:
    """Return the targets of a data set, for a full run.

    A target is its name, its value, and the means that were reached outside the pool and on the
    full test part.
    """
    top = max_topics(results)
    accuracy = {"metric": ACCURACY, "chosen_for": ACCURACY}
    targets = {
        "scene15": [
            ("45-topic configuration", Series("wan", SUP, 45, "1×1", **accuracy), 0.7336),
            ("as in the paper", Series("paper", SUP, top, "2×2", **accuracy), 0.80),
            (TITLES["shrunk"], Series("shrunk", SUP, top, "2×2", **accuracy), 0.80),
            ("ours", _ours(results, ACCURACY), 0.84),
        ],
        "labelme": [
            ("as in the paper", Series("paper", SUP, top, "2×2", **accuracy), 0.86),
            (TITLES["shrunk"], Series("shrunk", SUP, top, "2×2", **accuracy), 0.86),
            ("ours", _ours(results, ACCURACY), 0.89),
            ("ours, F-measure on tags_free", _ours(results, F_MEASURE, "tags_free"), 0.58),
        ],
    }.get(results.dataset, [])
    return [
        (
            text,
            value,
            float(split_means(results, series).mean()),
            float(split_means(results, series, full=True).mean()),
        )
        for text, series, value in targets
        if series in results.scores
    ]


def _ours(results: Results, metric: str, tags: str | None = None) -> Series:
    """Return the series of our recipe whose hyper-parameters were chosen for the metric."""
    return next(
        (
            series
            for series in results.scores
            if (series.recipe, series.method) == ("ours", SUP)
            and (series.metric, series.chosen_for, series.tags) == (metric, metric, tags)
        ),
        Series("ours", SUP, None, "", metric, tags, metric),  # There is none.
    )


def find_claims(results: Results) -> list[tuple[str, Comparison]]:
    """Return the claims of a data set, each with its comparison."""
    return [
        (
            text,
            compare(
                _outside_pool(results, first),
                _outside_pool(results, second),
                results.picture_B,
                int(results.provenance["n_train"]),
            ),
        )
        for text, first, second in _pairs(results)
        if first in results.scores and second in results.scores
    ]


def _pairs(results: Results) -> Iterator[tuple[str, Series, Series]]:
    """Yield the claims: a text, the method that should be better, and the other one."""
    top = max_topics(results)
    main = Series("paper", SUP, top, "2×2", ACCURACY, None, ACCURACY)
    same = [s.n_topics for s in results.scores if s._replace(n_topics=top) == main]
    for topics in sorted(n for n in same if n is not None):
        both = main._replace(n_topics=topics)
        for name in (DOC, *TOPIC_BASELINES):
            yield f"SupDocNADE above {name}, {topics} topics", both, both._replace(method=name)
    yield f"tuned λ above λ = 0, {top} topics", main, main._replace(method=NO_WORDS)
    yield f"tuned λ above λ = 1, {top} topics", main, main._replace(method=ALL_WORDS)
    yield f"2×2 above 1×1, {top} topics", main, main._replace(grid="1×1")
    yield f"pyramid above 2×2, {top} topics", main._replace(grid="pyramid"), main
    wan = Series("wan", SUP, 45, "1×1", ACCURACY, None, ACCURACY)
    yield "SupDocNADE above DocNADE, 45-topic configuration", wan, wan._replace(method=DOC)
    ours = _ours(results, ACCURACY)
    yield "ours above the recipe of the paper", ours, main
    yield "ours: SupDocNADE above DocNADE", ours, ours._replace(method=DOC)
    shrunk = main._replace(recipe="shrunk")
    for recipe, series in (
        ("as in the paper", main),
        ("with shortened patches", shrunk),
        ("ours", ours),
    ):
        for name in BASELINES:
            grid = baseline_grid(name, series.grid)
            other = Series(series.recipe, name, None, grid, ACCURACY)
            yield f"{recipe}: SupDocNADE above {name}", series, other
    for tags in sorted({s.tags for s in results.scores if s.tags and s.chosen_for == F_MEASURE}):
        ours = _ours(results, F_MEASURE, tags)
        paper = Series("paper", SUP, top, "2×2", F_MEASURE, tags, F_MEASURE)
        for recipe, series in (("as in the paper", paper), ("ours", ours)):
            text = f"{recipe}, {tags}: SupDocNADE above"
            for name in (DOC, *TAGGING_BASELINES):
                yield f"{text} {name}", series, series._replace(method=name)
            for name in TAG_BASELINES:
                other = Series(series.recipe, name, None, series.grid, F_MEASURE, tags)
                yield f"{text} {name}", series, other


# Zheng, Zhang, Larochelle, "A Supervised Neural Autoregressive Topic Model for Simultaneous Image
# Classification and Annotation". Its curves have no numbers in the text, and are not read off here.

CLASSIFICATION = "section “Image Classification”, last paragraph"
ANNOTATION = "section “Simultaneous Classification and Annotation”, paragraph on annotation"
MMLDA = "section “Simultaneous Classification and Annotation”, paragraph on MMLDA"

PAPER = "the paper"
WAN = "Wan et al., as the paper cites them"
WANG_BLEI = "Wang, Blei and Fei-Fei 2009, as the paper cites them"
WANG_MORI = "Wang and Mori 2011, as the paper cites them"

REPORTED = {
    "scene15": (
        ("SupDocNADE, 45-topic configuration", ACCURACY, 73.36, PAPER, CLASSIFICATION),
        ("hybrid topic/neural network model, 45-topic configuration", ACCURACY, 70.1, WAN,
         CLASSIFICATION),
    ),
    "labelme": (
        ("SupDocNADE, 200 topics", F_MEASURE, 43.87, PAPER, ANNOTATION),
        ("DocNADE, 200 topics", F_MEASURE, 43.32, PAPER, ANNOTATION),
        ("sLDA", F_MEASURE, 38.7, WANG_BLEI, ANNOTATION),
        ("MMLDA", F_MEASURE, 46.64, WANG_MORI, MMLDA),
        ("MMLDA", ACCURACY, 81.47, WANG_MORI, MMLDA),
    ),
    "uiuc": (
        ("SupDocNADE, 200 topics", F_MEASURE, 46.95, PAPER, ANNOTATION),
        ("DocNADE, 200 topics", F_MEASURE, 46.38, PAPER, ANNOTATION),
        ("sLDA", F_MEASURE, 35.0, WANG_BLEI, ANNOTATION),
        ("MMLDA", F_MEASURE, 44.51, WANG_MORI, MMLDA),
        ("MMLDA", ACCURACY, 74.65, WANG_MORI, MMLDA),
    ),
}  # fmt: skip
"""Numbers in the paper's text: method, metric, value in per cent, by whom, and where."""
