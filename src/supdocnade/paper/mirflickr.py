"""MIR-Flickr, a data set with several labels per photograph: its reader, and a study of labels.

It is the data set of the paper's follow-up (Zheng, Zhang and Larochelle 2015): 25,000 photographs
of Flickr with 38 labels (Huiskes and Lew 2008) and the tags of their authors, of which the 2,000
most frequent ones are used. A split has 10,000 photographs for training, 5,000 on which settings
are chosen, and 10,000 for testing; the labels are judged by their mean average precision. The
splits are ours, and so are the visual words: the features of the follow-up are not used.
"""

import json
import re
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from supdocnade.errors import StorageError
from supdocnade.estimators.supdocnade import SupDocNADE
from supdocnade.folders.metadata import distinct_tags, join_labels
from supdocnade.folders.photo_folder import ImageRecord
from supdocnade.folders.tags import AnnotationVocabulary, EncodedTags, count_tags
from supdocnade.metrics import mean_average_precision
from supdocnade.paper.words import GRIDS, WordRecipe, Words, encode_words, load_words, save_words
from supdocnade.run_options import RunOptions
from supdocnade.scene.dataset import from_records
from supdocnade.seeding import named_generator
from supdocnade.storage import write_atomically
from supdocnade.text import line_error, read_lines, split_lines
from supdocnade.visual_words.encoder import damp_counts

N_PHOTOGRAPHS, N_LABELS = 25_000, 38
ANNOTATIONS, TAGS = "annotations", Path("meta") / "tags"
N_TAGS = 2000
"""Tags that are used, the most frequent ones of all photographs."""

SHARES = (0.4, 0.2, 0.4)
"""Shares of training, choice of settings and test in a split."""

WORDS, ANNOTATED, WITH_TAGS = (
    "SupDocNADE, words",
    "SupDocNADE, words, tags learned as annotations",
    "SupDocNADE, words and tags",
)
LOGISTIC = "logistic regression on √counts of words and tags"
METHODS = (WORDS, ANNOTATED, WITH_TAGS, LOGISTIC)
RESULTS = "results.json"


@dataclass(frozen=True, kw_only=True)
class LabelPlan:
    """Settings of the study."""

    n_splits: int = 5
    n_photographs: int | None = None
    """The first ones of the data set; None: all."""
    n_words: int = 500
    max_side: int | None = 300
    n_topics: int = 200
    max_epochs: int = 40
    learning_rate: float = 3e-4
    generative_weights: tuple[float, ...] = (1e-3, 1e-2, 1e-1)
    tag_counts: tuple[int, ...] = (1, 10)
    """How often a tag counts beside the words."""
    regularizations: tuple[float, ...] = (1e-3, 1e-2, 1e-1)
    """C of the logistic regression."""


QUICK = LabelPlan(
    n_splits=2,
    n_photographs=400,
    n_words=40,
    max_side=128,
    n_topics=10,
    max_epochs=10,
    learning_rate=1e-2,
    generative_weights=(1e-2,),
    tag_counts=(1,),
    regularizations=(1e-2,),
)


def read_mirflickr(root: Path) -> list[ImageRecord]:
    """Return the photographs of MIR-Flickr with their labels and tags, sorted by number.

    `im1.jpg`, `im2.jpg`, ... are in `root`. `annotations` has a file of the numbers of photographs
    per label, `sky.txt`, and for the relevant labels `sky_r1.txt`. `meta/tags/tags1.txt`, ... have
    one tag per line; the tags of a photograph without such a file are unknown.
    """
    files = {
        int(match[1]): path
        for path in root.glob("im*.jpg")
        if (match := re.fullmatch(r"im([0-9]+)\.jpg", path.name))
    }
    if not files:
        raise StorageError(f"{root} must hold the photographs of MIR-Flickr, im1.jpg and so on.")
    tables = [each for each in (root / ANNOTATIONS).glob("*.txt") if each.stem != "README"]
    if not tables:
        raise StorageError(f"{root / ANNOTATIONS} must hold a file per label, such as sky.txt.")
    if len(files) != N_PHOTOGRAPHS or len(tables) != N_LABELS:
        warnings.warn(
            f"{root} holds other numbers of photographs than published (in brackets): "
            f"{len(files)} ({N_PHOTOGRAPHS}) with {len(tables)} labels ({N_LABELS}).",
            stacklevel=2,
        )
    labels: dict[int, list[str]] = {number: [] for number in files}
    for table in sorted(tables):
        for line, text in enumerate(read_lines(table), start=1):
            if not text.strip():
                continue
            if not text.strip().isdigit() or int(text) not in files:
                raise line_error(table, line, f"the number of a photograph in {root}", text)
            labels[int(text)].append(table.stem)
    return [
        ImageRecord(files[number], join_labels(labels[number]), _read_tags(root, number))
        for number in sorted(files)
    ]


def _read_tags(root: Path, number: int) -> tuple[str, ...] | None:
    path = root / TAGS / f"tags{number}.txt"
    if not path.is_file():
        return None
    return distinct_tags(split_lines(path.read_bytes().decode(errors="replace")))


def split_photographs(n_photographs: int, split: int) -> list[NDArray[np.int64]]:
    """Return the photographs for training, for the choice of settings and for testing.

    >>> [len(part) for part in split_photographs(25_000, 0)]
    [10000, 5000, 10000]
    """
    shuffled = named_generator(split, "MIR-Flickr").permutation(n_photographs)
    ends = np.round(np.cumsum(SHARES[:-1]) * n_photographs).astype(int)
    return [np.sort(part) for part in np.split(shuffled, ends)]


