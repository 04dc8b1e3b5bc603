import pytest
from tests.commands import draw, supdocnade
from tests.scene_model import small_model

from supdocnade.corpus.disk import Corpus
from supdocnade.estimators.supdocnade import SupDocNADE


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "scenes"
    small_model().save(path)
    return path


def test_a_corpus_has_words_classes_and_tags_to_learn_from(model, tmp_path):
    photos = draw(tmp_path / "photos")
    done = supdocnade("encode", model, photos, "-o", tmp_path / "corpus", "--shard-size", "5")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"18 photographs encoded in {tmp_path / 'corpus'}\n"
    corpus = Corpus.open(tmp_path / "corpus", verify=True)
    assert corpus.encoder == small_model().fitted_.encoder.fingerprint()
    assert sorted({*corpus.labels}) == ["coast", "forest", "skyline"]
    assert all(
        f"/{label}/" in name for name, label in zip(corpus.names, corpus.labels, strict=True)
    )
    assert all(corpus.tags)
    found, expected = (
        supdocnade("evaluate", model, place, "--json").objects[0]
        for place in (tmp_path / "corpus", photos)
    )
    assert found["accuracy"] == expected["accuracy"]
    assert found["tags"] == expected["tags"]
    assert found["n_images"] == 18
    topics = SupDocNADE(n_topics=8, max_epochs=30, learning_rate=1e-2, random_state=0)
    assert topics.fit(corpus, corpus.labels).score(corpus, corpus.labels) > 0.6


def test_a_folder_without_photographs_is_named(model, tmp_path):
    done = supdocnade("encode", model, tmp_path, "-o", tmp_path / "corpus")
    assert done.code == 1
    assert str(tmp_path) in done.err
    assert done.err.count("\n") == 1
