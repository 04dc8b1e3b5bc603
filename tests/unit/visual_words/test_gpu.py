"""Encoding in batches, with the code for GPUs on tensors of the CPU."""

import itertools
import pickle
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
import torch
from tests.textures import as_png, stripes, write_images
from tests.visual_word_checks import assert_same_but_for_ties

from supdocnade.errors import BackendUnavailable, UnreadableImage
from supdocnade.images.decode import DecodeConfig
from supdocnade.images.dense_sift import DenseSIFTConfig, dense_sift, patch_places
from supdocnade.images.regions import Regions
from supdocnade.run_options import RunOptions
from supdocnade.visual_words import gpu as batches
from supdocnade.visual_words.cache import WordCache
from supdocnade.visual_words.codebook import Codebook, fit_codebook
from supdocnade.visual_words.describer import SIFTDescriber, patch_colors
from supdocnade.visual_words.encoder import ImageEncoder
from supdocnade.visual_words.gpu import (
    PREFETCH_BYTES,
    BatchEncoder,
    DecodedImage,
    PrefetchWindow,
    encode_batches,
)
from supdocnade.visual_words.parallel import (
    SkippedImage,
    _decode_image,
    encode_images,
    encode_on_device,
)

CPU = torch.device("cpu")
SHAPES = [(64, 72), (72, 64), (40, 90), (64, 72), (33, 34)]
IMAGES = [stripes(number, SHAPES[number % 5]) for number in range(23)]


@cache
def encoder(grid=((2, 2),), keep_constant=True, color=False, n_words=24, **sift):
    """An encoder with words of real patches."""
    config = DenseSIFTConfig(**sift)
    pictures = [in_color(image) if color else image for image in IMAGES[:8]]
    sample = np.concatenate([dense_sift(each, config).values_SD for each in pictures])
    return ImageEncoder(
        describer=SIFTDescriber(
            decoding=DecodeConfig(color=color), sift=config, keep_constant=keep_constant
        ),
        codebook=fit_codebook(sample, n_words, seed=0, max_rounds=3),
        regions=Regions.of(list(grid)),
    )


def in_color(image):
    return np.stack([image, image[::-1], image[:, ::-1]], axis=-1)


def words(images, encoder=None, **options):
    batch = {name: options.pop(name) for name in ("numbers", "cache") if name in options}
    run = RunOptions(**options)
    found = encode_on_device(encoder or PLAIN, images, CPU, run, **batch)
    return [each if isinstance(each, SkippedImage) else each.ids for each in found]


PLAIN = encoder()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"patch_size": (16, 32)},
        {"root": True},
        {"contrast_floor": 20.0, "patch_size": (16, 24), "window": "flat", "step": 5},
        {"grid": ((1, 1), (2, 2), (3, 1))},
        {"color": True},
        {"color": True, "root": True, "contrast_floor": 20.0},
        {"keep_constant": False, "grid": ((1, 1), (2, 2))},
    ],
)
def test_batches_have_the_words_of_each_image(settings):
    images = [image.copy() for image in IMAGES]
    images[3][10:50, 10:60] = 200
    images[5][:] = 7
    if settings.get("color"):
        images = [in_color(image) for image in images]
    found = words(images, encoder(**settings))
    assert_same_but_for_ties(encoder(**settings), images, found)


def test_constant_patches_are_dropped_where_they_are_not_kept():
    images = [IMAGES[0].copy(), np.full((64, 72), 9, np.uint8)]
    images[0][:, 30:] = 0
    some, none = words(images, encoder(keep_constant=False))
    assert 0 < len(some) < len(words(images)[0])
    assert len(none) == 0


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_images(count):
    assert_same_but_for_ties(PLAIN, IMAGES[:count], words(IMAGES[:count]))


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_any_number_of_workers_gives_the_same_words(n_jobs):
    for one, other in zip(words(IMAGES), words(IMAGES, n_jobs=n_jobs), strict=True):
        np.testing.assert_array_equal(one, other)


def test_workers_may_be_processes(tmp_path):
    """What goes to them and what comes back can travel."""
    cache = WordCache(tmp_path, PLAIN.fingerprint(), PLAIN.n_features)
    sent = pickle.loads(pickle.dumps(partial(_decode_image, PLAIN, cache, False)))
    found = pickle.loads(pickle.dumps(sent(IMAGES[0], "image 0", 0)))
    np.testing.assert_array_equal(found.pixels, IMAGES[0])
    assert found.key is not None


