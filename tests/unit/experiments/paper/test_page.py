"""The page shows the results."""

import json
import re
import xml.etree.ElementTree as ET

import pytest
from experiments.paper.page import PAGE, figure, make_page, topic_chart
from experiments.paper.plans import ACCURACY, SUP
from experiments.paper.results import QUALITATIVE, Series, read_results


@pytest.fixture(scope="module")
def page(finished):
    return make_page([finished.folder], prefix="figures/")


def test_figures_and_tables_are_on_the_page(finished, page):
    text, results = page[PAGE], read_results(finished.folder)
    series = Series("paper", SUP, 10, "2×2", ACCURACY, None, ACCURACY)
    assert f"| SupDocNADE, 10 topics, 2×2 | {figure(results, series)} |" in text
    for title in ("All claims", "Variants", "Annotation, tags_free", "Omissions",
                  "Words and tags of the classes", "Numbers in the paper"):  # fmt: skip
        assert f"<summary>{title}</summary>" in text
    assert "its results mean nothing" in text
    assert "| reported: SupDocNADE, 200 topics (on its own tags) | – | 43.87 | – |" in text
    assert "| reported: MMLDA | – | 81.47 |" in text
    baseline = figure(results, Series("paper", "χ² SVM on counts", None, "2×2", ACCURACY))
    assert f"; χ² SVM on counts {baseline};" in text
    assert set(page) == {PAGE, *re.findall(r"\]\((figures/[^)]*)\)", text)}
    assert "<summary>Targets" not in text  # Targets are for full runs.


def test_the_first_table_has_a_verdict_on_every_claim_of_the_paper(page):
    head = page[PAGE].partition("## ")[0]
    rows = [line.strip("| ").split(" | ") for line in head.splitlines() if line[:1] == "|"]
    assert rows[0][1:] == ["LabelMe"]
    found = {row[0]: row[1] for row in rows[2:]}
    verdict = re.compile(r"[+-]\d+\.\d( to [+-]\d+\.\d)?: (holds|not shown|the reverse).*")
    assert verdict.fullmatch(found["classifies better than DocNADE"])
    assert verdict.fullmatch(found["tags: better than DocNADE"])
    assert found["45 topics: better than DocNADE"] == "–"


def test_classes_have_words_tags_and_pictures(finished):
    qualitative = json.loads((finished.folder / QUALITATIVE).read_text())
    assert list(qualitative["classes"]) == ["street", "forest", "highway", "coast"]
    for label, found in qualitative["classes"].items():
        assert (len(found["topics"]), len(found["words"]), len(found["tags"])) == (3, 4, 5)
        assert (finished.folder / "pictures" / f"{label}.png").is_file()
    wrong = [each["class"] != each["predicted"] for each in qualitative["examples"]]
    assert wrong == sorted(wrong)
    assert any(wrong)
    assert not all(wrong)
    for each in qualitative["examples"]:
        label, test = each["photograph"].split("/")[0], finished.protocol.parts(0).test
        assert label == each["class"]
        assert finished.photos.names.index(each["photograph"]) in test


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
