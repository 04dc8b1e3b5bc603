import io
import os

import numpy as np
import pytest
from PIL import Image
from tests.textures import stripes

from supdocnade.errors import UnreadableImage
from supdocnade.images import decoder
from supdocnade.images.decode import DecodeConfig, decode, encode, reduce_jpeg
from supdocnade.images.decoder import decode_apart

CONFIG, IN_COLOR = DecodeConfig(max_side=50), DecodeConfig(max_side=50, color=True)
LARGE = encode(np.resize(stripes(0), (64, 64)), "JPEG")
"""A JPEG file with more than 2000 pixels."""


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Processes of this test alone."""
    monkeypatch.setattr(decoder, "_idle", [])
    yield
    decoder.end_processes()


def jpeg(n_scans=0, side=64):
    """Return a progressive JPEG file with additional scans."""
    buffer = io.BytesIO()
    Image.fromarray(np.resize(stripes(0), (side, side))).save(buffer, "JPEG", progressive=True)
    content = buffer.getvalue()
    return content[:-2] + n_scans * content[content.rfind(b"\xff\xda") : -2] + content[-2:]


def test_pixels_are_those_of_this_process(tmp_path):
    (tmp_path / "a.jpg").write_bytes(jpeg())
    expected = [decode(jpeg(), CONFIG), decode(jpeg(), IN_COLOR)]
    reduced = reduce_jpeg(LARGE, "large", 2000)
    assert decode(reduced).shape == (32, 32)
    with decode_apart():
        found = [decode(tmp_path / "a.jpg", CONFIG), decode(jpeg(), IN_COLOR)]
        np.testing.assert_array_equal(decode(stripes(0)), stripes(0))
        assert reduce_jpeg(LARGE, "large", 2000) == reduced
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(decoder._idle) == 1


def test_a_photograph_that_ends_its_process_is_named():
    with decode_apart(1):
        with pytest.raises(UnreadableImage, match=r"^slow takes more than 1 seconds to decode\.$"):
            decode(jpeg(90, side=8000), CONFIG, name="slow")
        assert not decoder._idle
        assert decode(jpeg(), CONFIG).shape == (50, 50)
        decoder._idle[0]._process.kill()
        with pytest.raises(UnreadableImage, match=r"^large needs more memory than there is\.$"):
            reduce_jpeg(LARGE, "large", 2000)
        with pytest.raises(UnreadableImage, match=r"^empty is empty\.$"):
            decode(b"", CONFIG, name="empty")
        assert decode(jpeg(), CONFIG).shape == (50, 50)


def test_nothing_is_decoded_that_nobody_waits_for():
    answers = iter([False, True])
    with decode_apart(1, lambda: next(answers)):
        assert decode(jpeg(), CONFIG).shape == (50, 50)
        with pytest.raises(UnreadableImage, match=r"^late was given up\.$"):
            decode(jpeg(), CONFIG, name="late")


def test_modules_beside_photographs_are_not_imported(tmp_path, monkeypatch):
    (tmp_path / "PIL.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)
    with decode_apart():
        assert decode(jpeg(), CONFIG).shape == (50, 50)
    assert os.getpgid(decoder._idle[0]._process.pid) != os.getpgrp()  # Ctrl-C does not reach it.
