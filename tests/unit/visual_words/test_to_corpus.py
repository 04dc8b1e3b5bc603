import numpy as np
import pytest
from tests.textures import stripes, write_images

from supdocnade import BagOfVisualWords, DocNADE
from supdocnade.errors import InvalidArgument, StorageError, UnreadableImage
from supdocnade.run_options import RunOptions
from supdocnade.visual_words.cache import content_key
from supdocnade.visual_words.encoder import ImageEncoder
from supdocnade.visual_words.to_corpus import encode_corpus

BAG = BagOfVisualWords(n_words=9, random_state=0).fit([stripes(number) for number in range(6)])
ENCODER = BAG.encoder_


def test_a_corpus_has_the_counts_of_its_images(tmp_path):
    paths = write_images(tmp_path / "images", 7)
    labels, tags = list("aab") + [None] * 4, [["sea"], [], None, *[None] * 4]
    seen = []
    corpus, skipped = encode_corpus(
        ENCODER,
        paths,
        tmp_path / "corpus",
        RunOptions(progress=lambda *now: seen.append(now[1:])),
        labels=labels,
        tags=tags,
        shard_size=3,
    )
    assert not skipped
    np.testing.assert_array_equal(corpus.counts().toarray(), BAG.transform(paths).toarray())
    assert corpus.names == [str(path) for path in paths]
    assert corpus.labels == labels
    assert corpus.tags == tags
    assert corpus.keys == [content_key(path.read_bytes()) for path in paths]
    assert len(corpus.shards) == 3
    assert seen == [(done, 7) for done in range(1, 8)]
    model = DocNADE(n_topics=3, max_epochs=2, random_state=0)
    np.testing.assert_array_equal(
        model.fit(corpus).transform(corpus), model.fit(corpus.counts()).transform(corpus.counts())
    )


def test_a_run_that_was_killed_goes_on(tmp_path, monkeypatch):
    paths = write_images(tmp_path / "images", 10)
    expected = BAG.transform(paths).toarray()
    encode, seen = ImageEncoder.encode, []

    def killed(self, source, name="", device="cpu"):
        if len(seen) == 7:
            raise KeyboardInterrupt
        seen.append(name)
        return encode(self, source, name)

    monkeypatch.setattr(ImageEncoder, "encode", killed)
    with pytest.raises(KeyboardInterrupt):
        encode_corpus(ENCODER, paths, tmp_path / "corpus", shard_size=3)
    seen.clear()
    corpus, _ = encode_corpus(ENCODER, paths, tmp_path / "corpus", shard_size=3)
    assert len(seen) == 4
    np.testing.assert_array_equal(corpus.counts().toarray(), expected)


def test_photographs_are_added(tmp_path):
    paths = write_images(tmp_path / "images", 5)
    BAG.encode_corpus(paths[:2], tmp_path / "corpus")
    corpus, _ = BAG.encode_corpus(paths, tmp_path / "corpus")
    assert corpus.names == [str(path) for path in paths]


def test_what_cannot_be_read_is_skipped_and_named(tmp_path):
    paths = [*write_images(tmp_path / "images", 2), tmp_path / "missing.png"]
    with pytest.raises(UnreadableImage, match="missing"):
        encode_corpus(ENCODER, paths, tmp_path / "one")
    corpus, skipped = encode_corpus(ENCODER, paths, tmp_path / "two", RunOptions(on_error="skip"))
    assert len(corpus) == 2
    assert [each.name for each in skipped] == [str(paths[2])]


def test_another_encoder_is_refused(tmp_path):
    paths = write_images(tmp_path / "images", 3)
    encode_corpus(ENCODER, paths, tmp_path / "corpus")
    other = BagOfVisualWords(n_words=9, random_state=1).fit(paths)
    with pytest.raises(StorageError, match="was made with encoder"):
        other.encode_corpus(paths, tmp_path / "corpus")


def test_odd_arguments_are_refused(tmp_path):
    paths = write_images(tmp_path / "images", 2)
    with pytest.raises(
        InvalidArgument, match="labels must have one entry for each of the 2 images"
    ):
        encode_corpus(ENCODER, paths, tmp_path / "corpus", labels=["a"])
    with pytest.raises(InvalidArgument, match="X must name every image once"):
        encode_corpus(ENCODER, [paths[0], paths[0]], tmp_path / "corpus")
