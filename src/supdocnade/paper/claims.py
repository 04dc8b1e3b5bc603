"""What should be true, and whether it is: statements computed from the results.

A comparison holds if both of its 95 % intervals, over photographs and over splits, lie above 0. A
target holds if the mean over splits reaches it. Photographs of the development pool never count.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supdocnade.paper.plans import (
    ACCURACY,
    ALL_WORDS,
    DOC,
    F_MEASURE,
    NO_WORDS,
    SUP,
    TAG_YARDSTICKS,
    TITLES,
    YARDSTICKS,
    yardstick_grid,
)
from supdocnade.paper.results import Kept, Series
from supdocnade.paper.statistics import Comparison, compare

Floats = NDArray[np.float64]

HOLDS, OPEN, REVERSED = "holds", "not shown", "the reverse holds"


class Target(NamedTuple):
    """A figure that a method should reach."""

    text: str
    series: Series
    value: float
    reached: float
    """The mean over splits, outside the pool."""
    full: float
    """The same on the paper's full test part."""

    @property
    def holds(self) -> bool:
        """Whether it is reached."""
        return self.reached >= self.value


class Claim(NamedTuple):
    """One method that should do better than another."""

    text: str
    metric: str
    comparison: Comparison

    @property
    def verdict(self) -> str:
        """HOLDS, OPEN or REVERSED."""
        if self.comparison.is_above:
            return HOLDS
        return REVERSED if self.comparison.is_below else OPEN


def most_topics(kept: Kept, recipe: str = "paper") -> int:
    """Return the largest number of topics that was tried with a recipe."""
    return max(s.n_topics or 0 for s in kept.scores if s.recipe == recipe and s.method == SUP)


def outside(kept: Kept, series: Series) -> Floats:
    """Return the scores of a method without the photographs of the pool."""
    return np.where(kept.pool_B[None], np.nan, kept.scores[series])


def split_means(table_SB: Floats) -> Floats:
    """Return the mean of every split that has been tested."""
    tested = np.isfinite(table_SB).any(axis=1)
    means: Floats = np.nanmean(table_SB[tested], axis=1)
    return means


def targets(kept: Kept) -> list[Target]:
    """Return the targets of a data set that was run in full."""
    top = most_topics(kept)
    tags = {"labelme": "tags_free"}.get(kept.dataset)
    accuracy = {"metric": ACCURACY, "chosen_for": ACCURACY}
    wanted = {
        "scene15": [
            ("45-topic configuration", Series("wan", SUP, 45, "1×1", **accuracy), 0.7336),
            ("as in the paper", Series("paper", SUP, top, "2×2", **accuracy), 0.80),
            (TITLES["shrunk"], Series("shrunk", SUP, top, "2×2", **accuracy), 0.80),
            ("ours", _ours(kept, ACCURACY), 0.84),
        ],
        "labelme": [
            ("as in the paper", Series("paper", SUP, top, "2×2", **accuracy), 0.86),
            (TITLES["shrunk"], Series("shrunk", SUP, top, "2×2", **accuracy), 0.86),
            ("ours", _ours(kept, ACCURACY), 0.89),
            ("ours, F-measure on tags_free", _ours(kept, F_MEASURE, tags), 0.58),
        ],
    }.get(kept.dataset, [])
    return [
        Target(
            text,
            series,
            value,
            float(split_means(outside(kept, series)).mean()),
            float(split_means(kept.scores[series]).mean()),
        )
        for text, series, value in wanted
        if series in kept.scores
    ]


def _ours(kept: Kept, metric: str, tags: str | None = None) -> Series:
    """Return the series of our recipe that was chosen for what is measured."""
    return next(
        (
            series
            for series in kept.scores
            if (series.recipe, series.method) == ("ours", SUP)
            and (series.metric, series.chosen_for, series.tags) == (metric, metric, tags)
        ),
        Series("ours", SUP, None, "", metric, tags, metric),  # It was not measured.
    )


def claims(kept: Kept) -> list[Claim]:
    """Return the comparisons of a data set."""
    found = []
    for text, first, second in _pairs(kept):
        if first in kept.scores and second in kept.scores:
            result = compare(
                outside(kept, first), outside(kept, second), kept.picture_B, kept.n_train
            )
            found.append(Claim(text, first.metric, result))
    return found


