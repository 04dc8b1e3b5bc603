from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse
from tests.scene_model import columns, scenes, small_model

from supdocnade import SceneModel
from supdocnade.errors import InvalidArgument
from supdocnade.model.config import SupDocNADEConfig
from supdocnade.model.inference import annotation_log_odds, topic_features, word_log_proba
from supdocnade.model.network import SupDocNADENetwork, random_tree
from supdocnade.scene.attribution import N_VOTERS, attribute_score
from supdocnade.scene.calibration import SVMSettings
from supdocnade.scene.class_heads import RBFSVM, Score
from supdocnade.scene.references import References
from supdocnade.scene.tag_heads import FREQUENCY_WEIGHT, LogisticTags, WordTags

N_WORDS, N_TAGS, N_TOPICS, N_CLASSES = 30, 7, 12, 4
ACTIVATIONS = ("relu", "tanh", "sigmoid")


def network(activation, output="tree", seed=0, **settings):
    config = SupDocNADEConfig(
        n_visual_words=N_WORDS,
        n_annotation_words=N_TAGS,
        n_topics=N_TOPICS,
        n_classes=N_CLASSES,
        activation=activation,
        output=output,
        **settings,
    )
    made = SupDocNADENetwork(config, random_tree(config, 0))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return made


def document(seed=0):
    rng = np.random.default_rng(seed)
    words = np.sort(rng.permutation(N_WORDS)[:11])
    return words, rng.integers(1, 5, size=11).astype(np.float64)


def topics(made, words, amounts):
    a = made.hidden_bias.detach().numpy() + amounts @ made.word_embedding.detach().numpy()[words]
    kinds = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}
    return kinds.get(made.config.activation, lambda x: 1 / (1 + np.exp(-x)))(a.astype(np.float64))


def check_sums(found, limit=1e-3):
    rise = pytest.approx(found.whole - found.empty, abs=limit)
    assert found.topic_share_H.sum() + found.feature_share == rise
    assert found.share_V.sum() + found.slope_F @ FEATURES[: len(found.slope_F)] == rise


FEATURES = np.array([0.5, -2.0, 1.0, 0.3], np.float32)
"""Of two maps, with 3 and 1 channels."""


def some_svm(made, with_features):
    """Return a classifier of drawn documents, and the references that it compares with."""
    topics_NH = np.stack([topics(made, *document(seed)) for seed in range(40)]).astype(np.float32)
    features_NF, widths = None, ()
    if with_features:
        features_NF = np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32)
        widths = (3, 1)
    references = References.of(topics_NH, features_NF, widths)
    label_N = np.arange(40) % N_CLASSES
    return RBFSVM.fit(references, label_N, N_CLASSES, SVMSettings()), references


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("with_features", [False, True])
def test_shares_of_a_class_add_up(activation, with_features):
    made = network(activation, n_global_features=4 if with_features else 0)
    svm, references = some_svm(made, with_features)
    features_F = FEATURES if with_features else None
    for seed in range(5):
        words, amounts = document(seed)
        label = seed % N_CLASSES
        score = svm.explain(label, references)
        found = attribute_score(made.arrays(), words, amounts, score, features_F)
        check_sums(found)
        counts = sparse.csr_array((amounts, (np.zeros_like(words), words)), shape=(1, N_WORDS))
        features_BF = FEATURES[None] if with_features else None
        photograph = references.compare(
            topic_features(made.arrays(), counts, features_BF), features_BF
        )
        assert found.whole == pytest.approx(svm.scores(photograph)[0, label], abs=1e-5)
        assert (found.feature_share != 0) == with_features


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("output", ["tree", "softmax"])
def test_shares_of_a_tag_add_up(activation, output):
    made = network(activation, output=output)
    score = WordTags(made.arrays()).explain(3)
    for seed in range(5):
        found = attribute_score(made.arrays(), *document(seed), score)
        check_sums(found)
        assert found.feature_share == 0


def test_shares_of_a_logistic_tag_and_of_features_add_up():
    made = network("relu", annotation_output="sigmoid", n_global_features=4)
    of_topics = LogisticTags(made.arrays()).explain(3)
    score = Score(
        lambda vector_QX: of_topics.value(vector_QX[:, :N_TOPICS]),
        lambda vector_QX: np.pad(of_topics.gradient(vector_QX[:, :N_TOPICS]), [(0, 0), (0, 4)]),
    )
    words, amounts = document()
    found = attribute_score(made.arrays(), words, amounts, score, FEATURES)
    check_sums(found, 1e-5)
    assert found.slope_F.any()
    counts = sparse.csr_array((amounts, (np.zeros_like(words), words)), shape=(1, N_WORDS))
    hidden = topic_features(made.arrays(), counts, FEATURES[None])
    log_odds = annotation_log_odds(made.arrays(), hidden)
    assert found.whole == pytest.approx(log_odds[0, 3], abs=1e-5)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_integral_of_a_linear_score_is_its_closed_form(activation):
    """The mean slope of a topic along the path is U (g(c + s) - g(c)) / s."""
    made = network(activation)
    words, amounts = document()
    W = made.word_embedding.detach().numpy()[words].astype(np.float64)
    U_H = np.random.default_rng(0).normal(size=N_TOPICS)
    score = Score(lambda h_QX: h_QX @ U_H, lambda h_QX: np.tile(U_H, (len(h_QX), 1)))
    nothing = np.empty(0, np.int64), np.empty(0)
    topic_share = U_H * (topics(made, words, amounts) - topics(made, *nothing))
    found = attribute_score(made.arrays(), words, amounts, score)
    np.testing.assert_allclose(found.topic_share_H, topic_share, atol=1e-6)
    word_share = amounts * (W @ (topic_share / (amounts @ W)))
    np.testing.assert_allclose(found.share_V, word_share, atol=1e-6)


