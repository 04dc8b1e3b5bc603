"""The page says what the results say."""

import json
import re

import pytest

from supdocnade.paper.claims import REPORTED
from supdocnade.paper.page import PAGE, figure, make_page, write_page
from supdocnade.paper.plans import ACCURACY, SUP
from supdocnade.paper.qualitative import SHOWN
from supdocnade.paper.results import Series, read_results


@pytest.fixture(scope="module")
def page(finished):
    return make_page([finished.folder], pictures="figures/")


def test_figures_and_tables_are_on_the_page(finished, page):
    text, kept = page[PAGE], read_results(finished.folder)
    series = Series("paper", SUP, 10, "2×2", ACCURACY, None, ACCURACY)
    assert f"| SupDocNADE, 10 topics, 2×2 | {figure(kept, series)} |" in text
    for title in ("What holds and what does not", "1. Accuracy against", "2. Variants",
                  "4. Annotation: tags_free", "5. Classes and their words", "What was left out",
                  "What the paper reports"):  # fmt: skip
        assert f"### {title}" in text
    assert "its figures mean nothing" in text
    assert "| reported: SupDocNADE, 200 topics (on its own tags) | – | 43.87 | – |" in text
    assert "| reported: MMLDA | – | 81.47 |" in text
    yardstick = figure(kept, Series("paper", "χ² SVM on counts", None, "2×2", ACCURACY))
    assert f"; χ² SVM on counts {yardstick};" in text
    assert set(page) == {PAGE, *re.findall(r"\]\((figures/[^)]*)\)", text)}
    assert "What was wanted" not in text  # Targets are for full runs.


def test_the_page_is_written_with_its_figures(finished, tmp_path):
    write_page(tmp_path / PAGE, [finished.folder])
    text = (tmp_path / PAGE).read_text()
    for name in re.findall(r"!\[[^\]]*\]\(([^)]*)\)", text):
        assert (tmp_path / name).is_file()


def test_classes_are_shown_with_words_tags_and_pictures(finished):
    shown = json.loads((finished.folder / SHOWN).read_text())
    assert list(shown["classes"]) == ["street", "forest", "highway", "coast"]
    for label, found in shown["classes"].items():
        assert (len(found["topics"]), len(found["words"]), len(found["tags"])) == (3, 4, 5)
        assert (finished.folder / "pictures" / f"{label}.png").is_file()
    wrong = [each["class"] != each["predicted"] for each in shown["examples"]]
    assert wrong == sorted(wrong)
    assert any(wrong)
    assert not all(wrong)
    for each in shown["examples"]:
        label, test = each["photograph"].split("/")[0], finished.protocol.parts(0).test
        assert label == each["class"]
        assert finished.photos.names.index(each["photograph"]) in test


def test_what_the_paper_reports_is_in_its_words():
    """The figures of the paper's text, each with the place where it stands."""
    values = {
        (each.dataset, each.method.split(",")[0], each.metric): each.value for each in REPORTED
    }
    assert values["scene15", "SupDocNADE", "accuracy"] == 73.36
    assert values["labelme", "DocNADE", "f_measure"] == 43.32
    assert values["uiuc", "SupDocNADE", "f_measure"] == 46.95
    assert values["labelme", "MMLDA", "accuracy"] == 81.47
    assert all("section" in each.where for each in REPORTED)
