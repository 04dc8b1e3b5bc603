"""Charts are well-formed SVG that shows every value."""

import base64
import xml.etree.ElementTree as ET

import numpy as np

from supdocnade.images.decode import DecodeConfig, decode
from supdocnade.report.charts import EMPTY, jpeg_uri, mosaic, mosaic_uri, topic_chart


def test_a_topic_chart_shows_every_method():
    lines = {"a < b": [(25, 70.0, 1.0), (50, 75.0, 0.5)], "c": [(50, 71.0, 0.0)]}
    chart = topic_chart(lines, {"level": 72.0}, title="t & u", y_label="accuracy")
    root = ET.fromstring(chart)
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a < b", "c", "level", "25", "50", "topics", "accuracy"} <= set(texts)
    circles = list(root.iter("{http://www.w3.org/2000/svg}circle"))
    assert len(circles) == 3
    # Higher means are higher on the page.
    heights = {each[0].text: float(each.get("cy")) for each in circles}
    assert heights["a < b, 50 topics: 75.0 ± 0.5"] < heights["a < b, 25 topics: 70.0 ± 1.0"]


def test_patches_fill_the_rows_of_a_mosaic():
    patches = np.arange(5, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8)
    cells = mosaic(patches)[::2, ::2, 0]
    assert cells.tolist() == [[0, 1, 2, 3], [4, EMPTY, EMPTY, EMPTY], *[[EMPTY] * 4] * 2]


def test_pictures_are_data_uris():
    assert jpeg_uri(b"abc") == "data:image/jpeg;base64,YWJj"
    patches = np.full((16, 8, 8, 3), 200, np.uint8)
    content = base64.b64decode(mosaic_uri(patches).split(",")[1])
    assert decode(content, DecodeConfig(color=True)).shape == (32, 32, 3)
