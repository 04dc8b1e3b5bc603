import base64
import io

import numpy as np
import pytest
from PIL import Image
from tests.scene_model import small_model
from tests.serving import check_problem, huge_png, photograph, tiff, upload_form

from supdocnade.images.reading import content_key
from supdocnade.visual_words.encoder import ImageEncoder


def test_predictions_are_those_of_the_model(server):
    files = [photograph(number) for number in (0, 9, 20)]
    response = server.post("/v1/predict", files=upload_form(*files)).json()
    assert response["errors"] == []
    predictions = list(small_model().iter_predictions(files))
    for number, (got, expected) in enumerate(
        zip(response["predictions"], predictions, strict=True)
    ):
        assert (got["number"], got["file"]) == (number, f"{number}.jpg")
        assert (got["label"], got["probability"]) == (expected.label, expected.probability)
        assert got["probabilities"] == expected.probabilities
        assert [(each["tag"], each["probability"]) for each in got["tags"]] == list(expected.tags)
        assert got["unsure"] == expected.unsure
        assert got["unfamiliar"] == expected.unfamiliar


def test_top_sets_the_number_of_tags(server):
    expected = next(iter(small_model().iter_predictions([photograph(0)])))
    response = server.post("/v1/predict?top=3", files=upload_form(photograph(0))).json()
    tags = response["predictions"][0]["tags"]
    assert [each["tag"] for each in tags] == [tag for tag, _ in expected.ranked_tags[:3]]


def test_unreadable_images_do_not_affect_the_others(server):
    files = upload_form(b"nonsense", photograph(0), b"", names=["a.jpg", "b.jpg", "c.jpg"])
    response = server.post("/v1/predict", files=files)
    assert response.status_code == 200
    body = response.json()
    assert [(each["file"], each["number"]) for each in body["predictions"]] == [("b.jpg", 1)]
    assert [(each["file"], each["code"]) for each in body["errors"]] == [
        ("a.jpg", "unreadable_image"),
        ("c.jpg", "unreadable_image"),
    ]
    assert body["errors"][1]["detail"] == "c.jpg is empty."


def test_request_with_only_unreadable_images_is_a_problem(server):
    one = server.post("/v1/predict", files=upload_form(b"nonsense", names=["a.jpg"]))
    assert check_problem(one, 422, "unreadable_image", "a.jpg").startswith("a.jpg is not an image")
    two = server.post("/v1/predict", files=upload_form(b"x", b"y"))
    check_problem(two, 422, "unreadable_image")
    assert [each["file"] for each in two.json()["errors"]] == ["0.jpg", "1.jpg"]


def test_a_large_photograph_is_read_at_half_its_size(server):
    def sent(width, **options):
        file = io.BytesIO()
        Image.effect_noise((width, 1000), 80).save(file, "JPEG", **options)
        form = upload_form(file.getvalue(), names=["big.jpg"])
        return content_key(file.getvalue()), server.post("/v1/predict", files=form)

    key, found = sent(4000)
    assert found.json()["predictions"][0]["key"] == key
    for _, refused in (sent(4001), sent(2000, progressive=True)):
        problem = check_problem(refused, 422, "too_many_pixels", "big.jpg")
        assert "this server takes 1 megapixels (--set max_megapixels)" in problem


def test_images_with_too_many_pixels_are_refused_before_they_are_decoded(server):
    bomb = huge_png(20_000, 20_000)
    assert len(bomb) < 200_000
    for path in ("/v1/predict", "/v1/explain", "/v1/similar", "/v1/preview"):
        response = server.post(path, files=upload_form(huge_png(2_000, 2_000), names=["big.png"]))
        assert "2000 × 2000" in check_problem(response, 422, "too_many_pixels", "big.png")
        # Pillow itself refuses the bomb.
        response = server.post(path, files=upload_form(bomb, names=["bomb.png"]))
        check_problem(response, 422, "unreadable_image", "bomb.png")


def test_contributions_of_an_explanation_sum_to_the_score(server):
    expected = small_model().explain(photograph(0))
    got = server.post("/v1/explain", files=upload_form(photograph(0))).json()
    assert (got["kind"], got["name"]) == ("label", expected.name)
    total = got["spoke_for"] + got["spoke_against"]
    assert total == pytest.approx(got["whole"] - got["empty"], abs=1e-6)
    levels = np.asarray(Image.open(io.BytesIO(base64.b64decode(got["map"]))))
    assert levels.shape == (got["height"], got["width"]) == expected.size
    assert levels.max() == 255 or levels.min() == 1
    assert len(got["colours"]) == 65


def test_class_or_tag_can_be_requested(server):
    tag, label = small_model().tag_names_[0], small_model().classes_[1]
    files = upload_form(photograph(0))
    assert server.post(f"/v1/explain?tag={tag}", files=files).json()["name"] == tag
    assert server.post(f"/v1/explain?label={label}", files=files).json()["name"] == label


def test_invalid_explain_requests_are_problems(server):
    tag, label = small_model().tag_names_[0], small_model().classes_[1]
    files = upload_form(photograph(0))
    for query in ("tag=no such", "label=no such", f"tag={tag}&label={label}"):
        response = server.post(f"/v1/explain?{query}", files=files)
        check_problem(response, 422, "invalid_argument", "0.jpg")
    two = upload_form(photograph(0), photograph(1))
    check_problem(server.post("/v1/explain", files=two), 422, "too_many_images")
    truncated = upload_form(photograph(0)[:2000], names=["cut.jpg"])
    response = server.post("/v1/explain", files=truncated)
    assert "cut.jpg" in check_problem(response, 422, "unreadable_image", "cut.jpg")


def test_similar_photographs_are_the_nearest(server):
    found = server.post("/v1/similar?limit=3", files=upload_form(photograph(5))).json()
    distances = [each["distance"] for each in found]
    assert len(distances) == 3
    assert distances == sorted(distances)
    nearest = found[0]
    assert nearest["distance"] == 0
    assert nearest["name"].endswith("05.jpg")
    picture = server.get(nearest["picture"])
    assert picture.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(picture.content)).size == (128, 96)


def test_a_preview_is_a_small_jpeg_file(server):
    response = server.post("/v1/preview", files=upload_form(tiff(photograph(0))))
    assert response.headers["content-type"] == "image/jpeg"
    with Image.open(io.BytesIO(response.content)) as image:
        assert (image.format, image.width) == ("JPEG", 128)
    problem = server.post("/v1/preview", files=upload_form(b"x"))
    check_problem(problem, 422, "unreadable_image", file="0.jpg")
    two = upload_form(photograph(0), photograph(1))
    check_problem(server.post("/v1/preview", files=two), 422, "too_many_images")


def test_an_image_that_needs_too_much_memory_does_not_affect_the_others(server, monkeypatch):
    encode = ImageEncoder.encode

    def fail(self, source, name="", *arguments):
        if name == "large.jpg":
            raise MemoryError
        return encode(self, source, name, *arguments)

    monkeypatch.setattr(ImageEncoder, "encode", fail)
    form = upload_form(photograph(0), photograph(1), names=["large.jpg", "other.jpg"])
    answered = server.post("/v1/predict", files=form).json()
    assert [each["file"] for each in answered["predictions"]] == ["other.jpg"]
    assert [each["detail"] for each in answered["errors"]] == [
        "large.jpg needs more memory than there is."
    ]
