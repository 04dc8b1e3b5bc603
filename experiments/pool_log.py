"""The log of the recipes that were tried on the development pool: experiments/pool.json."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.pool_recipes import Tried
from supdocnade.paper.page import markdown
from supdocnade.storage import write_atomically

LOG = Path(__file__).parent / "pool.json"
N_FOLDS = 5


def read_log() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(LOG.read_text()) if LOG.is_file() else []
    return entries


def add_to_log(dataset: str, name: str, tried: Tried, n_topics: int, found: dict[str, Any]) -> None:
    """Log a recipe, in the place of an earlier run of the very same one."""
    entry = {
        "dataset": dataset,
        "name": name,
        "n_topics": n_topics,
        "recipe": {**asdict(tried.recipe), "words": tried.recipe.words.settings()},
        "setting": tried.setting,
        **found,
    }
    same = ("dataset", "name", "n_topics", "recipe", "setting")
    kept = [each for each in read_log() if any(each[key] != entry[key] for key in same)]
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in [*kept, entry])
    write_atomically(LOG, f"[\n{lines}\n]\n".encode())


def pool_section() -> str:
    """Return every recipe tried, for the page."""
    names = (
        "accuracy", "softmax", "svm_and_softmax", "svm_on_counts",
        "svm_on_topics_and_counts", "f_measure",
        "f_measure_with_classes",
    )  # fmt: skip
    rows = [
        [
            each["dataset"],
            each["name"],
            str(each["setting"].get("n_topics", each["n_topics"]) or "–"),
            *(f"{100 * each[name]:.1f}" if name in each else "–" for name in names),
        ]
        for each in sorted(read_log(), key=lambda each: str(each["dataset"]))
    ]
    header = [
        "data set", "recipe", "topics", "SVM on topics", "softmax", "SVM + softmax",
        "SVM on √counts", "SVM on topics and √counts", "F", "F, with classes",
    ]  # fmt: skip
    return "\n\n".join(
        [
            "## Recipes tried on the development pool",
            f"{N_FOLDS} folds of the pool, λ = 0.01, learning rate 3e-4, "
            "annotation weight 30 unless the name says otherwise; SVM settings and weights are the "
            "best on all folds together, the same grid for every row: compare rows, quote none "
            "(`experiments/pool.py`; names: `pool_recipes.py`). All figures in per cent.",
            markdown(header, rows),
        ]
    )
