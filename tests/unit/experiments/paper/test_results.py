"""Figures are those of the predictions, and stored results give them again."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from experiments.paper.plans import ACCURACY, F_MEASURE, SUP, TAGGING_BASELINES
from experiments.paper.results import (
    OUTSIDE,
    PROVENANCE,
    RESULTS,
    Series,
    collect_results,
    read_results,
    write_results,
)
from experiments.paper.stages import read_log
from experiments.paper.topic_models import final_evaluations

from supdocnade.errors import StorageError
from supdocnade.metrics import f_measure

KEYS = ["dataset", "recipe", "method", "n_topics", "grid", "split", "seed", "metric", "value",
        "params"]  # fmt: skip


@pytest.fixture(scope="module")
def rows(finished):
    return json.loads((finished.folder / RESULTS).read_text())


def the_one(rows, **wanted):
    found = [
        row
        for row in rows
        if all(row.get(key, row["params"].get(key)) == value for key, value in wanted.items())
    ]
    assert len(found) == 1, found
    return found[0]


def test_figures_follow_from_the_predictions(finished, rows):
    variant = next(v for v in finished.plan.variants if (v.method, v.chosen_for) == (SUP, ACCURACY))
    prediction = finished.prediction(final_evaluations(finished, variant, 1)[-1].key(finished))
    test = finished.protocol.parts(1).test
    right = np.array(prediction["predicted"]) == finished.label_B[test]
    outside = ~finished.protocol.pool_B[test]
    same = {"method": SUP, "n_topics": 10, "split": 1, "chosen_for": ACCURACY}
    assert the_one(rows, metric=ACCURACY, **same)["value"] == pytest.approx(right.mean(), abs=1e-6)
    row = the_one(rows, metric=ACCURACY + OUTSIDE, **same)
    assert row["value"] == pytest.approx(right[outside].mean(), abs=1e-6)
    assert row["params"]["n_images"] == outside.sum() < len(test)
    tags = finished.photos.tag_counts("tags_free")[0].toarray()[test] > 0
    wanted = f_measure(np.array(prediction["top_tags"]), tags)
    assert the_one(rows, metric=F_MEASURE, **same)["value"] == pytest.approx(wanted, abs=1e-6)


def test_stored_results_give_the_figures_again(finished, rows):
    results = read_results(finished.folder)
    assert results.provenance["n_train"] == 32
    series = Series("paper", SUP, 10, "2×2", ACCURACY, None, ACCURACY)
    table = results.scores[series]
    for split in range(2):
        row = the_one(
            rows, method=SUP, n_topics=10, split=split, metric=ACCURACY, chosen_for=ACCURACY
        )
        assert np.nanmean(table[split]) == pytest.approx(row["value"], abs=1e-6)
        assert np.isfinite(table[split]).tolist() == results.test_SB[split].tolist()
    assert results.picture_B.tolist() == finished.protocol.picture_B.tolist()


def test_methods_without_predictions_keep_their_results(finished, rows, tmp_path):
    folder = tmp_path / "study"
    shutil.copytree(finished.folder, folder)
    predictions = sorted((folder / "predictions").glob("*.json"))
    others = [path for path in predictions if re.search(r"-(slda|mmlda)-", path.name)]
    for path in set(predictions) - set(others):
        path.unlink()
    for path in others:
        prediction = json.loads(path.read_text())
        if "predicted" in prediction:
            prediction["predicted"] = [0] * len(prediction["predicted"])
            path.write_text(json.dumps(prediction))
    study = replace(finished, folder=folder)
    kept, _, added = collect_results(study)
    assert added == ["MMLDA", "sLDA"]
    assert [row["method"] for row in kept] == [row["method"] for row in rows]
    for old, new in zip(rows, kept, strict=True):
        if old["method"] not in TAGGING_BASELINES or old["metric"].startswith(F_MEASURE):
            assert new == old
        else:
            zeros = study.label_B[study.protocol.parts(new["split"]).test] == 0
            assert new["metric"] != ACCURACY or new["value"] == pytest.approx(zeros.mean())
    write_results(study, read_log(folder))
    assert json.loads((folder / PROVENANCE).read_text())["added"] == added
    assert json.loads((folder / RESULTS).read_text()) == kept
    (folder / RESULTS).unlink()
    with pytest.raises(
        StorageError, match="lacks predictions of SupDocNADE: run the stages before"
    ):
        collect_results(study)


def test_a_folder_without_results_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"predictions\.safetensors cannot be read"):
        read_results(tmp_path)
