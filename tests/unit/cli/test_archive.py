from pathlib import Path

import pytest
from tests.commands import draw, supdocnade
from tests.scene_model import small_model
from tests.serving import photograph

from supdocnade.cli.archive import default_index
from supdocnade.corpus.disk import Corpus
from supdocnade.estimators.supdocnade import SupDocNADE


def test_several_folders_are_indexed_and_updated(tmp_path):
    small_model().save(tmp_path / "scenes")
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, number in ((one, 0), (two, 1)):
        folder.mkdir()
        (folder / "a.jpg").write_bytes(photograph(number))
    (two / "copy.jpg").write_bytes(photograph(0))
    done = supdocnade("index", tmp_path / "scenes", one, two, "--jobs", 1)
    assert done.code == 0
    index = tmp_path / "scenes.index"
    assert done.out == f"3 photographs indexed in {index}: 3 added\n"
    (two / "a.jpg").unlink()
    (two / "b.jpg").write_bytes(b"no image")
    done = supdocnade("index", tmp_path / "scenes", one, two, "--jobs", 1, "--json")
    assert done.code == 1
    assert done.objects == [
        {
            "index": str(index),
            "n_images": 2,
            **{"added": 0, "changed": 0, "dropped": 1},
            "skipped": [str(two / "b.jpg")],
        }
    ]
    assert f"error: {two / 'b.jpg'}" in done.err
    missing = supdocnade("index", tmp_path / "scenes", one, tmp_path / "none")
    assert missing.code == 1
    assert "none" in missing.err


@pytest.fixture
def indexed(tmp_path):
    """A model, and two folders with its index."""
    small_model().save(tmp_path / "scenes")
    for number, name in enumerate(["one", "two"]):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jpg").write_bytes(photograph(number))
    (tmp_path / "empty").mkdir()
    assert supdocnade("index", tmp_path / "scenes", tmp_path / "one", tmp_path / "two").code == 0
    return tmp_path


def stored(folder):
    """The files of an index and their contents."""
    return {path.name: path.read_bytes() for path in (folder / "scenes.index").iterdir()}


@pytest.mark.parametrize("name", ["tow", "tow.jpg", "tow.txt", "tow.tar", "empty"])
@pytest.mark.parametrize(("before", "options"), [([], []), (["one"], []), (["one"], ["--replace"])])
def test_a_place_without_photographs_changes_nothing(before, options, name, indexed):
    files = stored(indexed)
    places = [indexed / each for each in [*before, name]]
    done = supdocnade("index", indexed / "scenes", *places, *options)
    assert (done.code, done.out) == (1, "")
    assert f"/{name} " in done.err
    assert stored(indexed) == files


def test_photographs_that_cannot_be_read_now_stay_in_an_index(indexed):
    for name in ("one", "two"):
        (indexed / name / "a.jpg").rename(indexed / f"{name}.jpg")
        (indexed / name / "a.jpg").symlink_to(indexed / f"{name}.jpg")
    command = ("index", indexed / "scenes", indexed / "one", indexed / "two")
    (indexed / "two.jpg").rename(indexed / "unplugged.jpg")
    (indexed / "one/b.jpg").write_bytes(photograph(3))
    done = supdocnade(*command)
    line = f"3 photographs indexed in {indexed / 'scenes.index'}"
    assert (done.code, done.out) == (1, f"{line}: 1 added\n")
    assert f"{indexed / 'two/a.jpg'} cannot be read" in done.err
    (indexed / "unplugged.jpg").rename(indexed / "two.jpg")
    done = supdocnade(*command)
    assert (done.code, done.out) == (0, f"{line}: nothing has changed\n")


def test_an_index_is_not_replaced_by_an_empty_one(indexed):
    before = stored(indexed)
    for name in ("one", "two"):
        (indexed / name / "a.jpg").write_bytes(b"not an image")
    for options in ([], ["--replace"]):
        done = supdocnade(
            "index", indexed / "scenes", indexed / "one", indexed / "two", "--quiet", *options
        )
        assert done.code == 1
        assert f"got none: {indexed / 'one' / 'a.jpg'} is" in done.err
        assert stored(indexed) == before


def test_an_index_of_another_model_is_replaced_only_if_asked(indexed):
    before = stored(indexed)
    small_model("sigmoid").save(indexed / "other")
    command = ("index", indexed / "other", indexed / "one", "-o", indexed / "scenes.index")
    done = supdocnade(*command)
    assert (done.code, done.out) == (1, "")
    assert "scenes.index was made with another model" in done.err
    assert "--replace" in done.err
    assert stored(indexed) == before
    done = supdocnade(*command, "--replace")
    assert done.code == 0
    assert "1 photograph indexed" in done.out
    assert supdocnade(*command).code == 0


def test_the_default_index_is_beside_the_model():
    assert default_index(Path("models/scenes")) == Path("models/scenes.index")
    assert default_index(Path(".")).name == f"{Path.cwd().name}.index"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "scenes"
    small_model().save(path)
    return path


def test_a_corpus_has_words_classes_and_tags_to_learn_from(model, tmp_path, monkeypatch):
    monkeypatch.setattr("supdocnade.unfinished.PART_SIZE", 5)
    photos = draw(tmp_path / "photos")
    done = supdocnade("encode", model, photos, "-o", tmp_path / "corpus")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"18 photographs encoded in {tmp_path / 'corpus'}\n"
    corpus = Corpus.open(tmp_path / "corpus")
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