def test_some_of_the_images_and_their_progress():
    seen = []
    found = words(IMAGES, numbers=[7, 2, 9], progress=lambda *now: seen.append(now[1:]))
    assert_same_but_for_ties(PLAIN, [IMAGES[n] for n in (7, 2, 9)], found)
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_images_that_are_one_tensor_already():
    images = IMAGES[::5]
    pending = BatchEncoder(PLAIN, CPU).start(torch.from_numpy(np.stack(images)))
    assert_same_but_for_ties(PLAIN, images, pending.wait())


def test_words_do_not_hold_pinned_memory():
    """Each image's words are an array of their own, whatever it was computed with."""
    assert all(each.base is None for each in words(IMAGES))


def test_bad_images_are_skipped_in_their_places(tmp_path):
    paths = write_images(tmp_path, 6)
    images = [*paths[:2], b"", *paths[2:4], np.zeros((9, 40), np.uint8), *paths[4:]]
    found = words(images, on_error="skip")
    assert [type(each) is SkippedImage for each in found] == [n in (2, 5) for n in range(8)]
    assert [found[n].number for n in (2, 5)] == [2, 5]
    assert "image 5 is too small: it has 40 × 9 pixels" in found[5].reason
    good = [each for each in found if not isinstance(each, SkippedImage)]
    assert_same_but_for_ties(PLAIN, [stripes(number) for number in range(6)], good)


def test_a_bad_image_is_an_error_after_those_before_it():
    """Those that a worker was not given together with it: the first alone, then four at a time."""
    found = encode_on_device(PLAIN, [*IMAGES[:13], b"", *IMAGES[13:]], CPU)
    before = [each.ids for each in itertools.islice(found, 13)]
    assert_same_but_for_ties(PLAIN, IMAGES[:13], before)
    with pytest.raises(UnreadableImage, match="image 13 is empty"):
        next(found)


