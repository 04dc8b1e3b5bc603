"""One path from any image to its grey levels, and one sentence for what is none."""

import io

import numpy as np
import pytest
from PIL import Image
from tests.disks import permissions_count
from tests.textures import iptc_segment

from supdocnade.errors import InvalidArgument, UnreadableImage
from supdocnade.images.decode import (
    DecodeConfig,
    decode,
    encode,
    image_size,
    read_embedded_keywords,
    write_image,
)


@pytest.fixture(scope="module")
def colors():
    """A smooth picture, which every format keeps nearly as it is."""
    y, x = np.mgrid[0:40, 0:60] / 60
    return np.round(255 * np.stack([x, y, (x + y) / 2], axis=-1)).astype(np.uint8)


def file_of(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def turned(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


@pytest.mark.parametrize(
    ("kind", "options", "tolerance"),
    [
        ("PNG", {}, 0),
        ("BMP", {}, 0),
        ("TIFF", {}, 0),
        ("WEBP", {"lossless": True}, 0),
        ("JPEG", {"quality": 95}, 4),
        ("AVIF", {"quality": 90}, 6),
        ("GIF", {}, 24),
    ],
)
def test_every_format_gives_the_same_picture(tmp_path, colors, kind, options, tolerance):
    image = Image.fromarray(colors)
    content = file_of(image, kind, **options)
    path = tmp_path / "picture.wrong_extension"
    path.write_bytes(content)
    expected = decode(colors).astype(int)
    for source in (path, str(path), content, bytearray(content)):
        grey = decode(source)
        assert grey.shape == (40, 60)
        assert grey.dtype == np.uint8
        assert abs(grey.astype(int) - expected).max() <= tolerance
    color = decode(content, DecodeConfig(color=True))
    assert color.shape == (40, 60, 3)


def test_grey_by_hand():
    red, green, blue = (decode(np.full((2, 2, 3), rgb, np.uint8))[0, 0] for rgb in np.eye(3) * 255)
    assert (red, green, blue) == (76, 150, 29)  # 0.299, 0.587 and 0.114 of 255.


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "TIFF", "AVIF"])
def test_every_format_with_a_noted_rotation_is_turned_once(colors, kind):
    exif = Image.Exif()
    exif[0x0112] = 6
    content = file_of(Image.fromarray(np.rot90(colors).copy()), kind, exif=exif)
    grey = decode(content).astype(int)
    assert grey.shape == (40, 60)
    assert abs(grey - decode(colors).astype(int)).mean() < 4


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "JPEG"])
def test_a_note_that_cannot_be_read_is_left_alone(colors, kind):
    content = file_of(Image.fromarray(colors), kind, exif=b"Exif\0\0garbagegarbage")
    assert decode(content).shape == (40, 60)


@pytest.mark.parametrize(
    ("mode", "hidden"), [("L", 0), ("RGB", (0, 0, 0)), ("1", 0), ("I;16", 0), ("P", 0)]
)
def test_a_colour_declared_transparent_is_white(mode, hidden):
    content = file_of(Image.new(mode, (20, 20), hidden), "PNG", transparency=hidden)
    if mode == "I;16" and "transparency" not in Image.open(io.BytesIO(content)).info:
        pytest.skip("this Pillow does not write it for sixteen bits")
    assert (decode(content) == 255).all()


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (Image.new("L", (0, 5)), "the image has 0 × 5 pixels"),
        (Image.new("F", (5, 5)), "the image has Pillow's mode 'F'"),
        (Image.fromarray(np.full((5, 5), 70_000, np.int32)), "the image has Pillow's mode 'I'"),
    ],
)
def test_images_that_cannot_be_read_are_refused(image, message):
    with pytest.raises(UnreadableImage, match=message):
        decode(image)


def test_all_kinds_of_pixels(colors):
    image = Image.fromarray(colors)
    grey = decode(colors)
    alpha = image.copy()
    alpha.putalpha(255)
    assert np.array_equal(decode(file_of(alpha, "PNG")), grey)
    clear = image.copy()
    clear.putalpha(0)
    assert (decode(file_of(clear, "PNG")) == 255).all()
    sixteen = Image.fromarray(grey.astype(np.uint16) * 257)
    assert np.array_equal(decode(file_of(sixteen, "PNG")), grey)
    assert np.array_equal(decode(file_of(sixteen, "TIFF")), grey)
    ink = decode(file_of(image.convert("CMYK"), "TIFF"))
    assert abs(ink.astype(int) - grey).max() <= 1
    palette = decode(file_of(image.quantize(256), "PNG"))
    assert abs(palette.astype(int) - grey).max() <= 24
    assert set(np.unique(decode(file_of(image.convert("1"), "PNG")))) <= {0, 255}
    assert np.array_equal(decode(file_of(image.convert("LA"), "PNG")), grey)
    assert np.array_equal(decode(image), grey)


