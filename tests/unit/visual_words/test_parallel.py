import joblib
import numpy as np
import pytest
from PIL import Image
from tests.textures import as_png, stripes, write_images

from supdocnade.errors import InvalidArgument, UnreadableImage
from supdocnade.images.decode import DecodeConfig
from supdocnade.images.dense_sift import DenseSIFTConfig
from supdocnade.images.regions import Regions
from supdocnade.runs import RunOptions
from supdocnade.visual_words.cache import content_key
from supdocnade.visual_words.codebook import Codebook
from supdocnade.visual_words.describer import SIFTDescriber
from supdocnade.visual_words.encoder import ImageEncoder
from supdocnade.visual_words.parallel import (
    SkippedImage,
    check_images,
    encode_images,
    map_images,
)

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
        "text.jpg": (b"this is no image", "is no image of a known format"),
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


def test_an_error_that_is_not_about_one_image_ends_the_run():
    def fail(*_):
        raise InvalidArgument("the network 'x' is not installed.")

    with pytest.raises(InvalidArgument, match="not installed"):
        list(map_images(fail, [b""], RunOptions(on_error="skip")))


def test_progress_counts_every_image(tmp_path):
    seen = []
    list(
        map_images(
            lambda *_: 0, list(range(19)), RunOptions(progress=lambda *now: seen.append(now[1:]))
        )
    )
    assert seen == [(done, 19) for done in range(1, 20)]


def test_only_a_few_images_are_ahead_of_the_reader():
    """However many images there are, what was read and not yet used is bounded."""
    started = []
    results = map_images(
        lambda source, *_: started.append(source), list(range(2000)), RunOptions(n_jobs=2)
    )
    next(results)
    assert len(started) < 200
    results.close()


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ("photo.jpg", "got one, 'photo.jpg'"),
        (np.zeros((4, 4), np.uint8), "got an array of shape"),
        (np.zeros((40, 50, 3), np.uint8), r"got an array of shape \(40, 50, 3\)"),
        (5, "got int"),
    ],
)
def test_what_is_no_list_of_images_is_refused(odd, message):
    with pytest.raises(InvalidArgument, match=message):
        check_images(odd)
