import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from PIL import Image
from tests.networks import LAYERS, install_network
from tests.textures import as_png, stripes, write_images
from threadpoolctl import threadpool_limits

from supdocnade.errors import InvalidArgument, StorageError, UnreadableImage
from supdocnade.images.decode import DecodeConfig
from supdocnade.images.dense_sift import DenseSIFTConfig, dense_sift
from supdocnade.images.reading import SkippedImage, content_key
from supdocnade.runs import RunOptions
from supdocnade.schema import load, save
from supdocnade.visual_words.describer import NetworkDescriber, SIFTDescriber
from supdocnade.visual_words.encoder import (
    KIND,
    Codebook,
    ImageEncoder,
    ImageWords,
    Regions,
    WordCache,
    encode_images,
)
from supdocnade.visual_words.learn import fit_codebook

CODEBOOK = Codebook(np.random.default_rng(0).random((12, 128)).astype(np.float32))
PLAIN = SIFTDescriber(decoding=DecodeConfig(), sift=DenseSIFTConfig())


def encoder(describer=PLAIN, grid=(2, 2), codebook=CODEBOOK):
    return ImageEncoder(describer=describer, codebook=codebook, regions=Regions.of(grid))


KEY = content_key(b"image")
WORDS = ImageWords(np.array([5, 0, 959, 5], np.int32), key=KEY)
ENCODER = encoder()


def test_an_image_step_by_step():
    image = stripes(0)
    encoded = encoder().encode(image)
    found = dense_sift(image)
    away = np.square(found.values_SD[:, None] - CODEBOOK.centres_KD).sum(axis=2)
    np.testing.assert_array_equal(encoded.words_SM[:, 0], away.argmin(axis=1))
    lower, right = (found.centres_S2 >= (32, 36)).T
    np.testing.assert_array_equal(encoded.ids, 12 * (2 * lower + right) + away.argmin(axis=1))
    assert encoded.size == (64, 72)
    assert encoder().n_features == 48


def test_the_number_of_patches_is_limited():
    many = SIFTDescriber(decoding=DecodeConfig(max_side=1200), sift=DenseSIFTConfig(step=1))
    with pytest.raises(UnreadableImage, match="a has 1411344 patches; the limit is 1048576"):
        encoder(many).encode(np.zeros((64, 64), np.uint8), "a")


def test_256_pixels_have_961_words_even_where_there_is_nothing_to_see():
    assert len(encoder().encode(np.full((256, 256), 200, np.uint8)).ids) == 961


def test_too_small_an_image_is_named(tmp_path):
    small = "is too small or too narrow: patches of 16 need at least 13 × 13 pixels, got 40 × 9"
    with pytest.raises(UnreadableImage, match=rf"holiday {small}\.$"):
        encoder().encode(np.zeros((9, 40), np.uint8), "holiday")
    narrow = SIFTDescriber(decoding=DecodeConfig(max_side=20), sift=DenseSIFTConfig())
    path = tmp_path / "a.png"
    path.write_bytes(as_png(np.zeros((18, 80), np.uint8)))
    for refuse in (narrow.read, lambda source: narrow.check_size(source.read_bytes(), str(path))):
        with pytest.raises(UnreadableImage, match=r"a\.png is too .* got 20 × 4 after resizing\."):
            refuse(path)


def test_fingerprints_differ_where_words_could():
    other_words = Codebook(CODEBOOK.centres_KD + np.float32(1e-6))
    some = [
        encoder(),
        encoder(grid=(1, 1)),
        encoder(codebook=other_words),
        encoder(replace(PLAIN, decoding=DecodeConfig(max_side=100))),
        encoder(replace(PLAIN, sift=DenseSIFTConfig(contrast_floor=0.5))),
        encoder(replace(PLAIN, sift=DenseSIFTConfig(patch_size=(16, 24)))),
        replace(encoder(), mirror=True),
    ]
    assert len({each.fingerprint() for each in some}) == len(some)
    assert encoder().fingerprint() == encoder().fingerprint()


def stored_again(encoder, tmp_path):
    save(tmp_path / "file", "ImageEncoder", encoder)
    return load(tmp_path / "file", "ImageEncoder", ImageEncoder)


