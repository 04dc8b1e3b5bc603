from typing import NamedTuple

import numpy as np
import pytest
from scipy import sparse

from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.model.config import SupDocNADEConfig
from supdocnade.model.inference import NetworkArrays
from supdocnade.runs import RunOptions
from supdocnade.scene import selection
from supdocnade.scene.class_heads import GRID, RBFSVM
from supdocnade.scene.dataset import Photographs, TrainingSet
from supdocnade.scene.novelty import fit_novelty
from supdocnade.scene.selection import choose_on_held_out
from supdocnade.scene.tag_heads import LogisticTags, WordTags


def photographs(labels, tags):
    n = len(labels)
    return Photographs(
        sources=[None] * n, names=[f"image {i}" for i in range(n)], labels=labels, tags=tags
    )


def blobs(labels, spread, seed):
    rng = np.random.default_rng(seed)
    place = {"a": 0.0, "b": 4.0, None: 2.0}
    centre = np.array([[place[label], -place[label]] for label in labels])
    return (centre + spread * rng.normal(size=centre.shape)).astype(np.float32)


SEEN_LABELS = ["a"] * 10 + ["b"] * 10 + [None] * 3
UNSEEN_LABELS = ["a"] * 8 + ["b"] * 8 + [None]
TAGS = [["sea"]] * 8 + [["wood", "owl"]] * 8 + [None]
VOCABULARY = AnnotationVocabulary(("sea", "wood"))
SEEN = photographs(SEEN_LABELS, [["sea"]] * 10 + [["wood"]] * 10 + [None] * 3)
UNSEEN = photographs(UNSEEN_LABELS, TAGS)


class GivenTags(WordTags):
    """Tags whose scores are given instead of a network."""

    def scores(self, hidden_BH):
        return self.network


class GivenLogOdds(LogisticTags):
    def scores(self, hidden_BH):
        return self.network


class Candidate(NamedTuple):
    """A network after some epochs, with topics and scores of tags that are not computed."""

    n_epochs: int
    network: NetworkArrays
    hidden_BH: np.ndarray
    held_out_BH: np.ndarray
    tag_head: WordTags


def training_set(some):
    n = len(some)
    return TrainingSet(some, sparse.csr_array((n, 1)), np.ones(n, bool))


def choose(candidates, seen, unseen, vocabulary, classifier, **options):
    of = {id(each.network): each for each in candidates}

    def topic_features(network, counts, features_BF):
        each = of[id(network)]
        return each.hidden_BH if counts.shape[0] == len(each.hidden_BH) else each.held_out_BH

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "topic_features", topic_features)
        patch.setattr(selection, "tag_head", lambda network: of[id(network)].tag_head)
        return choose_on_held_out(
            {each.n_epochs: each.network for each in candidates},
            training_set(seen),
            training_set(unseen),
            vocabulary,
            np.full(len(vocabulary), 0.5),
            classifier,
            **options,
        )


def candidate(n_epochs, spread, label_weight=0.0):
    """Return a candidate; its softmax prefers the first class, but for the weight of topics."""
    log_p = np.log(np.tile([0.7, 0.3], (17, 1)))
    log_p[8:16] = np.log([0.2, 0.8])
    config = SupDocNADEConfig(n_visual_words=2, n_topics=2, n_classes=2, output="softmax")
    shapes = {"word_embedding": (2, 2), "hidden_bias": 2, "node_weight": (2, 2), "node_bias": 2}
    arrays = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    arrays["label_weight"] = np.array([[-label_weight, 0], [label_weight, 0]], np.float32)
    arrays["label_bias"] = np.log([0.6, 0.4]).astype(np.float32)
    return Candidate(
        n_epochs=n_epochs,
        network=NetworkArrays(config, arrays, None),
        hidden_BH=blobs(SEEN_LABELS, spread, 0),
        held_out_BH=blobs(UNSEEN_LABELS, spread, 1),
        tag_head=GivenTags(log_p),
    )


def test_the_candidate_with_the_best_predictions_is_selected():
    seen = []
    choices, _ = choose(
        [candidate(5, 6.0), candidate(10, 0.3), candidate(20, 6.0)],
        SEEN,
        UNSEEN,
        VOCABULARY,
        "svm",
        options=RunOptions(progress=lambda *now: seen.append(now[1:])),
    )
    assert seen == [(number, 3 * len(GRID)) for number in range(1, 3 * len(GRID) + 1)]
    assert choices.n_epochs == 10
    assert choices.classifier == "svm"


