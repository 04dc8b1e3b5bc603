"""Results of a study: metrics, the scores of every photograph, provenance and examples.

Metrics are given twice: on the paper's full test part, and on its photographs outside the
development pool (`..._outside_pool`), on which alone claims rest. Texts may be published; pictures
of visual words are made of the photographs and stay in the folder of the study.
"""

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.paper.baselines import baseline_key
from experiments.paper.data_sets import data_set
from experiments.paper.patches import draw_words, load_patches
from experiments.paper.plans import ACCURACY, F_MEASURE, SUP, Variant, baseline_grid
from experiments.paper.study import MissingPrediction, Study
from experiments.paper.topic_models import final_evaluations
from supdocnade.errors import StorageError
from supdocnade.metrics import set_f_measure
from supdocnade.schema import load_arrays, save_arrays
from supdocnade.storage import write_atomically

RESULTS, PREDICTIONS = "results.json", "predictions.safetensors"
PROVENANCE, QUALITATIVE = "provenance.json", "qualitative.json"

OUTSIDE = "_outside_pool"
"""Suffix of a metric that ignores the photographs of the pool."""

OWN_SOFTMAX = ", its own softmax"
"""Suffix of a method whose class is that of its softmax, not of an SVM."""

PATCHES = "patches.safetensors"
"""Patches of the visual words of the first split."""

N_EXAMPLES = 4
"""Correctly classified photographs among the examples, and as many others."""

Floats = NDArray[np.float64]


class Series(NamedTuple):
    """A method with a metric: one line of a table."""

    recipe: str
    method: str
    n_topics: int | None
    grid: str
    metric: str
    """ACCURACY or F_MEASURE."""
    tags: str | None = None
    """The tag set that is predicted; None where classes are."""
    chosen_for: str | None = None
    """Metric for which hyper-parameters were chosen; None for a baseline."""


Scores = tuple[Series, int, Floats, dict[str, Any]]
"""A series, a split, the scores of the test photographs and the hyper-parameters.

A score is 1 or 0, or an F-measure; NaN where a photograph has no tags."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Results:
    """Results of a study as they are stored."""

    rows: list[dict[str, Any]]
    provenance: dict[str, Any]
    picture_B: NDArray[np.int64]
    pool_B: NDArray[np.bool_]
    test_SB: NDArray[np.bool_]
    scores: dict[Series, Floats]
    """(splits, photographs), NaN where not tested."""

    @property
    def dataset(self) -> str:
        """The name of the data set."""
        return str(self.provenance["dataset"])


def collect_results(study: Study) -> tuple[list[dict[str, Any]], list[Scores], list[str]]:
    """Return all metrics, the scores behind them, and the methods that were added later.

    A method whose predictions are not in the folder keeps the results that the folder holds: models
    may have been trained on another machine, and only their results are kept for long. The other
    methods were then added later.
    """
    found, missing = [], None
    for source in _sources(study):
        try:
            found += list(source)
        except MissingPrediction as error:
            missing = missing or error
    rows = {each[:2]: _rows(study, *each) for each in found}
    added: list[str] = []
    if missing is not None:
        if not (study.folder / RESULTS).is_file():
            raise missing
        added = sorted({series.method for series, *_ in found})
        for scores, stored in _stored_results(study):
            if scores[:2] not in rows:
                found.append(scores)
                rows[scores[:2]] = stored
    found.sort(key=lambda each: (_order(each[0]), each[1]))
    return [row for each in found for row in rows[each[:2]]], found, added


def _rows(
    study: Study, series: Series, split: int, score_T: Floats, params: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the metrics of a series in one split: on the full test part, and outside the pool."""
    rows = []
    outside = ~study.protocol.pool_B[study.protocol.parts(split).test]
    for metric, chosen in (
        (series.metric, np.ones_like(outside)),
        (series.metric + OUTSIDE, outside),
    ):
        values = score_T[chosen]
        values = values[np.isfinite(values)]
        if not len(values):
            continue
        more = {"tags": series.tags, "chosen_for": series.chosen_for}
        rows.append(
            {
                "dataset": study.photos.dataset,
                "recipe": series.recipe,
                "method": series.method,
                "n_topics": series.n_topics,
                "grid": series.grid,
                "split": split,
                "seed": split,
                "metric": metric,
                "value": round(float(values.mean()), 6),
                "params": {
                    "n_images": len(values),
                    **params,
                    **{name: value for name, value in more.items() if value},
                },
            }
        )
    return rows


