import numpy as np
import pytest
from tests.drawn import scenes, small_model

from supdocnade.errors import InvalidArgument

IMAGE = scenes(1, 9)[1].image


@pytest.mark.parametrize(("classifier", "limit"), [("svm", 1e-3), ("softmax", 1e-5)])
def test_shares_of_patches_add_up_to_the_score(classifier, limit):
    model = small_model(classifier)
    found = model.explain(IMAGE)
    assert found.name == model.predict([IMAGE])[0]
    rise = found.whole - found.empty
    assert found.share_S.sum() == pytest.approx(rise, abs=limit)
    assert found.topic_share_H.sum() == pytest.approx(rise, abs=limit)
    scores = model.fitted_.class_scores(model.transform([IMAGE]))
    number = model.classes_.tolist().index(found.name)
    if classifier == "svm":
        assert found.whole == pytest.approx(scores[0, number], abs=1e-4)


def test_any_class_and_any_tag_can_be_explained():
    model = small_model()
    other = model.explain(IMAGE, label="coast")
    assert (other.kind, other.name) == ("label", "coast")
    for tag in model.tag_names_[:4]:
        found = model.explain(IMAGE, tag=tag.upper())
        assert (found.kind, found.name) == ("tag", tag)
        assert found.share_S.sum() == pytest.approx(found.whole - found.empty, abs=1e-3)


@pytest.mark.parametrize("classifier", ["svm", "softmax"])
def test_what_is_explained_of_a_tag_is_what_ranks_it(classifier):
    model = small_model(classifier)
    assert model.fitted_.choices.class_tag_weight > 0
    hidden = model.transform([IMAGE])
    scores = model.fitted_.tag_scores(hidden, model.fitted_.class_proba(hidden))[0]
    found = [model.explain(IMAGE, tag=tag) for tag in model.tag_names_]
    whole = np.array([each.whole for each in found])
    # Scores are relative to all tags of the photograph, which is the same number for each.
    np.testing.assert_allclose(whole - whole[0], scores - scores[0], atol=1e-4)
    for each in found:
        assert each.share_S.sum() == pytest.approx(each.whole - each.empty, abs=1e-3)
        assert each.score == f"log p({each.name}) + log p({each.name} | classes)"


def test_patches_are_those_of_the_photograph():
    model = small_model()
    found = model.explain(IMAGE)
    words = model.fitted_.bag.words_in(IMAGE)
    np.testing.assert_array_equal(found.centres_S2, words.centres_S2)
    assert found.size == words.size == (96, 128)
    assert found.share_S.shape == (len(words.words_S),)


def test_patches_of_one_word_in_one_region_have_one_share():
    model = small_model()
    found, words = model.explain(IMAGE), model.fitted_.bag.words_in(IMAGE)
    for word in np.unique(words.ids):
        assert np.ptp(found.share_S[words.ids == word]) == 0


def test_odd_questions_are_refused():
    model = small_model()
    with pytest.raises(InvalidArgument, match="label must be one of"):
        model.explain(IMAGE, label="moon base")
    with pytest.raises(InvalidArgument, match="tag must be one that the model knows"):
        model.explain(IMAGE, tag="moon base")
    with pytest.raises(InvalidArgument, match="must not both be given"):
        model.explain(IMAGE, label="coast", tag="tree")
