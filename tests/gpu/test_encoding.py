"""Encoding on a GPU: the words equal those of the CPU except for ties."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.textures import as_png, stripes
from tests.visual_word_checks import assert_same_but_for_ties

from supdocnade import BagOfVisualWords
from supdocnade.devices import choose_device
from supdocnade.images.dense_sift import DenseSIFTConfig, dense_sift
from supdocnade.images.dense_sift_torch import describe_many
from supdocnade.run_options import RunOptions
from supdocnade.visual_words.codebook import Codebook
from supdocnade.visual_words.gpu import BatchEncoder, DeviceCodebook
from supdocnade.visual_words.parallel import SkippedImage, encode_images

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

SHAPES = [(250, 300), (300, 250), (225, 300), (77, 301), (250, 300)]
IMAGES = [stripes(number, SHAPES[number % 5]) for number in range(40)]
for _number in (3, 12):
    IMAGES[_number][20:180, 30:200] = 77  # Patches of one colour.
COLORS = [np.stack([image, image[::-1], image[:, ::-1]], axis=-1) for image in IMAGES[:12]]


def fitted(images=IMAGES, **settings):
    settings = {"n_words": 60, "random_state": 0, "sample_size": 3000, "n_examples": 0, **settings}
    return BagOfVisualWords(**settings).fit(images[:10])


def ids(bag, images, **options):
    numbers = options.pop("numbers", None)
    run = RunOptions(device="cuda", **options)
    found = encode_images(bag.encoder_, images, run, numbers=numbers)
    return [each if isinstance(each, SkippedImage) else each.ids for each in found]


BAG = fitted() if torch.cuda.is_available() else None


def test_auto_is_the_gpu():
    assert choose_device("auto").type == choose_device("cuda").type == "cuda"
    assert BagOfVisualWords().device == "auto"


@pytest.mark.parametrize("colors", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"window": "flat", "step": 5},
        {"patch_size": (16, 32)},
        {"patch_size": (12, 24), "root": True, "contrast_floor": 20.0},
    ],
)
def test_descriptors_equal_those_of_the_cpu(settings, colors):
    config = DenseSIFTConfig(**settings)
    images = (COLORS if colors else IMAGES)[:10:5]
    alone = [dense_sift(image, config) for image in images]
    pixels = torch.from_numpy(np.stack(images)).cuda()
    for memory in (2**29, 2**22):  # All at once, and some rows of one image at a time.
        n_seen = 0
        for part in describe_many(pixels, config, memory=memory):
            some = alone[part.images]
            values = np.stack([each.values_SD[part.patches] for each in some])
            contrast = np.stack([each.contrast_S[part.patches] for each in some])
            np.testing.assert_allclose(part.values_BSD.cpu(), values, atol=5e-6)
            np.testing.assert_allclose(part.contrast_BS.cpu(), contrast, rtol=5e-6)
            n_seen += contrast.size
        assert n_seen == sum(len(each.values_SD) for each in alone)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"patch_size": (16, 32), "n_words": 100, "contrast_percentile": 10.0},
        {"root_sift": True, "grid": [(1, 1), (2, 2)]},
        {"keep_constant": False},
        {"max_side": 120},
    ],
)
def test_words_equal_those_of_the_cpu_except_for_ties(settings):
    bag = fitted(**settings)
    assert_same_but_for_ties(bag.encoder_, IMAGES, ids(bag, IMAGES))


def test_images_in_one_tensor():
    images = IMAGES[::5]
    pinned = torch.from_numpy(np.stack(images)).pin_memory()
    batch = BatchEncoder(BAG.encoder_, choose_device("cuda"))
    pending = [batch.start(pinned) for _ in range(3)]
    for each in pending:
        assert_same_but_for_ties(BAG.encoder_, images, each.wait())


def test_words_of_colours_equal_those_of_the_cpu_except_for_ties():
    bag = fitted(COLORS, color=True)
    assert_same_but_for_ties(bag.encoder_, COLORS, ids(bag, COLORS))


@pytest.mark.parametrize("settings", [{"grid": [(1, 1), (2, 3)]}, {"keep_constant": False}])
def test_words_of_mirror_images_equal_those_of_the_cpu_except_for_ties(settings):
    both = replace(fitted(**settings).encoder_, mirror=True)
    found = [each.ids for each in encode_images(both, IMAGES, RunOptions(device="cuda"))]
    assert_same_but_for_ties(both, IMAGES, found)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_few_images(count):
    assert_same_but_for_ties(BAG.encoder_, IMAGES[:count], ids(BAG, IMAGES[:count]))


def test_the_same_words_every_time_and_for_any_number_of_workers():
    first = ids(BAG, IMAGES)
    for n_jobs in (1, 3):
        for one, other in zip(first, ids(BAG, IMAGES, n_jobs=n_jobs), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.filterwarnings("ignore:Please use the new API settings")
@pytest.mark.parametrize("way", ["newer", "older"])
def test_words_do_not_depend_on_torchs_precision_setting(way):
    products = torch.backends.cuda.matmul
    if way == "newer" and not hasattr(products, "fp32_precision"):
        pytest.skip("torch is older than 2.9")
    name, rounded = ("fp32_precision", "tf32") if way == "newer" else ("allow_tf32", True)
    exact, before = ids(BAG, IMAGES), getattr(products, name)
    try:
        setattr(products, name, rounded)
        for one, other in zip(exact, ids(BAG, IMAGES), strict=True):
            np.testing.assert_array_equal(one, other)
        assert getattr(products, name) == rounded
    finally:
        setattr(products, name, before)


def test_bad_images_files_and_the_cache(tmp_path):
    images = [as_png(IMAGES[0]), b"", IMAGES[1], np.zeros((9, 9), np.uint8), *IMAGES[2:9]]
    found = ids(BAG, images, on_error="skip", cache=tmp_path)
    assert [n for n, each in enumerate(found) if isinstance(each, SkippedImage)] == [1, 3]
    good = [each for each in found if not isinstance(each, SkippedImage)]
    assert_same_but_for_ties(BAG.encoder_, IMAGES[:9], good)
    # The device is not part of the cache key: the CPU finds the words in the cache.
    again = encode_images(
        BAG.encoder_, images, RunOptions(device="cpu", on_error="skip", cache=tmp_path)
    )
    for one, other in zip(good, (x for x in again if not isinstance(x, SkippedImage)), strict=True):
        np.testing.assert_array_equal(one, other.ids)


def test_counts_of_the_transformer():
    on_gpu = BAG.set_params(device="cuda").transform(IMAGES)
    on_cpu = BAG.set_params(device="cpu").transform(IMAGES)
    BAG.set_params(device="auto")
    assert abs(on_gpu - on_cpu).sum() <= 2e-3 * on_cpu.sum()


def test_learned_words_do_not_depend_on_the_device():
    one, other = (fitted(device=device) for device in ("cpu", "cuda"))
    assert one.encoder_.fingerprint() == other.encoder_.fingerprint()


@pytest.mark.parametrize("n_words", [60, 20_000])
def test_memory_is_bounded(n_words):
    """Memory beyond the encoder is below 1 GiB for any number of images and words."""
    encoder = BAG.encoder_
    if n_words != 60:
        rng = np.random.default_rng(0)
        centres = rng.random((n_words, 128)).astype(np.float32) / 6
        encoder = type(encoder)(
            describer=encoder.describer, codebook=Codebook(centres), regions=encoder.regions
        )
    device = choose_device("cuda")
    batch = BatchEncoder(encoder, device)
    batch.start(IMAGES[:5]).wait()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    pending = [batch.start([IMAGES[0]] * 256) for _ in range(2)]
    large = np.tile(IMAGES[0], (12, 10))  # 3,000 × 3,000 pixels.
    pending.append(batch.start([large, large]))
    found = [each.wait() for each in pending]
    assert torch.cuda.max_memory_allocated(device) - before < 2**30
    np.testing.assert_array_equal(found[0][0], found[1][255])
    assert len(found[2][0]) == len(BAG.words_in(large).ids)


@pytest.mark.parametrize("n_words", [240, 20_000])
def test_a_codebook_assigns_the_same_words_except_for_ties(n_words):
    rng = np.random.default_rng(0)
    codebook = Codebook(rng.random((n_words, 128)).astype(np.float32))
    values = rng.random((5000, 128)).astype(np.float32)
    ours = codebook.assign(values)
    on_gpu = torch.from_numpy(values).cuda()
    theirs = DeviceCodebook(codebook, torch.device("cuda")).assign(on_gpu).cpu().numpy()
    other = np.flatnonzero(ours != theirs)
    away = [
        np.square(values[other] - codebook.centres_KD[words[other]]).sum(axis=1)
        for words in (ours, theirs)
    ]
    np.testing.assert_allclose(away[0], away[1], rtol=1e-5)
    assert len(other) < 50