def test_a_stored_encoder_is_the_same(tmp_path):
    sift = DenseSIFTConfig(patch_size=(16, 24), contrast_floor=1 / 3)
    before = replace(encoder(replace(PLAIN, sift=sift), grid=[(1, 1), (2, 3)]), mirror=True)
    after = stored_again(before, tmp_path)
    assert after.fingerprint() == before.fingerprint()
    np.testing.assert_array_equal(after.encode(stripes(3)).ids, before.encode(stripes(3)).ids)


SYMMETRIC = [(16, (64, 61)), (16, (40, 93)), (32, (64, 65))]
"""Widths at which the last patch is as far from the edge as the first one. At others a mirror image
has the patches that a grid from the right edge would give."""


@pytest.mark.parametrize(("patch_size", "shape"), SYMMETRIC)
def test_mirrored_words_are_those_of_mirrored_pixels(patch_size, shape):
    image = stripes(5, shape)
    sift = DenseSIFTConfig(patch_size=patch_size)
    codebook = fit_codebook(dense_sift(image, sift).values_SD, 12, seed=0)
    described = replace(PLAIN, sift=sift)
    one = encoder(described, [(1, 1), (2, 2), (2, 3)], codebook)
    both = replace(one, mirror=True)
    here, there = one.encode(image).ids, one.encode(np.fliplr(image)).ids
    assert both.n_features == one.n_features
    found, words = both.encode(image), one.encode(image)
    np.testing.assert_array_equal(found.ids[: len(here)], here)
    np.testing.assert_array_equal(np.sort(found.ids[len(here) :]), np.sort(there))
    np.testing.assert_array_equal(found.words_SM[: len(words.words_SM)], words.words_SM)
    # A mirrored patch is at the place of the patch.
    np.testing.assert_array_equal(found.centres_S2, np.tile(words.centres_S2, (2, 1)))
    np.testing.assert_array_equal(found.patch_size_S, np.tile(words.patch_size_S, 2))
    assert (np.sort(here) != np.sort(there)).any()


def colored(number, shape=(64, 61)):
    return np.stack([stripes(number + i, shape) for i in range(3)], axis=-1)


def network_encoder(tmp_path, monkeypatch, **settings):
    """An encoder of 2 × 2 patches with a network of three maps."""
    describer = NetworkDescriber.find(install_network(tmp_path, monkeypatch, **LAYERS))
    found = [describer.describe(colored(number, (8, 8))) for number in range(6)]
    patches = np.concatenate([each.values_SD for each in found])
    describer = describer.fit(patches, np.array([each.image_F for each in found]))
    codebook = fit_codebook(describer.project(patches), 5, seed=0)
    return ImageEncoder(
        describer=describer, codebook=codebook, regions=Regions.of((1, 2)), **settings
    )


def test_a_patch_has_its_nearest_words(tmp_path, monkeypatch):
    image = colored(1, (8, 8))
    one, three = (network_encoder(tmp_path, monkeypatch, n_nearest=n) for n in (1, 3))
    found = three.encode(image)
    values_SD = three.describer.describe(image).values_SD
    away = np.square(values_SD[:, None] - three.codebook.centres_KD).sum(axis=2)
    np.testing.assert_array_equal(found.words_SM, away.argsort(axis=1)[:, :3])
    np.testing.assert_array_equal(found.words_SM[:, :1], one.encode(image).words_SM)
    regions = np.array([0, 1, 0, 1])
    np.testing.assert_array_equal(found.ids.reshape(4, 3), 5 * regions[:, None] + found.words_SM)
    assert found.features_F.shape == (three.n_image_features,) == (12,)
    assert one.fingerprint() != three.fingerprint()


def test_a_stored_encoder_with_a_network_is_the_same(tmp_path, monkeypatch):
    before = network_encoder(tmp_path, monkeypatch)
    assert before.fingerprint() != replace(before, n_nearest=2).fingerprint()
    after = stored_again(before, tmp_path)
    assert after.fingerprint() == before.fingerprint()
    assert after.map_width == before.map_width == (3, 3, 6)
    image = colored(3, (40, 50))
    np.testing.assert_array_equal(after.encode(image).ids, before.encode(image).ids)
    np.testing.assert_array_equal(after.encode(image).features_F, before.encode(image).features_F)