def test_arrays(colors):
    grey = decode(colors)
    assert np.array_equal(decode(grey), grey)
    assert np.array_equal(decode(grey[..., None]), grey)
    assert np.array_equal(decode(grey / 255), grey)
    assert np.array_equal(decode(grey.astype(np.uint16) * 257), grey)
    assert np.array_equal(decode((grey.astype(np.uint16) * 257).astype(">u2")), grey)
    assert np.array_equal(decode(grey[::-1])[::-1], grey)
    for bad, message in (
        (grey.astype(int), "must be uint8, uint16, bool or floats, got int64"),
        (grey / 100, r"must lie within \[0, 1\]"),
        (np.full((3, 3), np.nan), r"must lie within \[0, 1\]"),
        (np.zeros((3, 3, 2), np.uint8), r"must have shape .* got \(3, 3, 2\)"),
        (np.zeros((0, 3), np.uint8), r"must have shape .* got \(0, 3\)"),
    ):
        with pytest.raises(UnreadableImage, match=message):
            decode(bad)
    with pytest.raises(InvalidArgument, match="must be a path, bytes, an array or a PIL image"):
        decode(3)


@pytest.mark.parametrize(
    ("shape", "settings", "expected"),
    [
        ((40, 60), {"max_side": 30}, (20, 30)),
        ((60, 40), {"max_side": 90}, (90, 60)),
        ((60, 40), {"max_side": 90, "upscale": False}, (60, 40)),
        ((60, 40), {"max_side": 30, "upscale": False}, (30, 20)),
        ((1, 500), {"max_side": 100}, (1, 100)),
        ((60, 40), {}, (60, 40)),
    ],
)
def test_the_longest_side_becomes_exactly_as_asked(shape, settings, expected):
    grey = np.full(shape, 77, np.uint8)
    resized = decode(grey, DecodeConfig(**settings))
    assert resized.shape == expected
    assert (resized == 77).all()


def test_only_the_first_frame_of_a_moving_picture_is_read(colors):
    frames = [Image.fromarray(colors), Image.fromarray(255 - colors)]
    content = file_of(frames[0], "WEBP", lossless=True, save_all=True, append_images=frames[1:])
    np.testing.assert_array_equal(decode(content), decode(colors))