def reproduce_labels(
    root: Path, folder: Path, plan: LabelPlan, options: RunOptions = RunOptions()
) -> dict[str, Any]:
    """Run the study, or what is left of it, and return its results.

    Parameters
    ----------
    root : folder of the photographs.
    folder : of the study; the words of every split and `results.json` are written there.
    """
    records = read_mirflickr(root)[: plan.n_photographs]
    photographs = from_records(records)
    classes = photographs.classes
    _, label_BC = photographs.class_members(classes)
    names = [name for name, _ in count_tags(photographs.tags).most_common(N_TAGS)]
    tags = AnnotationVocabulary(tuple(sorted(names))).encode(photographs.tags)
    path = folder / RESULTS
    settings = json.loads(json.dumps({**asdict(plan), "n_images": len(records)}))
    results: dict[str, Any] = {"settings": settings, "splits": []}
    if path.is_file():
        results = json.loads(path.read_text())
        if results["settings"] | {"n_splits": 0} != settings | {"n_splits": 0}:
            raise StorageError(f"{folder} must be new or hold a study with these settings.")
    results["settings"] = settings
    for split in range(len(results["splits"]), plan.n_splits):
        words = _make_words(records, split, folder, plan, options)
        counts = damp_counts(words.counts(GRIDS["2×2"]), 1.0)
        found = {
            method: _measure(method, counts, tags, label_BC, split, plan, options)
            for method in METHODS
        }
        results["splits"].append(found)
        write_atomically(path, json.dumps(_summarize(results), indent=1).encode())
    return _summarize(results)


def _make_words(
    records: Sequence[ImageRecord], split: int, folder: Path, plan: LabelPlan, options: RunOptions
) -> Words:
    """Return the visual words of a split, learned from its training part."""
    recipe = WordRecipe(n_words=plan.n_words, patch_size=(16, 32), contrast_percentile=10)
    path = folder / "words" / f"{split}.safetensors"
    described = {
        "split": split,
        "n_images": len(records),
        "max_side": plan.max_side,
        **recipe.settings(),
    }
    if path.is_file():
        return load_words(path, described)
    train, *_ = split_photographs(len(records), split)
    words, _ = encode_words(
        [record.path for record in records],
        train,
        recipe,
        max_side=plan.max_side,
        seed=split,
        options=options,
        stage=f"words, split {split}",
    )
    save_words(path, words, described)
    return words


def _measure(
    method: str,
    counts: sparse.csr_array,
    tags: EncodedTags,
    label_BC: NDArray[np.bool_],
    split: int,
    plan: LabelPlan,
    options: RunOptions,
) -> dict[str, Any]:
    """Return the mean average precision of a method on the test part, and the chosen settings."""
    train, held, test = split_photographs(len(label_BC), split)
    more: dict[str, Any] = {}
    if method == ANNOTATED:
        more = {"annotations": tags.annotations[train], "annotation_mask": tags.known[train]}
    found, settings = [], _list_settings(method, plan)
    for number, setting in enumerate(settings):
        options.progress(f"{method}, split {split}", number, len(settings))
        X = _combine(method, setting, counts, tags)
        model = _make_model(setting, split, plan, options)
        with warnings.catch_warnings():
            # In a quick run, a label may be on no photograph.
            warnings.filterwarnings("ignore", "Label .* is present in all training examples")
            model.fit(X[train], label_BC[train].astype(np.int64), **more)
        value = mean_average_precision(model.predict_proba(X[held]), label_BC[held]).value
        found.append((value, number, model.predict_proba(X[test])))
    value, number, proba_BC = max(found, key=lambda each: each[0])
    tested = mean_average_precision(proba_BC, label_BC[test])
    return {
        "mean_average_precision": tested.value,
        "n_classes": tested.n_classes,
        "held_out": value,
        "setting": settings[number],
    }


def _list_settings(method: str, plan: LabelPlan) -> list[dict[str, float]]:
    """Return the settings of a method to choose from."""
    if method == LOGISTIC:
        return [{"C": C} for C in plan.regularizations]
    weights = [{"generative_weight": weight} for weight in plan.generative_weights]
    if method != WITH_TAGS:
        return weights
    return [{**each, "tag_count": count} for each in weights for count in plan.tag_counts]


def _combine(
    method: str, setting: dict[str, float], counts: sparse.csr_array, tags: EncodedTags
) -> sparse.csr_array:
    """Return the input of a method, (photographs, words or words and tags)."""
    if method in (WORDS, ANNOTATED):
        return counts
    both = sparse.hstack([counts, setting.get("tag_count", 1) * tags.annotations], dtype=np.float64)
    return sparse.csr_array(both.sqrt() if method == LOGISTIC else both)


def _make_model(setting: dict[str, float], split: int, plan: LabelPlan, options: RunOptions) -> Any:
    if "C" in setting:
        from sklearn.linear_model import LogisticRegression
        from sklearn.multiclass import OneVsRestClassifier

        return OneVsRestClassifier(LogisticRegression(C=setting["C"], max_iter=1000))
    return SupDocNADE(
        n_topics=plan.n_topics,
        learning_rate=plan.learning_rate,
        max_epochs=plan.max_epochs,
        generative_weight=setting["generative_weight"],
        n_jobs=options.n_jobs,
        device=options.device,
        random_state=split,
    )


def _summarize(results: dict[str, Any]) -> dict[str, Any]:
    """Return results with the mean and the standard deviation over splits of every method."""
    summary = {}
    for method in METHODS:
        values = [each[method]["mean_average_precision"] for each in results["splits"]]
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
        summary[method] = {"mean": float(np.mean(values)), "standard_deviation": deviation}
    return {**results, "mean_average_precision": summary}
