import numpy as np
import pytest
from tests.texts import CITY, FOREST, LABELS, SEA

from supdocnade import SupDocNADE
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.estimators.text_model import (
    TextModel,
    check_folder,
    count_words,
    read_topics,
    split_texts,
)
from supdocnade.folders.texts import Texts

WORDS = {"lowercase": True, "stop_words": None, "ngram_range": (1, 1)}


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, 15)) for words in [SEA, CITY, FOREST] * 20]
    counts, vocabulary = count_words(texts, WORDS)
    estimator = SupDocNADE(6, learning_rate=1e-2, max_epochs=10, random_state=0)
    estimator.fit(counts, list(LABELS) * 20)
    return TextModel.of(estimator, counts, vocabulary, WORDS, {"accuracy": 0.5})


def test_topics_have_the_words_of_their_texts(model):
    texts = [" ".join(words) for words in (SEA, CITY, FOREST)]
    topics = model.topics(texts)
    assert topics.shape == (3, len(model.words))
    for words, best in zip((SEA, CITY, FOREST), topics.argmax(axis=1), strict=True):
        assert {each.word for each in model.words[best][:4]} <= set(words)


def test_words_are_those_of_top_words(model):
    texts = [" ".join(words) for words in (SEA, CITY, FOREST)]
    counts = model.count(texts)
    assert counts.sum() == 27
    _, words = read_topics(model.estimator, counts, model.vocabulary, 3)
    expected = model.estimator.top_words(3, model.vocabulary, documents=counts)
    assert [[each.word for each in topic] for topic in words] == expected


def test_a_saved_model_has_the_same_topics(model, tmp_path, recwarn):
    model.save(tmp_path)
    loaded = TextModel.load(tmp_path)
    texts = ["a boat in the harbour", "unknown", ""]
    np.testing.assert_array_equal(loaded.topics(texts), model.topics(texts))
    assert (loaded.words, loaded.vocabulary) == (model.words, model.vocabulary)
    assert loaded.metrics == model.metrics
    assert model.metrics["accuracy"] == 0.5
    assert not recwarn.list


def test_ngrams_stop_words_and_limits():
    texts = ["The sea the sand", "the sea the Sand", "oak"]
    settings = {"lowercase": True, "stop_words": ["the"], "ngram_range": (1, 2)}
    counts, words = count_words(texts, settings, min_df=2)
    assert words == ("sand", "sea", "sea sand")
    assert counts.toarray().tolist() == [[1, 1, 1], [1, 1, 1], [0, 0, 0]]
    with pytest.raises(InvalidArgument, match=r"the texts cannot be counted: .*vocabulary"):
        count_words(["the"], settings)


def test_other_folders_are_not_overwritten(model, tmp_path):
    check_folder(tmp_path, force=False)
    check_folder(tmp_path / "new", force=False)
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(StorageError, match="is in the way"):
        check_folder(tmp_path, force=True)
    model.save(tmp_path / "model")
    with pytest.raises(StorageError, match="--force replaces it"):
        check_folder(tmp_path / "model", force=False)
    check_folder(tmp_path / "model", force=True)


def test_texts_are_learned_with_their_classes():
    rng = np.random.default_rng(0)
    names = [f"{number}" for number in range(60)]
    texts = [" ".join(rng.choice(words, 15)) for words in [SEA, CITY, FOREST] * 20]
    parts = split_texts(Texts(names, texts, list(LABELS) * 20), 0.2, random_state=0)
    assert [len(part.texts) for part in parts] == [48, 12]
    assert sorted(parts[0].names + parts[1].names) == sorted(names)
    settings = {"vectorizer": WORDS, "limits": {"min_df": 1}, "n_topics": 6}
    learned = TextModel.learn(*parts, **settings)
    assert set(learned.classes) == set(LABELS)
    assert (learned.metrics["n_documents"], learned.metrics["n_labelled"]) == (48, 12)
    assert learned.metrics["perplexity"] < learned.metrics["unigram_perplexity"]
    unlabelled = TextModel.learn(*parts, **settings, with_classes=False)
    assert unlabelled.classes == ()
    assert unlabelled.metrics["accuracy"] is None
    few = Texts(["1"], ["sea sea"], [None])
    with pytest.raises(InvalidArgument, match="must have 2 words to learn, got 1"):
        TextModel.learn(few, parts[1], **settings)
