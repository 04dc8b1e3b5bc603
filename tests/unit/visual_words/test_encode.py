from dataclasses import replace
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from PIL import Image
from tests.textures import as_png, stripes, write_images

from supdocnade.errors import StorageError, UnreadableImage
from supdocnade.images.decode import DecodeConfig
from supdocnade.images.dense_sift import DenseSIFTConfig
from supdocnade.images.reading import SkippedImage, content_key
from supdocnade.images.regions import Regions
from supdocnade.runs import RunOptions
from supdocnade.schema import save
from supdocnade.visual_words.codebook import Codebook
from supdocnade.visual_words.describer import SIFTDescriber
from supdocnade.visual_words.encode import KIND, WordCache, encode_images
from supdocnade.visual_words.encoder import ImageEncoder, ImageWords

KEY = content_key(b"image")
WORDS = ImageWords(np.array([5, 0, 959, 5], np.int32), key=KEY)
ENCODER = ImageEncoder(
    describer=SIFTDescriber(decoding=DecodeConfig(), sift=DenseSIFTConfig()),
    codebook=Codebook(np.random.default_rng(0).random((12, 128)).astype(np.float32)),
    regions=Regions.of((2, 2)),
)


def words(images, **options):
    numbers = options.pop("numbers", None)
    found = encode_images(ENCODER, images, RunOptions(**options), numbers=numbers)
    return [each if isinstance(each, SkippedImage) else each.ids for each in found]


def assert_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n_jobs", [1, 2, 3, -1])
def test_any_number_of_workers_gives_the_same_words(n_jobs):
    images = [stripes(number) for number in range(21)]
    assert_same(words(images, n_jobs=n_jobs), [ENCODER.encode(image).ids for image in images])


def test_processes_give_the_same_words():
    images = [stripes(number) for number in range(9)]
    with joblib.parallel_config("loky", n_jobs=2):
        assert_same(words(images), words(images, n_jobs=1))


def test_paths_bytes_arrays_and_pillow_images(tmp_path):
    (path,) = write_images(tmp_path, 1)
    image = stripes(0)
    kinds = [path, str(path), as_png(image), image, Image.fromarray(image)]
    assert_same(words(kinds), 5 * [ENCODER.encode(image).ids])
    assert_same(words(kinds, cache=tmp_path / "cache"), 5 * [ENCODER.encode(image).ids])


@pytest.mark.parametrize("cached", [False, True])
def test_keys_are_those_of_the_contents(tmp_path, cached):
    images = [*write_images(tmp_path, 2), as_png(stripes(2)), stripes(3), b""]
    options = RunOptions(on_error="skip", cache=tmp_path / "cache" if cached else None)
    *found, bad = encode_images(ENCODER, images, options=options)
    contents = [path.read_bytes() for path in images[:2]] + images[2:4]
    assert [each.key for each in found] == [content_key(content) for content in contents]
    assert_same([each.ids for each in found], words(images[:4]))
    assert isinstance(bad, SkippedImage)


def test_what_is_in_the_cache_is_not_read_again(tmp_path, monkeypatch):
    paths = write_images(tmp_path / "images", 5)
    first = words(paths, cache=tmp_path / "cache")
    renamed = [path.rename(path.with_stem(f"other-{path.stem}")) for path in paths]

    def fail(*_):
        raise AssertionError("an image was encoded again")

    monkeypatch.setattr(ImageEncoder, "encode", fail)
    assert_same(words(renamed, cache=tmp_path / "cache"), first)


def test_a_run_that_was_killed_goes_on(tmp_path, monkeypatch):
    paths = write_images(tmp_path / "images", 20)
    expected = words(paths)
    encode, seen = ImageEncoder.encode, []

    def killed(self, source, name="", device="cpu"):
        if len(seen) == 11:
            raise KeyboardInterrupt
        seen.append(name)
        return encode(self, source, name)

    monkeypatch.setattr(ImageEncoder, "encode", killed)
    with pytest.raises(KeyboardInterrupt):
        words(paths, cache=tmp_path / "cache")
    seen.clear()
    assert_same(words(paths, cache=tmp_path / "cache"), expected)
    assert len(seen) == 9


def test_a_changed_image_is_read_again(tmp_path):
    paths = write_images(tmp_path / "images", 1)
    words(paths, cache=tmp_path / "cache")
    paths[0].write_bytes(as_png(stripes(77)))
    assert_same(words(paths, cache=tmp_path / "cache"), [ENCODER.encode(stripes(77)).ids])


