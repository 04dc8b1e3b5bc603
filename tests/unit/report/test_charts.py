"""Pictures inside a page."""

import base64

import numpy as np

from supdocnade.images.decode import DecodeConfig, decode
from supdocnade.report.charts import EMPTY, jpeg_uri, mosaic, mosaic_uri


def test_patches_fill_the_rows_of_a_mosaic():
    patches = np.arange(5, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8)
    cells = mosaic(patches)[::2, ::2, 0]
    assert cells.tolist() == [[0, 1, 2, 3], [4, EMPTY, EMPTY, EMPTY], *[[EMPTY] * 4] * 2]


def test_pictures_are_data_uris():
    assert jpeg_uri(b"abc") == "data:image/jpeg;base64,YWJj"
    patches = np.full((16, 8, 8, 3), 200, np.uint8)
    content = base64.b64decode(mosaic_uri(patches).split(",")[1])
    assert decode(content, DecodeConfig(color=True)).shape == (32, 32, 3)
