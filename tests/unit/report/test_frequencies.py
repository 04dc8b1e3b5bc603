import numpy as np
import pytest
from scipy import sparse
from tests.scene_model import columns, scenes, small_model

from supdocnade.report.frequencies import Frequencies, jpeg_uri, topic_frequencies

PRESENT = sparse.csr_array([[1, 0, 1], [1, 1, 0], [1, 0, 0], [0, 0, 1]])
MEMBERS = np.array([[1, 0, 1], [1, 0, 1], [0, 0, 1], [0, 0, 1]], bool)


def test_names_that_set_a_group_apart_come_with_both_shares():
    found = Frequencies.count(MEMBERS, PRESENT, ["sky", "sea", "car"])
    sky = {"name": "sky", "share": 1.0, "elsewhere": 0.5}
    assert found.of_group(0) == [sky, {"name": "sea", "share": 0.5, "elsewhere": 0.0}]
    assert found.of_group(0, limit=1) == [sky]
    assert found.of_group(1) == []  # It has no photographs.
    # No photograph is elsewhere.
    assert [(each["name"], each["elsewhere"]) for each in found.of_group(2, limit=2)] == [
        ("sky", None),
        ("car", None),
    ]
    assert found.of_name(0, 2) == [2, 0]
    assert found.of_name(2, 3) == [2]


@pytest.mark.parametrize("output", ["words", "sigmoid"])
def test_tags_and_classes_of_a_topic_are_those_of_its_photographs(output):
    fitted = small_model(output).fitted_
    images, labels, tags = columns(scenes())
    hidden = small_model(output).transform(images)
    of_tags, of_classes = topic_frequencies(fitted)
    for topic, activation in enumerate(fitted.rotation.rotate(hidden).T):
        rows = [row for row in np.argsort(-activation, kind="stable")[:3] if activation[row] > 0]
        for each in of_tags.of_group(topic):
            assert each["share"] == np.mean([each["name"] in tags[row] for row in rows])
        for each in of_classes.of_group(topic):
            assert each["share"] == np.mean([labels[row] == each["name"] for row in rows])


def test_pictures_are_data_uris():
    assert jpeg_uri(b"abc") == "data:image/jpeg;base64,YWJj"
