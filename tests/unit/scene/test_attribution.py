from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy import sparse
from tests.scene_model import scenes, small_model

from supdocnade.errors import InvalidArgument
from supdocnade.model.config import SupDocNADEConfig
from supdocnade.model.inference import annotation_log_odds, topic_features, word_log_proba
from supdocnade.model.network import SupDocNADENetwork, random_tree
from supdocnade.scene.attribution import attribute_score, class_term_score
from supdocnade.scene.class_heads import RBFSVM, SoftmaxHead
from supdocnade.scene.tag_heads import LogisticTags, WordTags

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


class Attribution(NamedTuple):
    word_share_V: np.ndarray
    global_slope_F: np.ndarray
    topic_share_H: np.ndarray
    empty: float
    whole: float


def attribute(made, words, amounts, score):
    return Attribution(*attribute_score(made.arrays(), words, amounts, score))


def some_svm(made):
    hidden = np.stack([topics(made, *document(seed)) for seed in range(40)])
    return RBFSVM.fit(made.arrays(), hidden, np.arange(40) % N_CLASSES, RBFSVM.defaults)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("label", range(N_CLASSES))
def test_shares_of_a_logit_add_up(activation, label):
    made = network(activation)
    words, amounts = document(label)
    found = attribute(made, words, amounts, SoftmaxHead.of(made.arrays()).explain(label))
    rise = found.whole - found.empty
    assert found.word_share_V.sum() == pytest.approx(rise, abs=1e-5)
    assert found.topic_share_H.sum() == pytest.approx(rise, abs=1e-5)
    assert found.whole == pytest.approx(
        SoftmaxHead.of(made.arrays()).explain(label).value(topics(made, words, amounts)[None])[0],
        abs=1e-5,
    )


def test_shares_of_a_logistic_tag_and_of_global_features_add_up():
    made = network("relu", annotation_output="sigmoid", n_global_features=3)
    words, amounts = document()
    features = np.array([0.5, -2.0, 1.0], np.float32)
    score = LogisticTags(made.arrays()).explain(3)
    found = Attribution(*attribute_score(made.arrays(), words, amounts, score, features))
    global_share = features @ found.global_slope_F
    shares = found.word_share_V.sum() + global_share
    assert global_share != 0
    assert shares == pytest.approx(found.whole - found.empty, abs=1e-5)
    counts = sparse.csr_array((amounts, (np.zeros_like(words), words)), shape=(1, N_WORDS))
    hidden = topic_features(made.arrays(), counts, features[None])
    log_odds = annotation_log_odds(made.arrays(), hidden)
    assert found.whole == pytest.approx(log_odds[0, 3], abs=1e-5)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_integral_of_a_logit_is_its_closed_form(activation):
    """The mean slope of a topic along the path is U (g(c + s) - g(c)) / s."""
    made = network(activation)
    words, amounts = document()
    W = made.word_embedding.detach().numpy()[words].astype(np.float64)
    nothing = np.empty(0, np.int64), np.empty(0)
    rise = topics(made, words, amounts) - topics(made, *nothing)
    topic_share = made.label_weight.detach().numpy()[1] * rise
    found = attribute(made, words, amounts, SoftmaxHead.of(made.arrays()).explain(1))
    np.testing.assert_allclose(found.topic_share_H, topic_share, atol=1e-6)
    word_share = amounts * (W @ (topic_share / (amounts @ W)))
    np.testing.assert_allclose(found.word_share_V, word_share, atol=1e-6)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("kind", ["svm", "tree", "softmax"])
def test_shares_of_svm_and_tags_add_up(activation, kind):
    made = network(activation, output="softmax" if kind == "softmax" else "tree")
    score = some_svm(made).explain(2) if kind == "svm" else WordTags(made.arrays()).explain(3)
    for seed in range(5):
        words, amounts = document(seed)
        found = attribute(made, words, amounts, score)
        rise = found.whole - found.empty
        assert found.word_share_V.sum() == pytest.approx(rise, abs=1e-3)
        assert found.topic_share_H.sum() == pytest.approx(rise, abs=1e-3)


def classifier(made, kind):
    return some_svm(made) if kind == "svm" else SoftmaxHead.of(made.arrays())


