"""Arrays become files that decode to the same picture."""

import numpy as np
import pytest

from supdocnade.errors import InvalidArgument
from supdocnade.imaging.decode import DecodeConfig, decode
from supdocnade.imaging.encode import encode, write_image


@pytest.fixture(scope="module")
def colors():
    y, x = np.mgrid[0:40, 0:60] / 60
    return np.round(255 * np.stack([x, y, (x + y) / 2], axis=-1)).astype(np.uint8)


def test_png_keeps_every_level(colors):
    np.testing.assert_array_equal(decode(encode(colors), DecodeConfig(color=True)), colors)
    grey = colors[..., 0]
    np.testing.assert_array_equal(decode(encode(grey)), grey)


def test_jpeg_is_close(colors):
    decoded = decode(encode(colors, "JPEG"), DecodeConfig(color=True))
    assert abs(decoded.astype(int) - colors).max() <= 4
    assert len(encode(colors, "JPEG", quality=40)) < len(encode(colors, "JPEG"))


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_same_array_same_bytes(colors, kind):
    strided = np.asfortranarray(colors)
    assert encode(colors, kind) == encode(colors.copy(), kind) == encode(strided, kind)


def test_the_ending_chooses_the_format(tmp_path, colors):
    write_image(tmp_path / "new" / "a.PNG", colors)
    write_image(tmp_path / "a.jpg", colors)
    assert (tmp_path / "new" / "a.PNG").read_bytes() == encode(colors)
    assert (tmp_path / "a.jpg").read_bytes() == encode(colors, "JPEG")


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((4, 4)),
        np.zeros((0, 4), np.uint8),
        np.zeros(4, np.uint8),
    ],
)
def test_other_arrays_are_refused(image):
    with pytest.raises(InvalidArgument, match="image must be uint8"):
        encode(image)


def test_other_settings_are_refused(tmp_path, colors):
    with pytest.raises(InvalidArgument, match="kind must be one of"):
        encode(colors, "GIF")
    with pytest.raises(InvalidArgument, match="quality must be at most 100"):
        encode(colors, "JPEG", quality=101)
    with pytest.raises(InvalidArgument, match="ending of a file's name"):
        write_image(tmp_path / "a.gif", colors)
