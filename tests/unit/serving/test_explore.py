import pytest
from tests.scene_model import SETTINGS, columns, scenes, small_model
from tests.serving import make_client, photograph, upload_form

from supdocnade.gallery.build import build_gallery
from supdocnade.report.frequencies import topic_frequencies
from supdocnade.scene.model import scene_model


@pytest.mark.parametrize(("labelled", "tagged"), [(False, True), (True, False), (False, False)])
def test_models_without_classes_or_tags_are_served(labelled, tagged, tmp_path):
    images, labels, tags = columns(scenes())
    model = scene_model(**{**SETTINGS, "max_epochs": 2, "n_topics": 5})
    fitted = model.fit(images, labels if labelled else None, tags if tagged else None).fitted_
    (tmp_path / "photos").mkdir()
    for number in range(4):
        (tmp_path / "photos" / f"{number}.jpg").write_bytes(photograph(number))
    gallery, _, _ = build_gallery(fitted, tmp_path / "photos", tmp_path / "index")
    files = upload_form(photograph(0))
    with make_client(gallery, fitted) as client:
        overview = client.get("/v1/explore").json()
        assert bool(overview["classes"]) == labelled
        assert bool(overview["tags"]) == tagged
        assert overview["topics"]
        (prediction,) = client.post("/v1/predict", files=files).json()["predictions"]
        assert (prediction["label"] is not None) == labelled
        assert tagged or prediction["tags"] == []
        everything = client.get("/v1/gallery").json()
        assert everything["total"] == 4
        assert (everything["photographs"][0]["label"] is not None) == labelled
        assert len(client.get("/v1/gallery/1/similar").json()) == 3
        explained = client.post("/v1/explain", files=files)
        assert explained.status_code == (200 if labelled else 422)
        if not labelled:
            assert explained.json()["code"] == "invalid_argument"
        assert client.get("/openapi.json").status_code == 200


def test_a_tag_is_frequent_in_its_topics():
    fitted = small_model("sigmoid").fitted_
    with make_client(None, fitted) as client:
        tags = client.get("/v1/explore").json()["tags"]
    assert len(tags) == len(fitted.tag_names)
    found, _ = topic_frequencies(fitted)
    assert sum(bool(each["topics"]) for each in tags) > len(tags) / 2
    for each in tags:
        number = fitted.tag_names.index(each["tag"])
        for topic in each["topics"]:
            assert found.share_GX[topic, number] > found.elsewhere_GX[topic, number]
