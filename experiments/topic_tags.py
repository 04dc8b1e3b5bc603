"""LabelMe: compare the tags that are shown for a topic with the tags of its photographs.

python -m experiments.topic_tags

A model with default settings learns from the training part of the first split. Each topic is shown
with five tags. A tag is right if it is more frequent on the topic's test photographs, the tenth
that has most of the topic, than on the others. The topics are hidden units, with the tags of
largest weight in W or those of its training photographs; or the topics of the report, rotated, with
the tags of their training photographs.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from experiments.common import write_results
from experiments.data import data_folder
from experiments.paper.data_sets import read_labelme
from experiments.paper.protocol import split_records
from supdocnade import SceneModel
from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.metrics import top_ranked
from supdocnade.model.topic_rotation import find_rotation
from supdocnade.report.frequencies import N_TAGS, Frequencies, most_active
from supdocnade.scene.thumbnails import TOPIC_SHARE

SHARES = (0.8, TOPIC_SHARE, 0.95, 1.0)
"""Shares of the squares of the topic features that the rotated topics represent."""

Topics = NDArray[np.floating]


def excess(topics_BR: Topics, tags_BA: sparse.csr_array, names: tuple[str, ...]) -> Topics:
    """Return how much more frequent tags are on the photographs of topics, (topics, tags)."""
    return Frequencies.count(most_active(topics_BR), tags_BA, names).excess_GX


def judge(shown: list[list[int]], excess_RA: Topics) -> dict[str, Any]:
    """Return the share of right tags, their mean excess and how many of them are different."""
    pairs = [(topic, tag) for topic, tags in enumerate(shown) for tag in tags]
    values = np.array([excess_RA[pair] for pair in pairs])
    return {
        "topics": len(shown),
        "share_right": float((values > 0).mean()),
        "mean_excess": float(values.mean()),
        "diversity": len({tag for _, tag in pairs}) / len(pairs),
    }


def tags_of_photographs(excess_RA: Topics) -> list[list[int]]:
    """Return the tags that set the photographs of every topic apart."""
    return [
        [tag for tag in row if excess_A[tag] > 0]
        for row, excess_A in zip(top_ranked(excess_RA, N_TAGS).tolist(), excess_RA, strict=True)
    ]


def main() -> None:
    records = read_labelme(data_folder("labelme"))
    train, test = ([records[i] for i in part] for part in split_records("labelme", records, seed=0))
    model = SceneModel(random_state=0, n_jobs=-1).fit(
        [each.path for each in train],
        [each.label for each in train],
        [each.tags for each in train],
    )
    fitted = model.fitted_
    vocabulary = AnnotationVocabulary(fitted.tag_names)
    learned = fitted.training_set
    hidden_BH = fitted.compute_topics(learned.counts, learned.features_BF)
    unseen_BH = model.transform([each.path for each in test])
    known = vocabulary.encode(learned.photographs.tags)
    true = vocabulary.encode([each.tags for each in test])
    names = fitted.tag_names
    weights_HA = fitted.network.components[:, fitted.network.config.n_visual_words :]
    of_units = excess(unseen_BH, true, names)
    results = {
        "units, tags by weights": judge(top_ranked(weights_HA, N_TAGS).tolist(), of_units),
        "units, tags of photographs": judge(
            tags_of_photographs(excess(hidden_BH, known, names)), of_units
        ),
    }
    for share in SHARES:
        rotation = find_rotation(hidden_BH, share)
        shown = tags_of_photographs(excess(rotation.rotate(hidden_BH), known, names))
        unseen = excess(rotation.rotate(unseen_BH), true, names)
        results[f"rotated, {share:.0%} of the squares"] = judge(shown, unseen)
    for name, record in results.items():
        print(name, record)
    write_results("topic_tags", "python -m experiments.topic_tags", {"topics": results})


if __name__ == "__main__":
    main()
