"""Results: `results.json`, one object a figure, and what lies behind it, photograph by photograph.

Figures are given twice: on the paper's full test part, and on its photographs outside the
development pool (`..._outside_pool`), on which alone claims rest.
"""

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import StorageError
from supdocnade.paper.answers import choose, questions_of
from supdocnade.paper.baselines import METHOD as SLDA
from supdocnade.paper.baselines import slda_key, yardstick_key
from supdocnade.paper.plans import ACCURACY, F_MEASURE, Variant, yardstick_grid
from supdocnade.paper.study import Study
from supdocnade.storage import load_arrays, save_arrays, write_atomically

RESULTS, ANSWERS, MADE = "results.json", "answers.safetensors", "made.json"
OUTSIDE = "_outside_pool"
"""Ends the name of a metric that leaves the photographs of the pool out."""

Floats = NDArray[np.float64]


class Series(NamedTuple):
    """A method on one data set: what a line of a table is about."""

    recipe: str
    method: str
    n_topics: int | None
    grid: str
    metric: str
    """ACCURACY or F_MEASURE."""
    tags: str | None = None
    """The set of tags that is annotated; None where classes are predicted."""
    chosen_for: str | None = None
    """What hyper-parameters were chosen for; None where there is no topic model."""


class Scored(NamedTuple):
    """How a method did on the test photographs of one split."""

    series: Series
    split: int
    score_T: Floats
    """(test photographs,) 1 or 0, or an F-measure; NaN where a photograph has no tags."""
    params: dict[str, Any]


def collect(study: Study) -> tuple[list[dict[str, Any]], list[Scored]]:
    """Return all figures and what lies behind them, from a study whose answers are complete."""
    scored = sorted(_scores(study), key=lambda each: (_order(each.series), each.split))
    rows = []
    for each in scored:
        outside = ~study.protocol.pool_B[study.protocol.parts(each.split).test]
        for metric, chosen in (
            (each.series.metric, np.ones_like(outside)),
            (each.series.metric + OUTSIDE, outside),
        ):
            values = each.score_T[chosen]
            values = values[np.isfinite(values)]
            if not len(values):
                continue
            rows.append(
                {
                    "dataset": study.photos.dataset,
                    "recipe": each.series.recipe,
                    "method": each.series.method,
                    "n_topics": each.series.n_topics,
                    "grid": each.series.grid,
                    "split": each.split,
                    "seed": each.split,
                    "metric": metric,
                    "value": round(float(values.mean()), 6),
                    "params": _params(each, len(values)),
                }
            )
    return rows, scored


def _params(each: Scored, n_images: int) -> dict[str, Any]:
    params = {"n_images": n_images, **each.params}
    if each.series.tags:
        params["tags"] = each.series.tags
    if each.series.chosen_for:
        params["chosen_for"] = each.series.chosen_for
    return params


def _order(series: Series) -> tuple[Any, ...]:
    return tuple("" if each is None else str(each).rjust(5) for each in series)


def _scores(study: Study) -> Iterator[Scored]:
    plan = study.plan
    for split in range(plan.n_splits):
        for variant in plan.variants:
            yield from _of_variant(study, variant, split)
        for name, recipe in plan.yardsticks:
            grid = yardstick_grid(name, plan.recipes[recipe].grid)
            series = Series(recipe, name, None, grid, ACCURACY)
            yield from _of_key(study, yardstick_key(name, recipe, split), series, split)
        for name, recipe, tags in plan.tag_yardsticks:
            series = Series(recipe, name, None, plan.recipes[recipe].grid, F_MEASURE, tags)
            yield from _of_key(study, yardstick_key(name, recipe, split, tags), series, split)
    for split in plan.slda_splits:
        for n_topics in plan.slda_topics:
            series = Series("paper", SLDA, n_topics, "2×2", ACCURACY)
            yield from _of_key(study, slda_key(split, n_topics), series, split)


def _of_variant(study: Study, variant: Variant, split: int) -> Iterator[Scored]:
    chosen = choose(study, variant, split)
    for question in questions_of(study, variant, split):
        series = Series(
            variant.recipe,
            variant.method,
            question.setting.n_topics,
            variant.grid,
            ACCURACY,
            variant.tags if variant.chosen_for == F_MEASURE else None,
            variant.chosen_for,
        )
        yield from _of_key(
            study, question.key(study), series, split, chosen.params(), tags=variant.tags
        )