def test_a_cache_is_filled_and_used(tmp_path, monkeypatch):
    kept = WordCache(tmp_path / "cache", PLAIN.fingerprint(), PLAIN.n_features)
    first = words(IMAGES[:9], cache=kept)
    asked = []
    start = BatchEncoder.start
    monkeypatch.setattr(
        BatchEncoder,
        "start",
        lambda self, some, *colors: asked.append(len(some)) or start(self, some, *colors),
    )
    second = words(IMAGES[:12], cache=kept)
    assert sum(asked) == 3
    for one, other in zip(first, second[:9], strict=True):
        np.testing.assert_array_equal(one, other)
    # The CPU's own way to words finds them there, too.
    options = RunOptions(cache=tmp_path / "cache", device="cpu")
    found = [each.ids for each in encode_images(PLAIN, IMAGES[:12], options)]
    for one, other in zip(second, found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_paths_and_bytes_are_images(tmp_path):
    (path,) = write_images(tmp_path, 1)
    found = words([path, str(path), as_png(stripes(0))])
    assert_same_but_for_ties(PLAIN, [stripes(0)] * 3, found)


class Recorder(BatchEncoder):
    """Notes what batches there are."""

    def __init__(self, encoder):
        super().__init__(encoder, CPU)
        self.batches = []

    def start(self, images, color_ids=None):
        self.batches.append(len(images))
        return super().start(images, color_ids)


def test_batches_grow_from_one_image_and_are_bounded(monkeypatch):
    monkeypatch.setattr(batches, "MAX_BATCH_IMAGES", 8)
    recorder, image, window = Recorder(PLAIN), stripes(0, (20, 20)), PrefetchWindow()
    list(encode_batches([DecodedImage(image, None)] * 30, recorder, None, window))
    assert recorder.batches == [1, 2, 4, 8, 8, 7]
    assert window.size(1) == 64
    monkeypatch.setattr(batches, "MAX_BATCH_BYTES", 3 * image.nbytes)
    recorder = Recorder(PLAIN)
    list(encode_batches([DecodedImage(image, None)] * 8, recorder, None, PrefetchWindow()))
    assert recorder.batches == [1, 2, 3, 2]


def test_words_come_one_batch_after_they_were_asked_for():
    """The device has a batch to work on while the next one is gathered; no more are begun."""
    recorder, read = Recorder(PLAIN), []

    def source():
        for number in range(100):
            read.append(number)
            yield DecodedImage(stripes(0, (20, 20)), None)

    found = encode_batches(source(), recorder, None, PrefetchWindow())
    next(found)
    assert recorder.batches == [1, 2]
    assert len(read) == 3


def test_how_many_images_are_decoded_ahead():
    window = PrefetchWindow()
    assert window.size(4) == 4  # Nothing is known of their size.
    window.observe(np.empty((100, 100), np.uint8))
    assert window.size(4) == 256
    window.observe(np.empty(PREFETCH_BYTES // 20, np.uint8))
    assert window.size(4) == 20
    window.observe(np.empty((100, 100), np.uint8))
    assert window.size(4) == 20
    assert window.size(32) == 32


def test_few_images_are_decoded_ahead_where_they_are_large(monkeypatch):
    """Of 60 images, those not yet encoded are never more than two batches and what is ahead."""
    monkeypatch.setattr(batches, "PREFETCH_BYTES", 4 * 64 * 72)
    monkeypatch.setattr(batches, "MAX_BATCH_BYTES", 2 * 64 * 72)
    read, most = [], 0
    original = SIFTDescriber.read

    def noted(self, source, name=""):
        read.append(name)
        return original(self, source, name)

    monkeypatch.setattr(SIFTDescriber, "read", noted)
    for done, _ in enumerate(
        encode_on_device(PLAIN, [stripes(0)] * 60, CPU, RunOptions(n_jobs=2)), start=1
    ):
        most = max(most, len(read) - done)
    assert len(read) == 60
    assert most <= 4 + 2 * 2


def test_the_fingerprint_does_not_know_the_device():
    before = PLAIN.fingerprint()
    words(IMAGES[:2])
    assert PLAIN.fingerprint() == before
    assert "device" not in str(PLAIN.settings())


def test_a_gpu_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BackendUnavailable, match="device 'cuda' is not available"):
        list(encode_images(PLAIN, IMAGES, RunOptions(device="cuda")))


def test_without_a_gpu_images_are_encoded_as_ever(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device in ("auto", "cpu"):
        found = encode_images(PLAIN, IMAGES, RunOptions(device=device))
        for image, each in zip(IMAGES, found, strict=True):
            np.testing.assert_array_equal(each.ids, PLAIN.encode(image).ids)


def test_many_words_are_compared_in_bounded_memory(monkeypatch):
    rng = np.random.default_rng(0)
    large = replace(PLAIN, codebook=Codebook(rng.random((3000, 128)).astype(np.float32) / 6))
    monkeypatch.setattr("supdocnade.visual_words.codebook.BLOCK", 50 * 3000)
    assert_same_but_for_ties(large, IMAGES[:4], words(IMAGES[:4], large))


@pytest.mark.parametrize("settings", [{}, {"keep_constant": False}, {"patch_size": (16, 24)}])
def test_batches_have_the_words_of_both_sides(settings):
    both = replace(encoder(**settings), mirror=True)
    images = [*IMAGES, np.full((64, 72), 7, np.uint8)]
    for image, found in zip(images, words(images, both), strict=True):
        np.testing.assert_array_equal(found, both.encode(image).ids)


@pytest.mark.parametrize("keep_constant", [True, False])
@pytest.mark.parametrize("mirror", [True, False])
def test_words_for_colors_follow_the_others(keep_constant, mirror):
    images = [in_color(image) for image in IMAGES[:6]]
    places = patch_places(images[0].shape[:2], DenseSIFTConfig())
    codebook = fit_codebook(patch_colors(images[0], *places), 5, seed=0)
    plain = encoder(grid=((1, 1), (2, 2)), keep_constant=keep_constant)
    colors = replace(plain, color_codebook=codebook, mirror=mirror)
    images[1] = images[1].copy()
    images[1][:40] = (9, 200, 30)  # Patches without a texture.
    found = words(images, colors)
    for image, ids in zip(images, found, strict=True):
        np.testing.assert_array_equal(np.sort(ids), np.sort(colors.encode(image).ids))