def _stored_results(study: Study) -> Iterator[tuple[Scores, list[dict[str, Any]]]]:
    """Yield the scores that the folder holds, each with its rows, of methods in the plan."""
    results, plan = read_results(study.folder), study.plan
    methods = {each.method for each in (*plan.variants, *plan.others)}
    methods |= {name for name, *_ in (*plan.baselines, *plan.tag_baselines)}
    rows: dict[tuple[Series, int], list[dict[str, Any]]] = {}
    for row in results.rows:
        series = Series(
            row["recipe"],
            row["method"],
            row["n_topics"],
            row["grid"],
            row["metric"].removesuffix(OUTSIDE),
            row["params"].get("tags"),
            row["params"].get("chosen_for"),
        )
        rows.setdefault((series, row["split"]), []).append(row)
    for (series, split), stored in rows.items():
        if series.method.removesuffix(OWN_SOFTMAX) not in methods:
            continue
        test = study.protocol.parts(split).test
        if not np.array_equal(np.flatnonzero(results.test_SB[split]), test):
            raise StorageError(f"{study.folder} must hold results of the same splits.")
        yield (series, split, results.scores[series][split, test], {}), stored


def _order(series: Series) -> tuple[Any, ...]:
    return tuple("" if each is None else str(each).rjust(5) for each in series)


def _sources(study: Study) -> Iterator[Iterator[Scores]]:
    """Yield the scores of every method and split."""
    plan = study.plan
    for split in range(plan.n_splits):
        for variant in (*plan.variants, *plan.others):
            yield _variant_scores(study, variant, split)
        for name, recipe in plan.baselines:
            grid = baseline_grid(name, plan.recipes[recipe].grid)
            series = Series(recipe, name, None, grid, ACCURACY)
            yield _scores(study, baseline_key(name, recipe, split), series, split)
        for name, recipe, tags in plan.tag_baselines:
            series = Series(recipe, name, None, plan.recipes[recipe].grid, F_MEASURE, tags)
            yield _scores(study, baseline_key(name, recipe, split, tags), series, split)


def _variant_scores(study: Study, variant: Variant, split: int) -> Iterator[Scores]:
    for evaluation in final_evaluations(study, variant, split):
        series = Series(
            variant.recipe,
            variant.method,
            evaluation.setting.n_topics,
            variant.grid,
            ACCURACY,
            variant.tags if variant.chosen_for == F_MEASURE else None,
            variant.chosen_for,
        )
        params = evaluation.params()
        yield from _scores(study, evaluation.key(study), series, split, params, variant.tags)


def _scores(
    study: Study,
    key: str,
    series: Series,
    split: int,
    params: dict[str, Any] | None = None,
    tags: str | None = None,
) -> Iterator[Scores]:
    """Yield the scores of a prediction: of classes, of tags, or of both."""
    prediction = study.prediction(key)
    if prediction is None:
        raise MissingPrediction(study.folder, series.method)
    test = study.protocol.parts(split).test
    if params is None:
        params = prediction.get("params", {})
    else:
        params = {**params, "device": prediction["device"]}
    by_class = series._replace(metric=ACCURACY)
    if "predicted" in prediction:
        correct = np.array(prediction["predicted"]) == study.label_B[test]
        yield by_class, split, correct.astype(np.float64), params
    if "softmax" in prediction and series.chosen_for == ACCURACY:
        correct = np.array(prediction["softmax"]) == study.label_B[test]
        by_softmax = by_class._replace(method=f"{series.method}{OWN_SOFTMAX}")
        yield by_softmax, split, correct.astype(np.float64), params
    if "top_tags" in prediction:
        tag_set = tags or series.tags
        assert tag_set is not None
        score_T = f_measures(np.array(prediction["top_tags"]), study, tag_set, test)
        yield series._replace(metric=F_MEASURE, tags=tag_set), split, score_T, params


def f_measures(
    top_TX: NDArray[np.int64], study: Study, tag_set: str, indices: NDArray[np.int64]
) -> Floats:
    """Return the F-measure of every photograph, NaN where it has no tag."""
    true_TA = study.photos.tag_counts(tag_set)[0][indices].toarray() > 0
    chosen_TA = np.zeros_like(true_TA)
    np.put_along_axis(chosen_TA, top_TX, True, axis=1)
    return np.where(true_TA.any(axis=1), set_f_measure(chosen_TA, true_TA), np.nan)