def _of_key(
    study: Study,
    key: str,
    series: Series,
    split: int,
    params: dict[str, Any] | None = None,
    tags: str | None = None,
) -> Iterator[Scored]:
    """Yield the scores that an answer gives: of classes, of tags, or of both."""
    answer = study.answer(key)
    if answer is None:
        if series.method == SLDA:  # Where tomotopy is not installed there is none.
            return
        raise StorageError(f"{study.folder} lacks answers of {series.method}: run --stage others.")
    test = study.protocol.parts(split).test
    params = answer.get("params", {}) if params is None else {**params, "device": answer["device"]}
    if "predicted" in answer:
        right = np.array(answer["predicted"]) == study.label_B[test]
        yield Scored(series._replace(metric=ACCURACY), split, right.astype(np.float64), params)
    if "softmax" in answer and series.chosen_for == ACCURACY:
        right = np.array(answer["softmax"]) == study.label_B[test]
        named = series._replace(metric=ACCURACY, method=f"{series.method}, its own softmax")
        yield Scored(named, split, right.astype(np.float64), params)
    if "top_tags" in answer:
        which = tags or series.tags
        assert which is not None
        score = f_of_images(np.array(answer["top_tags"]), study, which, test)
        yield Scored(series._replace(metric=F_MEASURE, tags=which), split, score, params)


def f_of_images(
    top_TX: NDArray[np.int64], study: Study, tags: str, places: NDArray[np.int64]
) -> Floats:
    """Return the F-measure of every photograph, NaN where it has no tag."""
    true_TA = study.photos.annotations(tags).annotations[places].toarray() > 0
    n_true = true_TA.sum(axis=1)
    hits = np.take_along_axis(true_TA, top_TX, axis=1).sum(axis=1)
    return np.where(n_true > 0, 2 * hits / (top_TX.shape[1] + n_true), np.nan)


@dataclass(frozen=True, eq=False, kw_only=True)
class Kept:
    """What is kept of a study for its page."""

    dataset: str
    rows: list[dict[str, Any]]
    made: dict[str, Any]
    picture_B: NDArray[np.int64]
    pool_B: NDArray[np.bool_]
    test_SB: NDArray[np.bool_]
    scores: dict[Series, Floats]
    """(splits, photographs), NaN where not tested."""

    @property
    def n_train(self) -> int:
        """Photographs that were learned from in a split."""
        return int(self.made["n_train"])


def write_results(
    study: Study, rows: list[dict[str, Any]], scored: Sequence[Scored], made: dict[str, Any]
) -> None:
    """Write results, answers and what made them."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False, sort_keys=False) for row in rows)
    write_atomically(study.folder / RESULTS, f"[\n{lines}\n]\n".encode())
    packed = np.concatenate([each.score_T for each in scored]).astype("<f2").tobytes()
    parts = [study.protocol.parts(split) for split in range(study.plan.n_splits)]
    test_SB = np.zeros((len(parts), len(study.photos)), np.bool_)
    for split, each in enumerate(parts):
        test_SB[split, each.test] = True
    save_arrays(
        study.folder / ANSWERS,
        {
            "packed": np.frombuffer(zlib.compress(packed, 9), np.uint8),
            "picture": study.protocol.picture_B.astype(np.int32),
            "pool": study.protocol.pool_B,
            "test": test_SB,
        },
        {"answers": [[*each.series, each.split] for each in scored]},
    )
    made = {"dataset": study.photos.dataset, "n_train": len(parts[0].train), **made}
    text = json.dumps(made, indent=1, ensure_ascii=False)
    write_atomically(study.folder / MADE, text.encode() + b"\n")


def read_results(folder: Path) -> Kept:
    """Return what `write_results` wrote."""
    arrays, description = load_arrays(folder / ANSWERS)
    try:
        rows = json.loads((folder / RESULTS).read_text())
        made = json.loads((folder / MADE).read_text())
    except (OSError, ValueError) as error:
        raise StorageError(f"{folder} must hold results, they cannot be read: {error}.") from error
    flat = np.frombuffer(zlib.decompress(arrays["packed"].tobytes()), "<f2").astype(np.float64)
    scores: dict[Series, Floats] = {}
    test_SB, start = arrays["test"], 0
    for *series, split in description["answers"]:
        place = np.flatnonzero(test_SB[split])
        table = scores.setdefault(Series(*series), np.full(test_SB.shape, np.nan))
        table[split, place] = flat[start : start + len(place)]
        start += len(place)
    return Kept(
        dataset=made["dataset"],
        rows=rows,
        made=made,
        picture_B=arrays["picture"].astype(np.int64),
        pool_B=arrays["pool"],
        test_SB=test_SB,
        scores=scores,
    )
