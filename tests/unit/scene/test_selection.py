import numpy as np
import pytest
from scipy import sparse

from supdocnade.folders.tags import AnnotationVocabulary
from supdocnade.runs import RunOptions
from supdocnade.scene import class_heads, selection
from supdocnade.scene.calibration import SVMSettings
from supdocnade.scene.class_heads import GRID
from supdocnade.scene.dataset import Photographs, TrainingSet
from supdocnade.scene.novelty import fit_novelty
from supdocnade.scene.references import round_topics
from supdocnade.scene.selection import SPREADS, TUNING, VOTE_WEIGHTS, choose_on_held_out
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

    def scores(self, topics_BH):
        return self.network


class GivenLogOdds(LogisticTags):
    def scores(self, topics_BH):
        return self.network


LOG_P = np.log(np.repeat([[0.7, 0.3], [0.2, 0.8], [0.7, 0.3]], [8, 8, 1], axis=0))
GIVEN = GivenTags(LOG_P)


def training_set(some):
    n = len(some)
    return TrainingSet(some, sparse.csr_array((n, 1)), np.ones(n, bool))


def choose(seen=SEEN, unseen=UNSEEN, vocabulary=VOCABULARY, head=GIVEN, topics=None, **options):
    """Choose by topics and scores of tags that are not computed."""
    seen_BH, unseen_BH = topics or (blobs(SEEN_LABELS, 0.3, 0), blobs(UNSEEN_LABELS, 0.3, 1))

    def topic_features(network, counts, features_BF):
        return seen_BH if counts.shape[0] == len(seen_BH) else unseen_BH

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "topic_features", topic_features)
        patch.setattr(selection, "tag_head", lambda network: head)
        return choose_on_held_out(
            None,
            training_set(seen),
            training_set(unseen),
            vocabulary,
            np.full(len(vocabulary), 0.5),
            (),
            **options,
        )


def test_the_best_settings_of_the_classifier_are_selected(monkeypatch):
    seen = []
    choices, held_out = choose(options=RunOptions(progress=lambda *now: seen.append(now)))
    assert seen == [(TUNING, number, len(GRID)) for number in range(1, len(GRID) + 1)]
    assert choices.svm in GRID
    assert [each.predicted for each in held_out.images[:16]] == ["a"] * 8 + ["b"] * 8
    best = SVMSettings(gamma=0.2, penalty=0.1)
    monkeypatch.setattr(class_heads, "GRID", [SVMSettings(gamma=1e4), best])
    assert choose()[0].svm == best


def test_without_known_labels_the_settings_are_the_default():
    unknown = photographs([None] * 17, TAGS)
    choices, held_out = choose(unseen=unknown)
    assert (choices.svm, choices.temperature) == (SVMSettings(), 1)
    assert "accuracy" not in held_out.metrics


def test_photographs_of_one_class_are_not_classified():
    one = photographs(["a"] * 20 + [None] * 3, SEEN.tags)
    unseen = photographs(["a"] * 8 + [None] * 9, TAGS)
    choices, held_out = choose(seen=one, unseen=unseen)
    assert (choices.svm, choices.temperature) == (SVMSettings(), 1)
    assert {(each.predicted, each.probability) for each in held_out.images} == {("a", 1)}


def test_the_limit_of_familiar_photographs_is_a_share_of_those_held_out():
    seen_BH, unseen_BH = blobs(SEEN_LABELS, 0.3, 0), blobs(UNSEEN_LABELS, 0.3, 1)
    twice_BH = np.tile(unseen_BH, (2, 1))
    novelty_B = np.sort(fit_novelty(round_topics(seen_BH), SEEN.labels).scores(twice_BH))
    both = photographs(UNSEEN_LABELS * 2, TAGS * 2)
    choices, _ = choose(
        unseen=both, topics=(seen_BH, twice_BH), head=GivenTags(np.tile(LOG_P, (2, 1)))
    )
    # 17 held-out photographs are too few; of 34 it is the largest score.
    assert (choose()[0].unfamiliar_above, choices.unfamiliar_above) == (None, novelty_B[33])


def test_votes_for_tags_have_a_weight_if_they_help():
    """All tags have the same probability by the topics, but not by the neighbours."""
    names = tuple(f"{label}{number}" for label in "ab" for number in range(6))
    vocabulary = AnnotationVocabulary(names)
    tags = [[name for name in names if name[0] == (label or "")] for label in SEEN_LABELS]
    seen = photographs(SEEN_LABELS, tags)
    unseen = photographs(UNSEEN_LABELS, [tags[0]] * 8 + [tags[10]] * 8 + [None])
    uniform = GivenTags(np.full((17, 12), -np.log(12)))
    choices, held_out = choose(seen, unseen, vocabulary, uniform)
    assert (choices.vote_weight, choices.vote_spread) == (VOTE_WEIGHTS[1], SPREADS[0])
    assert held_out.metrics["f_measure"] == pytest.approx(2 * 5 / 11)
    # The probabilities of tags are learned from the scores that rank them.
    assert held_out.metrics["f_measure_of_given"] == 1
    assert {name[0] for name, _ in held_out.images[12].given} == {"b"}


def test_votes_that_do_not_help_have_no_weight():
    """Two tags are ranked for every photograph, so that no order changes the F-measure."""
    assert choose()[0].vote_weight == 0
    unknown = photographs(SEEN_LABELS, [None] * 23)
    assert choose(seen=unknown)[0].vote_weight == 0


def test_metrics_of_held_out_photographs():
    choices, held_out = choose()
    assert held_out.n_images == 17
    assert held_out.metrics["accuracy"] == 1.0
    assert held_out.metrics["n_labelled"] == 16
    assert held_out.metrics["n_tagged"] == 16
    assert choices.unsure_below == 0
    assert held_out.metrics["f_measure"] == pytest.approx((2 / 3 * 8 + 2 / 4 * 8) / 16)
    # "owl" was never learned: it counts as missed.
    assert held_out.metrics["f_measure_of_given"] == pytest.approx((8 * 1 + 8 * 2 / 3) / 16)
    first = held_out.images[0]
    assert (first.label, first.predicted, first.tags) == ("a", "a", ("sea",))
    assert [name for name, _ in first.given] == ["sea", "wood"]
    assert held_out.images[16].label is None


def test_log_odds_of_tags_are_probabilities_without_known_tags():
    unknown = photographs(UNSEEN_LABELS, [None] * 17)
    choices, held_out = choose(unseen=unknown, head=GivenLogOdds(np.full((17, 2), [0.0, 2.0])))
    assert (choices.tags.slope, choices.tags.threshold) == (1, 0.5)
    expected = [("wood", pytest.approx(1 / (1 + np.exp(-2)))), ("sea", 0.5)]
    assert list(held_out.images[0].given) == expected