def test_cells_by_the_definition():
    rng = np.random.default_rng(0)
    for rows, columns in ((1, 1), (2, 2), (3, 5), (7, 1)):
        height, width = 97, 211
        centres = rng.random((300, 2)) * (height, width)
        cells = Regions.of((rows, columns)).cells(centres, (height, width))
        expected = [
            int(rows * y // height) * columns + int(columns * x // width) for y, x in centres
        ]
        assert cells[:, 0].tolist() == expected
        assert set(expected) == set(range(rows * columns))


def test_a_centre_on_a_border_belongs_to_the_later_cell():
    cells = Regions.of((2, 2)).cells(np.array([[4.999, 4.999], [5.0, 5.0]]), (10, 10))
    assert cells[:, 0].tolist() == [0, 3]


def test_a_pyramid_puts_every_patch_into_one_cell_of_each_grid():
    pyramid = Regions.of([(1, 1), (2, 2), (4, 4)])
    cells = pyramid.cells(np.array([[0.0, 0.0], [9.9, 9.9]]), (10, 10))
    assert cells.tolist() == [[0, 1, 5], [0, 4, 20]]
    words = pyramid.words(np.array([[3], [0]]), cells, 10)
    assert words.tolist() == [3, 13, 53, 0, 40, 200]
    assert words.max() < 10 * pyramid.n_regions


@pytest.mark.parametrize("grid", [(), (0, 2), (2, 2, 2), [(1, 1), (2, 0)], (1.5, 2)])
def test_odd_grids_are_refused(grid):
    with pytest.raises(InvalidArgument, match="grid must"):
        Regions.of(grid)


def test_centres_outside_are_refused():
    with pytest.raises(InvalidArgument, match=r"centres must lie within an image of \(10, 10\)"):
        Regions.of((2, 2)).cells(np.array([[10.0, 1.0]]), (10, 10))


def test_cells_of_the_mirror_image_follow():
    centres = np.array([[1.0, 1.0], [9.0, 1.0], [9.0, 8.0]])
    cells = Regions.of([(1, 1), (2, 2)]).cells(centres, (10, 10), mirror=True)
    assert cells.tolist() == [[0, 1], [0, 3], [0, 4], [0, 2], [0, 4], [0, 3]]


def words(images, **options):
    found = encode_images(ENCODER, images, RunOptions(**options))
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
    assert word_cache(tmp_path, n_words=241).get(KEY) is None
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


def test_assignment_is_the_nearest_centre():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(300, 128)).astype(np.float32)
    values = rng.normal(size=(1000, 128)).astype(np.float32)
    distances = ((values[:, None].astype(float) - centres[None]) ** 2).sum(axis=2)
    words = Codebook(centres).assign(values)[:, 0]
    np.testing.assert_array_equal(words, distances.argmin(axis=1))
    assert words.dtype == np.int32


def test_zeros_are_assigned_and_blocks_do_not_matter(monkeypatch):
    centres = np.array([[1, 0], [0, 2]], np.float32)
    centres.setflags(write=False)
    book = Codebook(centres[::-1])
    values = np.array([[2, 0], [0, 0], [0, 3]], np.float64)
    assert book.assign(values)[:, 0].tolist() == [1, 1, 0]
    monkeypatch.setattr("supdocnade.visual_words.encoder.BLOCK", 2)  # One descriptor at a time.
    assert book.assign(values)[:, 0].tolist() == [1, 1, 0]
    assert book.assign(np.empty((0, 2), np.float32))[:, 0].tolist() == []


def test_descriptors_of_another_size_are_refused():
    with pytest.raises(InvalidArgument, match=r"descriptors must have shape \(2,\), got \(3,\)"):
        Codebook(np.eye(2, dtype=np.float32)).assign(np.zeros((1, 3), np.float32))


def test_words_do_not_depend_on_the_number_of_blas_threads():
    rng = np.random.default_rng(1)
    codebook = Codebook(rng.random((240, 128)).astype(np.float32))
    values = rng.random((2000, 128)).astype(np.float32)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"), ThreadPoolExecutor(4) as workers:
            found += workers.map(codebook.assign, [values] * 8)
    for words in found:
        np.testing.assert_array_equal(words, found[0])
