import numpy as np
import pytest
from tests.networks import install_network
from tests.textures import stripes, write_images

from supdocnade import BagOfVisualWords, DocNADE
from supdocnade.errors import InvalidArgument, StorageError, UnreadableImage
from supdocnade.images.reading import content_key
from supdocnade.runs import RunOptions
from supdocnade.visual_words.encoder import ImageEncoder
from supdocnade.visual_words.to_corpus import (
    FEATURES,
    WORDS,
    encode_corpus,
    read_features,
)

BAG = BagOfVisualWords(n_words=9, random_state=0).fit([stripes(number) for number in range(6)])
ENCODER = BAG.encoder_


def test_a_corpus_has_every_image_once_in_the_order_of_the_seed(tmp_path, monkeypatch):
    monkeypatch.setattr("supdocnade.unfinished.PART_SIZE", 6)
    paths = write_images(tmp_path / "images", 20)
    labels, tags = ["a"] * 10 + ["b"] * 10, [[str(number)] for number in range(20)]
    seen = []
    one, skipped = encode_corpus(
        ENCODER,
        paths,
        tmp_path / "one",
        RunOptions(progress=lambda *now: seen.append(now[1:])),
        labels=labels,
        tags=tags,
    )
    assert not skipped
    rows = [paths.index(type(paths[0])(name)) for name in one.names]
    assert sorted(rows) == list(range(20))
    assert rows != sorted(rows)
    assert {*one.labels[:6]} == {"a", "b"}
    assert one.labels == [labels[row] for row in rows]
    assert one.tags == [tags[row] for row in rows]
    np.testing.assert_array_equal(one.counts().toarray(), BAG.transform(paths).toarray()[rows])
    assert [len(each) for each in one.shards] == [6, 6, 6, 2]
    assert list(dict.fromkeys(seen)) == [(done, 20) for done in range(1, 21)]
    assert not (tmp_path / "one.partial").exists()
    assert one.keys == [content_key(paths[row].read_bytes()) for row in rows]
    again, _ = encode_corpus(
        ENCODER, paths, tmp_path / "2", RunOptions(n_jobs=2), labels=labels, tags=tags
    )
    other, _ = encode_corpus(ENCODER, paths, tmp_path / "3", seed=1)
    assert again.fingerprint() == one.fingerprint()
    assert other.names != one.names


def test_a_run_that_was_killed_reads_no_image_again(tmp_path, monkeypatch):
    monkeypatch.setattr("supdocnade.unfinished.PART_SIZE", 3)
    paths = write_images(tmp_path / "images", 10)
    whole, _ = encode_corpus(ENCODER, paths, tmp_path / "whole")
    encode, seen = ImageEncoder.encode, []

    def killed(self, source, name="", device="cpu"):
        if len(seen) == 7:
            raise KeyboardInterrupt
        seen.append(name)
        return encode(self, source, name)

    monkeypatch.setattr(ImageEncoder, "encode", killed)
    with pytest.raises(KeyboardInterrupt):
        encode_corpus(ENCODER, paths, tmp_path / "corpus")
    assert not (tmp_path / "corpus").exists()
    with pytest.raises(StorageError, match="other settings"):
        encode_corpus(ENCODER, paths, tmp_path / "corpus", seed=1)
    seen.clear()
    corpus, _ = encode_corpus(ENCODER, paths, tmp_path / "corpus")
    assert len(seen) == 10 - 7
    assert corpus.fingerprint() == whole.fingerprint()
    with pytest.raises(StorageError, match="corpus must be a new or an empty folder"):
        encode_corpus(ENCODER, paths, tmp_path / "corpus")


def test_a_run_names_and_skips_what_cannot_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr("supdocnade.unfinished.PART_SIZE", 1)
    paths = [*write_images(tmp_path / "images", 5), tmp_path / "missing.png"]
    skip = RunOptions(on_error="skip")
    with pytest.raises(UnreadableImage, match=r"missing\.png"):
        encode_corpus(ENCODER, paths, tmp_path / "one")
    one, skipped = encode_corpus(ENCODER, paths, tmp_path / "one", skip)
    assert [(each.number, each.name) for each in skipped] == [(5, str(paths[5]))]
    assert len(one) == 5
    with pytest.raises(UnreadableImage, match="none of the 1 images"):
        encode_corpus(ENCODER, paths[5:], tmp_path / "two", skip)
    assert not [*tmp_path.glob("two*")]


def test_the_features_of_images_are_stored_beside_their_words(tmp_path, monkeypatch):
    monkeypatch.setattr("supdocnade.unfinished.PART_SIZE", 2)
    paths = write_images(tmp_path / "images", 5)
    network = install_network(tmp_path / "networks", monkeypatch)
    bag = BagOfVisualWords(n_words=4, features=network, random_state=0).fit(paths)
    corpus, _ = encode_corpus(bag.encoder_, paths, tmp_path / "corpus")
    features = np.concatenate(list(read_features(corpus)))
    expected = [bag.encoder_.encode(name).features_F for name in corpus.names]
    np.testing.assert_array_equal(features, expected)
    (tmp_path / "corpus" / FEATURES.format(2)).replace(tmp_path / "corpus" / FEATURES.format(0))
    with pytest.raises(
        StorageError, match=r"features-00000\.safetensors is damaged: features must have shape \(2,"
    ):
        list(read_features(corpus))


def test_the_visual_words_are_stored_in_the_corpus(tmp_path):
    corpus, _ = BAG.encode_corpus(write_images(tmp_path / "images", 4), tmp_path / "corpus")
    stored = BagOfVisualWords.load(corpus.folder / WORDS)
    assert stored.encoder_.fingerprint() == corpus.encoder == ENCODER.fingerprint()
    model = DocNADE(n_topics=3, max_epochs=2, random_state=0)
    np.testing.assert_array_equal(
        model.fit(corpus).transform(corpus), model.fit(corpus.counts()).transform(corpus.counts())
    )


def test_odd_arguments_are_refused(tmp_path):
    paths = write_images(tmp_path / "images", 2)
    with pytest.raises(
        InvalidArgument, match="labels must have one entry for each of the 2 images"
    ):
        encode_corpus(ENCODER, paths, tmp_path / "corpus", labels=["a"])
    with pytest.raises(InvalidArgument, match="X must name every image once"):
        encode_corpus(ENCODER, [paths[0], paths[0]], tmp_path / "corpus")