def bad_files(folder):
    """One file of every kind that goes wrong, with the words that must be said about it."""
    folder.mkdir()
    good = as_png(stripes(0))
    made = {
        "empty.jpg": (b"", "is empty"),
        "cut.png": (good[: len(good) // 2], "is damaged"),
        "text.jpg": (b"this is no image", "is not an image that can be read"),
        "one.png": (as_png(np.zeros((1, 1), np.uint8)), "need at least 13 × 13"),
        "small.png": (as_png(stripes(0, (12, 50))), "need at least 13 × 13"),
        "bomb.png": (_bomb(), "pixels"),
    }
    reasons = {}
    for name, (content, reason) in made.items():
        (folder / name).write_bytes(content)
        reasons[folder / name] = reason
    reasons[folder / "vanished.jpg"] = "cannot be read: No such file"
    (folder / "folder.jpg").mkdir()
    reasons[folder / "folder.jpg"] = "cannot be read: Is a directory"
    return reasons


def _bomb():
    """A small file that says of itself to have 60,000 × 60,000 pixels."""
    content = bytearray(as_png(np.zeros((1, 1), np.uint8)))
    import zlib

    content[16:24] = (60_000).to_bytes(4, "big") * 2
    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4, "big")
    return bytes(content)


@pytest.mark.parametrize("cached", [False, True])
def test_bad_files_are_skipped_and_named(tmp_path, cached):
    reasons = bad_files(tmp_path / "bad")
    good = write_images(tmp_path / "good", 3)
    # Right by its contents, wrong by its name; and all of one colour: both are images.
    (tmp_path / "good" / "png.jpg").write_bytes(as_png(stripes(4)))
    (tmp_path / "good" / "plain.png").write_bytes(as_png(np.full((64, 64), 9, np.uint8)))
    images = [good[0], *reasons, tmp_path / "good" / "png.jpg", tmp_path / "good" / "plain.png"]
    cache = tmp_path / "cache" if cached else None
    found = words(images, on_error="skip", n_jobs=2, cache=cache)
    skipped = [each for each in found if isinstance(each, SkippedImage)]
    assert [each.number for each in skipped] == list(range(1, 1 + len(reasons)))
    for each, (path, reason) in zip(skipped, reasons.items(), strict=True):
        assert each.name == str(path)
        assert str(path) in each.reason
        assert reason in each.reason


def test_a_bad_file_is_an_error_unless_asked(tmp_path):
    for path, reason in bad_files(tmp_path / "bad").items():
        with pytest.raises(UnreadableImage, match=reason) as error:
            words([stripes(0), path])
        assert str(path) in str(error.value)


def word_cache(folder, n_words=240, n_image_features=0):
    """A cache of an encoder with four regions."""
    encoder = SimpleNamespace(
        fingerprint=lambda: str(n_words),
        n_features=4 * n_words,
        n_image_features=n_image_features,
    )
    return WordCache(folder, encoder)


def test_words_come_back(tmp_path):
    cache = word_cache(tmp_path)
    assert cache.get(KEY) is None
    cache.put(WORDS)
    found = cache.get(KEY)
    assert (found.ids.dtype, found.features_F, found.key) == (np.int32, None, KEY)
    np.testing.assert_array_equal(found.ids, WORDS.ids)
    cache.put(replace(WORDS, ids=np.empty(0, np.int32)))
    assert cache.get(KEY).ids.size == 0


def test_features_come_back(tmp_path):
    cache = word_cache(tmp_path, n_image_features=3)
    features = np.array([0.5, 0.25, 3.0], np.float32)
    cache.put(replace(WORDS, features_F=features))
    found = cache.get(KEY)
    np.testing.assert_array_equal(found.ids, WORDS.ids)
    np.testing.assert_array_equal(found.features_F, features)
    assert word_cache(tmp_path, n_image_features=4).get(KEY) is None


def test_another_encoder_has_words_of_its_own(tmp_path):
    word_cache(tmp_path).put(WORDS)
    assert word_cache(tmp_path, n_words=241).get(KEY) is None


def test_every_damage_counts_as_missing(tmp_path):
    cache = word_cache(tmp_path)
    cache.put(WORDS)
    (path,) = (p for p in tmp_path.rglob("*") if p.is_file())
    path.write_bytes(path.read_bytes()[:-1])
    assert cache.get(KEY) is None
    for odd in (replace(WORDS, ids=WORDS.ids + 1), replace(WORDS, key="0")):
        save(path, KIND, odd)
        assert cache.get(KEY) is None
    cache.put(WORDS)
    np.testing.assert_array_equal(cache.get(KEY).ids, WORDS.ids)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file cannot be a cache"):
        word_cache(tmp_path / "file")


def test_a_disk_without_room_is_named(tmp_path, monkeypatch):
    cache = word_cache(tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(StorageError, match="cannot be written: No space left on device"):
        cache.put(WORDS)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
