import numpy as np
import pytest
import torch
from tests.drawn import small_model

from supdocnade.errors import InvalidArgument
from supdocnade.report.class_words import associate, class_associations, topic_associations

# Three topics; two regions of three visual words, then two tags.
W = np.array(
    [
        # region 0     region 1     tags
        [0.0, 4.0, 1.0, 0.0, 0.0, 1.0, 5.0, 0.0],
        [2.0, 0.0, 1.0, 6.0, 0.0, 1.0, 1.0, 3.0],
        [9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0],
    ]
)


def test_weights_are_averaged_over_topics_and_the_best_region_counts():
    found = associate(W, [0, 1], ["sky", "sea"], n_visual_words=3)
    assert found.topics == (0, 1)
    assert [(each.word, each.weight) for each in found.words] == [(0, 3.0), (1, 2.0), (2, 1.0)]
    assert found.words[0].region_weights == (1.0, 3.0)
    assert found.tags == (("sky", 3.0), ("sea", 1.5))


def test_so_many_words_and_tags_as_asked():
    found = associate(W, [1], ["sky", "sea"], n_visual_words=3, n_words=1, n_tags=1)
    assert [each.word for each in found.words] == [0]
    assert found.tags == (("sea", 3.0),)
    bare = associate(W[:, :6], [0], [], n_visual_words=3)
    assert bare.tags == ()
    assert [each.word for each in bare.words] == [1, 2, 0]


def test_odd_arguments_are_refused():
    with pytest.raises(InvalidArgument, match="at least one topic"):
        associate(W, [], ["sky", "sea"], n_visual_words=3)
    with pytest.raises(InvalidArgument, match="components"):
        associate(W, [0], ["sky"], n_visual_words=3)


def test_the_topics_of_a_class_are_those_of_U():
    fitted = small_model().fitted_
    found = class_associations(fitted)
    assert [each.label for each in found] == list(fitted.classes)
    U = fitted.topics.network_.label_weight.detach()
    for each, row in zip(found, U, strict=True):
        best = torch.topk(row, 3)
        assert each.topics == tuple(best.indices.tolist())
        assert each.topic_weights == tuple(best.values.tolist())
        assert each.words == topic_associations(fitted, each.topics).words
        assert len(each.words) == 4
        assert len(each.tags) == 5
        assert len(each.words[0].region_weights) == 4


def test_tags_with_logistic_outputs_have_the_weights_of_these():
    fitted = small_model("softmax", "sigmoid").fitted_
    found = topic_associations(fitted, [2])
    weight_A = fitted.network["tag_weight"][:, 2]
    assert found.tags[0] == (fitted.tag_names[weight_A.argmax()], weight_A.max())
    words = fitted.network["word_embedding"][:, 2].reshape(4, -1)
    assert found.words[0].word == words.max(axis=0).argmax()