def write_results(study: Study, provenance: dict[str, Any]) -> None:
    """Write metrics, scores, provenance and, for a data set with tags, examples."""
    rows, scores, added = collect_results(study)
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    write_atomically(study.folder / RESULTS, f"[\n{lines}\n]\n".encode())
    packed = np.concatenate([score_T for _, _, score_T, _ in scores]).astype("<f2").tobytes()
    parts = [study.protocol.parts(split) for split in range(study.plan.n_splits)]
    test_SB = np.zeros((len(parts), len(study.photos)), np.bool_)
    for split, each in enumerate(parts):
        test_SB[split, each.test] = True
    save_arrays(
        study.folder / PREDICTIONS,
        {
            "packed": np.frombuffer(zlib.compress(packed, 9), np.uint8),
            "picture": study.protocol.picture_B.astype(np.int32),
            "pool": study.protocol.pool_B,
            "test": test_SB,
        },
        {"answers": [[*series, split] for series, split, _, _ in scores]},
    )
    first = {"dataset": study.photos.dataset, "n_train": len(parts[0].train)}
    last = {"added": added} if added else {}
    _write_json(study.folder / PROVENANCE, first | provenance | last)
    _write_qualitative(study)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    write_atomically(path, json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n")


def read_results(folder: Path) -> Results:
    """Return what `write_results` wrote."""
    arrays, description = load_arrays(folder / PREDICTIONS)
    try:
        rows = json.loads((folder / RESULTS).read_text())
        provenance = json.loads((folder / PROVENANCE).read_text())
    except (OSError, ValueError) as error:
        raise StorageError(f"{folder} must hold results, they cannot be read: {error}.") from error
    flat = np.frombuffer(zlib.decompress(arrays["packed"].tobytes()), "<f2").astype(np.float64)
    scores: dict[Series, Floats] = {}
    test_SB, start = arrays["test"], 0
    for *series, split in description["answers"]:
        test = np.flatnonzero(test_SB[split])
        table = scores.setdefault(Series(*series), np.full(test_SB.shape, np.nan))
        table[split, test] = flat[start : start + len(test)]
        start += len(test)
    return Results(
        rows=rows,
        provenance=provenance,
        picture_B=arrays["picture"].astype(np.int64),
        pool_B=arrays["pool"],
        test_SB=test_SB,
        scores=scores,
    )


def _write_qualitative(study: Study) -> None:
    """Write the words of classes and some predictions (experiment 5) of a data set with tags."""
    variants = [
        each
        for each in study.plan.variants
        if (each.method, each.recipe, each.chosen_for) == (SUP, "paper", F_MEASURE)
    ]
    if not variants:
        return
    tags = variants[0].tags
    assert tags is not None
    try:
        prediction = study.prediction(final_evaluations(study, variants[0], 0)[-1].key(study))
    except MissingPrediction:
        return  # What the folder holds stays.
    assert prediction is not None, "predictions are complete"
    classes = {
        label: prediction["classes"][label]
        for label in data_set(study.photos.dataset).example_classes
        if label in prediction["classes"]
    }
    examples = _choose_examples(study, prediction, tags)
    content = {"tags": tags, "classes": classes, "examples": examples}
    _write_json(study.folder / QUALITATIVE, content)
    if (study.folder / PATCHES).is_file():
        pixels = load_patches(study.folder / PATCHES)
        for label, found in classes.items():
            draw_words(study.folder / "pictures" / f"{label}.png", pixels, found["words"])


def _choose_examples(
    study: Study, prediction: dict[str, Any], tag_set: str
) -> list[dict[str, Any]]:
    """Return some test photographs with their predictions: correct ones, then wrong ones."""
    test, photos = study.protocol.parts(0).test, study.photos
    predicted, (tags, names) = np.array(prediction["predicted"]), photos.tag_counts(tag_set)
    correct = predicted == study.label_B[test]
    # Evenly spaced among photographs in the order of their classes.
    chosen = [
        index
        for each in (np.flatnonzero(correct), np.flatnonzero(~correct))
        for index in each[np.linspace(0, len(each) - 1, min(N_EXAMPLES, len(each))).astype(int)]
    ]
    return [
        {
            "photograph": photos.names[test[index]],
            "class": photos.labels[test[index]],
            "predicted": photos.classes[predicted[index]],
            "tags": sorted(names[tag] for tag in tags[[test[index]]].indices),
            "predicted_tags": [names[tag] for tag in prediction["top_tags"][index]],
        }
        for index in chosen
    ]