def test_the_softmax_needs_no_svm():
    choices, held_out = choose([candidate(5, 0.3)], SEEN, UNSEEN, VOCABULARY, "softmax")
    assert (choices.classifier, choices.classifier_settings) == ("softmax", {})
    # It predicts the same for all, so that the best temperature is the largest; two tags per image.
    assert choices.temperature > 99
    assert held_out.figures["f_measure"] == pytest.approx((2 / 3 * 8 + 2 / 4 * 8) / 16)


def test_the_better_classifier_is_selected():
    """The softmax of these candidates knows nothing, or everything."""
    choices, _ = choose([candidate(5, 0.3)], SEEN, UNSEEN, VOCABULARY, "auto")
    assert choices.classifier == "svm"
    best = candidate(5, 0.3, 9.0)
    best.hidden_BH[:] = blobs(SEEN_LABELS, 60.0, 0)
    best.network["label_bias"][:] = 18, -18
    choices, held_out = choose([best], SEEN, UNSEEN, VOCABULARY, "auto")
    assert choices.classifier == "softmax"
    assert [each.predicted for each in held_out.images[:16]] == ["a"] * 8 + ["b"] * 8


def test_the_limit_of_familiar_photographs_is_that_of_the_candidate():
    one = candidate(5, 0.3)
    twice = one._replace(
        held_out_BH=np.tile(one.held_out_BH, (2, 1)),
        tag_head=GivenTags(np.tile(one.tag_head.network, (2, 1))),
    )
    novelty = fit_novelty(one.hidden_BH, SEEN.labels)
    novelty_B = np.sort(novelty.scores(twice.held_out_BH))
    limits = []
    for each, n_sides in ((one, 1), (twice, 2)):
        unseen = photographs(UNSEEN_LABELS * n_sides, TAGS * n_sides)
        choices, _ = choose([each], SEEN, unseen, VOCABULARY, "svm")
        limits.append(choices.unfamiliar_above)
    # 17 held-out photographs are too few; of 34 it is the largest score.
    assert limits == [None, novelty_B[33]]


def test_without_labels_to_select_by_the_svm_is_taken():
    unknown = photographs([None] * 17, TAGS)
    choices, _ = choose([candidate(5, 0.3)], SEEN, unknown, VOCABULARY, "auto")
    assert choices.classifier_settings == RBFSVM.defaults


def test_the_class_term_of_tags_is_used_if_it_helps():
    """All tags have the same probability by the topics, but not by the classes."""
    names = tuple(f"{label}{number}" for label in "ab" for number in range(6))
    vocabulary = AnnotationVocabulary(names)
    tags = [[name for name in names if name[0] == (label or "")] for label in SEEN_LABELS]
    seen = photographs(SEEN_LABELS, tags)
    unseen = photographs(UNSEEN_LABELS, [tags[0]] * 8 + [tags[10]] * 8 + [None])
    uniform = candidate(5, 0.3)._replace(tag_head=GivenTags(np.full((17, 12), -np.log(12))))
    choices, held_out = choose([uniform], seen, unseen, vocabulary, "svm")
    assert choices.class_tag_weight == 0.5
    assert held_out.figures["f_measure"] == pytest.approx(2 * 5 / 11)
    # The probabilities of tags are learned from the scores that rank them.
    assert held_out.figures["f_measure_of_given"] == 1
    assert {name[0] for name, _ in held_out.images[12].given} == {"b"}


def test_figures_of_held_out_photographs():
    choices, held_out = choose([candidate(5, 0.3)], SEEN, UNSEEN, VOCABULARY, "svm")
    assert held_out.n_images == 17
    assert held_out.figures["accuracy"] == 1.0
    assert held_out.figures["n_labelled"] == 16
    assert held_out.figures["n_tagged"] == 16
    assert choices.unsure_below == 0
    # "owl" was never learned: it counts as missed.
    assert held_out.figures["f_measure_of_given"] == pytest.approx((8 * 1 + 8 * 2 / 3) / 16)
    first = held_out.images[0]
    assert (first.label, first.predicted, first.tags) == ("a", "a", ("sea",))
    assert [name for name, _ in first.given] == ["sea", "wood"]
    assert held_out.images[16].label is None


def test_log_odds_of_tags_are_probabilities_without_known_tags():
    unknown = photographs(UNSEEN_LABELS, [None] * 17)
    logistic = candidate(5, 0.3)._replace(tag_head=GivenLogOdds(np.full((17, 2), [0.0, 2.0])))
    choices, held_out = choose([logistic], SEEN, unknown, VOCABULARY, "softmax")
    assert (choices.tags.slope, choices.tags.threshold) == (1, 0.5)
    expected = [("wood", pytest.approx(1 / (1 + np.exp(-2)))), ("sea", 0.5)]
    assert list(held_out.images[0].given) == expected