def decide(made, kind, hidden):
    if kind == "svm":
        return some_svm(made).scores(hidden)
    return hidden @ made.label_weight.detach().numpy().T + made.label_bias.detach().numpy()


SHARE = np.array([0.5, 0.2, 0.01, 0.1])


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("kind", ["svm", "logits"])
def test_shares_of_a_tag_with_a_class_term_add_up(activation, kind):
    made = network(activation)
    tag = WordTags(made.arrays()).explain(3)
    score = tag.add(class_term_score(classifier(made, kind), 0.7, SHARE), 2.0)
    for seed in range(5):
        words, amounts = document(seed)
        found = attribute(made, words, amounts, score)
        rise = found.whole - found.empty
        assert found.word_share_V.sum() == pytest.approx(rise, abs=1e-3)
        assert found.topic_share_H.sum() == pytest.approx(rise, abs=1e-3)
        hidden = topics(made, words, amounts)[None]
        expected = np.exp(decide(made, kind, hidden) / 0.7)
        term = np.log(expected @ SHARE / expected.sum())
        assert found.whole == pytest.approx(tag.value(hidden)[0] + 2 * term[0], abs=1e-4)


@pytest.mark.parametrize("kind", ["svm", "logits"])
def test_gradients_of_the_class_term_are_finite_differences(kind):
    made = network("relu")
    score = class_term_score(classifier(made, kind), 0.7, SHARE)
    hidden = topics(made, *document())
    steps = np.eye(N_TOPICS) * 1e-5
    slopes = (score.value(hidden + steps) - score.value(hidden - steps)) / 2e-5
    np.testing.assert_allclose(score.gradient(hidden[None])[0], slopes, rtol=1e-4, atol=1e-8)


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


@pytest.mark.parametrize(("classifier", "limit"), [("svm", 1e-3), ("softmax", 1e-5)])
def test_shares_of_patches_add_up_to_the_score(classifier, limit):
    model = small_model(classifier)
    found = model.explain(IMAGE)
    assert found.name == model.predict([IMAGE])[0]
    rise = found.whole - found.empty
    assert found.share_S.sum() == pytest.approx(rise, abs=limit)
    assert found.topic_share_H.sum() == pytest.approx(rise, abs=limit)
    scores = model.fitted_.class_head.scores(model.transform([IMAGE]))
    number = model.classes_.tolist().index(found.name)
    if classifier == "svm":
        assert found.whole == pytest.approx(scores[0, number], abs=1e-4)


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


@pytest.mark.parametrize("classifier", ["svm", "softmax"])
def test_the_explained_score_of_a_tag_ranks_it(classifier):
    model = small_model(classifier)
    weight = model.fitted_.choices.class_tag_weight
    assert weight > 0
    factor = "" if weight == 1 else f"{weight:g} "
    hidden = model.transform([IMAGE])
    scores = model.fitted_.tag_scores(hidden, model.fitted_.class_proba(hidden))[0]
    found = [model.explain(IMAGE, tag=tag) for tag in model.tag_names_]
    whole = np.array([each.whole for each in found])
    # Scores are relative to all tags of the photograph, which is the same number for each.
    np.testing.assert_allclose(whole - whole[0], scores - scores[0], atol=1e-4)
    for each in found:
        assert each.share_S.sum() == pytest.approx(each.whole - each.empty, abs=1e-3)
        assert each.score == f"log p({each.name}) + {factor}log p({each.name} | classes)"


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


def test_the_explained_score_of_a_logistic_tag_is_that_which_ranks_it():
    model = small_model("softmax", "sigmoid")
    weight = model.fitted_.choices.class_tag_weight
    hidden = model.transform([IMAGE])
    scores = model.fitted_.tag_scores(hidden, model.fitted_.class_proba(hidden))[0]
    for tag, score in zip(model.tag_names_[:3], scores, strict=False):
        found = model.explain(IMAGE, tag=tag)
        assert found.whole == pytest.approx(score, abs=1e-4)
        assert found.share_S.sum() == pytest.approx(found.whole - found.empty, abs=1e-3)
        factor = "" if weight == 1 else f"{weight:g} "
        assert found.score == f"logit p({tag}) + {factor}log p({tag} | classes)"