def _pairs(kept: Kept) -> Iterator[tuple[str, Series, Series]]:
    top = most_topics(kept)
    main = Series("paper", SUP, top, "2×2", ACCURACY, None, ACCURACY)
    same = [s.n_topics for s in kept.scores if s._replace(n_topics=top) == main]
    for topics in sorted(n for n in same if n is not None):
        both = main._replace(n_topics=topics)
        yield f"SupDocNADE above DocNADE, {topics} topics", both, both._replace(method=DOC)
    yield f"tuned λ above λ = 0, {top} topics", main, main._replace(method=NO_WORDS)
    yield f"tuned λ above λ = 1, {top} topics", main, main._replace(method=ALL_WORDS)
    yield f"2×2 above 1×1, {top} topics", main, main._replace(grid="1×1")
    yield f"pyramid above 2×2, {top} topics", main._replace(grid="pyramid"), main
    wan = Series("wan", SUP, 45, "1×1", ACCURACY, None, ACCURACY)
    yield "SupDocNADE above DocNADE, 45-topic configuration", wan, wan._replace(method=DOC)
    ours = _ours(kept, ACCURACY)
    yield "ours above the recipe of the paper", ours, main
    yield "ours: SupDocNADE above DocNADE", ours, ours._replace(method=DOC)
    shrunk = main._replace(recipe="shrunk")
    for recipe, series in (
        ("as in the paper", main),
        ("with shortened patches", shrunk),
        ("ours", ours),
    ):
        for name in YARDSTICKS:
            grid = yardstick_grid(name, series.grid)
            other = Series(series.recipe, name, None, grid, ACCURACY)
            yield f"{recipe}: SupDocNADE above {name}", series, other
    for tags in sorted({s.tags for s in kept.scores if s.tags and s.chosen_for == F_MEASURE}):
        ours = _ours(kept, F_MEASURE, tags)
        paper = Series("paper", SUP, top, "2×2", F_MEASURE, tags, F_MEASURE)
        for recipe, series in (("as in the paper", paper), ("ours", ours)):
            text = f"{recipe}, {tags}: SupDocNADE above"
            yield f"{text} DocNADE", series, series._replace(method=DOC)
            for name in TAG_YARDSTICKS:
                other = Series(series.recipe, name, None, series.grid, F_MEASURE, tags)
                yield f"{text} {name}", series, other


# What the paper reports as numbers, and where in its text they stand.
#
# Zheng, Zhang, Larochelle, "A Supervised Neural Autoregressive Topic Model for Simultaneous Image
# Classification and Annotation". Its curves (figures on Scene15, LabelMe and UIUC-Sports) have no
# numbers in the text, and are not read off here.

CLASSIFICATION = "section “Image Classification”, last paragraph"
ANNOTATION = "section “Simultaneous Classification and Annotation”, paragraph on annotation"
MMLDA = "section “Simultaneous Classification and Annotation”, paragraph on MMLDA"


class Reported(NamedTuple):
    """A figure in the paper's text."""

    dataset: str
    method: str
    metric: str
    value: float
    """In per cent."""
    where: str
    whose: str = "the paper"


REPORTED = (
    Reported("scene15", "SupDocNADE, 45-topic configuration", "accuracy", 73.36, CLASSIFICATION),
    Reported(
        "scene15",
        "hybrid topic/neural network model, 45-topic configuration",
        "accuracy",
        70.1,
        CLASSIFICATION,
        "Wan et al., as the paper cites them",
    ),
    Reported("labelme", "SupDocNADE, 200 topics", "f_measure", 43.87, ANNOTATION),
    Reported("labelme", "DocNADE, 200 topics", "f_measure", 43.32, ANNOTATION),
    Reported(
        "labelme",
        "sLDA",
        "f_measure",
        38.7,
        ANNOTATION,
        "Wang, Blei and Fei-Fei 2009, as the paper cites them",
    ),
    Reported(
        "labelme", "MMLDA", "f_measure", 46.64, MMLDA, "Wang and Mori 2011, as the paper cites them"
    ),
    Reported(
        "labelme", "MMLDA", "accuracy", 81.47, MMLDA, "Wang and Mori 2011, as the paper cites them"
    ),
    Reported("uiuc", "SupDocNADE, 200 topics", "f_measure", 46.95, ANNOTATION),
    Reported("uiuc", "DocNADE, 200 topics", "f_measure", 46.38, ANNOTATION),
    Reported(
        "uiuc",
        "sLDA",
        "f_measure",
        35.0,
        ANNOTATION,
        "Wang, Blei and Fei-Fei 2009, as the paper cites them",
    ),
    Reported(
        "uiuc", "MMLDA", "f_measure", 44.51, MMLDA, "Wang and Mori 2011, as the paper cites them"
    ),
    Reported(
        "uiuc", "MMLDA", "accuracy", 74.65, MMLDA, "Wang and Mori 2011, as the paper cites them"
    ),
)