def test_bad_files_are_named_with_the_reason(tmp_path, colors):
    whole = file_of(Image.fromarray(colors), "JPEG")
    cases = {
        "empty.jpg": (b"", "is empty"),
        "text.jpg": (b"Dear reader, this is no image.", "is not an image that can be read"),
        "cut.jpg": (whole[: len(whole) // 2], r"is damaged: .*[Tt]runcated"),
        "phone.heic": (
            b"\0\0\0\x18ftypheic" + b"\0" * 100,
            "is a HEIC image, which needs an extra",
        ),
    }
    for name, (content, message) in cases.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(UnreadableImage, match=message) as caught:
            decode(path)
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(UnreadableImage, match=r"none\.jpg cannot be read: No such file"):
        decode(tmp_path / "none.jpg")
    with pytest.raises(UnreadableImage, match="cannot be read: Is a directory"):
        decode(tmp_path)


def test_a_file_without_permission_is_named(tmp_path):
    path = tmp_path / "locked.png"
    path.write_bytes(b"x")
    path.chmod(0)
    with permissions_count(), pytest.raises(UnreadableImage, match="Permission denied"):
        decode(path)


def test_too_many_pixels_are_refused_before_they_are_decoded():
    bomb = file_of(Image.new("1", (14_000, 14_000)), "PNG")
    assert len(bomb) < 500_000
    with pytest.raises(UnreadableImage, match=r"bomb.png is too large: .*100 megapixels"):
        decode(bomb, name="bomb.png")


@pytest.mark.parametrize("size", [(100_001, 1), (1, 100_001)])
def test_too_long_sides_are_refused(size):
    with pytest.raises(UnreadableImage, match=r"strip\.png is too long and narrow: it has"):
        decode(file_of(Image.new("1", size), "PNG"), name="strip.png")


def with_scans(content, number):
    """A progressive JPEG file, whose last scan is repeated."""
    last = content[content.rindex(b"\xff\xda") : -2]
    return content[:-2] + last * (number - content.count(b"\xff\xda")) + content[-2:]


def test_too_many_scans_are_refused_before_they_are_decoded(colors):
    content = file_of(Image.fromarray(colors), "JPEG", progressive=True)
    assert decode(with_scans(content, 100)).shape == (40, 60)
    bomb = with_scans(content, 101)
    with pytest.raises(UnreadableImage, match=r"^bomb\.jpg has more than 100 scans\.$"):
        decode(bomb, name="bomb.jpg")


def test_a_jpeg_strip_is_decoded_at_a_reduced_size(colors):
    strip = file_of(Image.fromarray(np.tile(colors[:3], (1, 50, 1))), "JPEG")
    assert decode(strip, DecodeConfig(max_side=32), reduced=True).shape == (1, 32)


@pytest.fixture
def small_limits(monkeypatch):
    """Limits as they are for photographs of more than 100 megapixels."""
    monkeypatch.setattr("supdocnade.images.decode.MAX_PIXELS", 1000)
    monkeypatch.setattr("supdocnade.images.decode.MAX_JPEG_PIXELS", 5000)


@pytest.mark.parametrize("pillow_limit", [10**6, 1100], ids=["opened", "refused by Pillow"])
@pytest.mark.parametrize("kind", ["JPEG", "MPO"])
def test_large_jpeg_files_are_decoded_at_a_reduced_size(
    colors, kind, pillow_limit, small_limits, monkeypatch
):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", pillow_limit)
    content = file_of(Image.fromarray(colors), kind, quality=95)  # 2400 pixels.
    half = np.asarray(Image.fromarray(colors).resize((30, 20), Image.Resampling.BOX))
    for config in (DecodeConfig(color=True), DecodeConfig()):
        found = decode(content, config).astype(int)
        expected = decode(half, config)
        assert found.shape == expected.shape
        assert abs(found - expected).mean() < 3
    assert decode(content, DecodeConfig(max_side=30)).shape == (20, 30)
    assert image_size(content) == (60, 40)


@pytest.mark.parametrize("pillow_limit", [10**6, 1000])
def test_images_above_the_limits_are_too_large(colors, pillow_limit, small_limits, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", pillow_limit)
    with pytest.raises(UnreadableImage, match=r"a\.png is too large: .*the limit is"):
        decode(file_of(Image.fromarray(colors), "PNG"), name="a.png")
    large = file_of(Image.fromarray(np.tile(colors, (2, 2, 1))), "JPEG")
    with pytest.raises(UnreadableImage, match=r"a\.jpg is too large: 0 megapixels; the limit is"):
        decode(large, name="a.jpg")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"])
def test_the_size_is_known_without_the_pixels(colors, kind):
    content = file_of(Image.fromarray(colors), kind)
    assert image_size(content) == (60, 40)
    if kind in ("PNG", "BMP"):
        # Most of the pixels are gone, which only decoding finds out.
        half = content[: len(content) // 2]
        assert image_size(half) == (60, 40)
        with pytest.raises(UnreadableImage, match=r"a\.png is damaged"):
            decode(half, name="a.png")
    with pytest.raises(UnreadableImage, match=r"a\.png is not an image"):
        image_size(b"nothing", "a.png")
    with pytest.raises(UnreadableImage, match=r"a\.png is empty"):
        image_size(b"", "a.png")


# Arrays become files that decode to the same picture.


def test_the_ending_chooses_the_format(tmp_path, colors):
    write_image(tmp_path / "new" / "a.PNG", colors)
    write_image(tmp_path / "a.jpg", colors)
    assert (tmp_path / "new" / "a.PNG").read_bytes() == encode(colors)
    assert (tmp_path / "a.jpg").read_bytes() == encode(colors, "JPEG")


PACKET = b"<x:xmpmeta xmlns:x='adobe:ns:meta/'/>"


def image():
    return Image.fromarray(np.arange(60, dtype=np.uint8).reshape(6, 10))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.jpg", {"xmp": PACKET}),
        ("a.webp", {"xmp": PACKET}),
        ("a.avif", {"xmp": PACKET + b"\0\0"}),
        ("a.tif", {"tiffinfo": {700: PACKET}}),
    ],
)
def test_packets_of_xmp(tmp_path, name, options):
    image().save(tmp_path / name, **options)
    assert read_embedded_keywords(tmp_path / name) == (PACKET, [])


@pytest.mark.parametrize(
    ("data_sets", "expected"),
    [
        ([((2, 25), b"sea")], ["sea"]),
        ([((2, 25), b"sea"), ((2, 120), b"caption"), ((2, 25), b"sky")], ["sea", "sky"]),
        ([((2, 25), "Küste".encode())], ["Küste"]),
        ([((2, 25), "Küste".encode("latin-1"))], ["Küste"]),
        ([((1, 90), b"\x1b%G"), ((2, 25), b"K\xfcste")], ["K\ufffdste"]),
        ([((2, 120), b"caption")], []),
    ],
)
def test_keywords_of_iptc(tmp_path, data_sets, expected):
    image().save(tmp_path / "a.jpg", extra=iptc_segment(*data_sets))
    assert read_embedded_keywords(tmp_path / "a.jpg") == (b"", expected)


def test_other_endings_are_refused(tmp_path, colors):
    with pytest.raises(InvalidArgument, match="ending of a file's name"):
        write_image(tmp_path / "a.gif", colors)
