"""Charts are well-formed SVG that shows every value."""

import xml.etree.ElementTree as ET

from supdocnade.report.charts import topic_chart


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