def test_the_score_of_a_tag_is_its_log_probability():
    made = network("relu")
    words, amounts = document()
    hidden = topics(made, words, amounts)[None]
    word = np.array([N_WORDS + 3])
    expected = word_log_proba(made.arrays(), hidden.astype(np.float32), word)
    found = WordTags(made.arrays()).explain(3).value(hidden)
    assert found[0] == pytest.approx(expected[0, 0], abs=1e-5)


@pytest.mark.parametrize("output", ["tree", "softmax"])
def test_gradients_of_a_tag_are_finite_differences(output):
    made = network("relu", output=output)
    score = WordTags(made.arrays()).explain(3)
    hidden = topics(made, *document())
    steps = np.eye(N_TOPICS) * 1e-5
    slopes = (score.value(hidden + steps) - score.value(hidden - steps)) / 2e-5
    np.testing.assert_allclose(score.gradient(hidden[None])[0], slopes, rtol=1e-4, atol=1e-8)


IMAGE = scenes(1, 9)[1].image


@pytest.mark.parametrize("annotation_output", ["words", "sigmoid"])
def test_shares_of_patches_add_up_to_the_score_of_a_class(annotation_output):
    model = small_model(annotation_output)
    found = model.explain(IMAGE)
    assert found.name == model.predict([IMAGE])[0]
    rise = found.whole - found.empty
    assert found.share_S.sum() == pytest.approx(rise, abs=1e-3)
    assert found.topic_share_H.sum() == pytest.approx(rise, abs=1e-3)
    scores = model.fitted_.class_head.scores(model._compare([IMAGE]))
    number = model.classes_.tolist().index(found.name)
    assert found.whole == pytest.approx(scores[0, number], abs=1e-4)
    assert found.score == "decision value of the SVM"
    assert (found.feature_share, found.global_share, found.voters) == (0, 0, ())


def test_an_explanation_tells_the_probability_and_the_decision():
    model = small_model()
    (said,) = model.iter_predictions([IMAGE])
    for label, probability in said.probabilities.items():
        found = model.explain(IMAGE, label=label)
        assert (found.probability, found.given) == (probability, label == said.label)
        assert ("not predicted" in found.decision) == (label != said.label)
    given, ranked = dict(said.tags), dict(said.ranked_tags)
    other = next(tag for tag in ranked if tag not in given)
    assert model.explain(IMAGE, tag=next(iter(given))).given
    found = model.explain(IMAGE, tag=other)
    assert (found.probability, found.given) == (ranked[other], False)
    threshold = model.fitted_.choices.tags.threshold
    assert found.decision.endswith(f": not given, a tag needs {100 * threshold:.0f} %")


@pytest.mark.parametrize("output", ["words", "sigmoid"])
def test_an_explanation_of_a_tag_is_that_of_its_output(output):
    """Scores of words are relative to all tags of the photograph."""
    model = small_model(output)
    scores_A = model.fitted_.tag_head.scores(model.transform([IMAGE]))[0]
    found = [model.explain(IMAGE, tag=tag) for tag in model.tag_names_]
    away_A = np.array([each.whole for each in found]) - scores_A
    np.testing.assert_allclose(away_A, away_A[0] if output == "words" else 0, atol=1e-4)
    described = {"words": "log p", "sigmoid": "logit p"}[output]
    for each in found:
        assert each.share_S.sum() == pytest.approx(each.whole - each.empty, abs=1e-3)
        assert each.score == f"{described}({each.name})"


def test_an_explanation_of_a_tag_names_the_photographs_that_vote_for_it():
    model = small_model()
    fitted, photographs = model.fitted_, model._compare([IMAGE])
    tags_of = dict(zip(fitted.training_set.photographs.names, columns(scenes())[2], strict=True))
    share_A = fitted.votes.shares(photographs.distance_BN, np.zeros(len(fitted.tag_names)))[0]
    for tag, share in zip(fitted.tag_names, share_A, strict=True):
        voters = model.explain(IMAGE, tag=tag).voters
        assert len(voters) <= N_VOTERS
        assert (share >= 0.05) <= bool(voters)
        assert all(tag in tags_of[name] for name, _ in voters)
        shares = [each for _, each in voters]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) <= share / (1 - FREQUENCY_WEIGHT) + 1e-9
    silent = SceneModel()
    silent.fitted_ = replace(fitted, votes=None)
    assert silent.explain(IMAGE, tag="tree").voters == ()


def test_unknown_names_are_refused():
    model = small_model()
    with pytest.raises(InvalidArgument, match="the model has no label"):
        model.explain(IMAGE, label="moon base")
    with pytest.raises(InvalidArgument, match=r"no label 'Cost'; did you mean 'coast'"):
        model.explain(IMAGE, label="Cost")
    with pytest.raises(InvalidArgument, match="the model has no tag"):
        model.explain(IMAGE, tag="moon base")
    with pytest.raises(InvalidArgument, match="must not both be given"):
        model.explain(IMAGE, label="coast", tag="tree")
