import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.scene_model import small_model
from tests.serving import build_index, check_problem, make_client, photograph, upload_form

from supdocnade.gallery.photo_index import Gallery
from supdocnade.scene import corrections as storage
from supdocnade.scene.corrections import CorrectionFile, read_corrections
from supdocnade.serving.uploads import MAX_CORRECTION_BYTES

KEY = "0123456789abcdef0123456789abcdef01234567"


def test_gallery_is_filtered_by_class_and_tag(server):
    everything = server.get("/v1/gallery?limit=200").json()
    assert everything["total"] == len(everything["photographs"]) == 24
    page = server.get("/v1/gallery?limit=5&offset=20").json()
    assert page["photographs"] == everything["photographs"][20:]
    label = small_model().classes_[0]
    of_class = server.get("/v1/gallery", params={"label": label}).json()
    assert {each["label"] for each in of_class["photographs"]} == {label}
    tag = everything["photographs"][0]["tags"][0]["tag"]
    with_tag = server.get("/v1/gallery", params={"tag": tag.upper()}).json()
    assert 0 < with_tag["total"] <= 24
    probabilities = [
        next(each["probability"] for each in photograph["tags"] if each["tag"] == tag)
        for photograph in with_tag["photographs"]
    ]
    assert probabilities == sorted(probabilities, reverse=True)
    (other, *_) = with_tag["tags"]
    assert other["name"] != tag
    both = server.get("/v1/gallery", params={"tag": [tag, other["name"]], "words": "jpg"}).json()
    assert both["total"] == other["count"] > 0
    assert all(0 < each["match"] <= 1 for each in both["photographs"])
    assert sum(each["count"] for each in both["classes"]) == both["total"]
    nothing = server.get("/v1/gallery?words=xyzzy").json()
    assert (nothing["total"], nothing["tags"], nothing["classes"]) == (0, [], [])
    assert len(server.get("/v1/gallery", params={"label": label}).json()["classes"]) == 3
    check_problem(server.get("/v1/gallery?min_probability=2"), 422, "invalid_argument")
    check_problem(server.get("/v1/gallery?tag=nothing"), 422, "invalid_argument")
    check_problem(server.get("/v1/gallery?label=nothing"), 422, "invalid_argument")
    detail = check_problem(server.get("/v1/gallery/3/similar?top=4"), 422, "invalid_argument")
    assert detail == "there is no parameter 'top'; there are limit."
    check_problem(server.get("/v1/model?x"), 422, "invalid_argument")


def test_gallery_is_filtered_by_details(gallery, path):
    with make_client(gallery, corrections=CorrectionFile(path)) as client:
        client.post("/v1/corrections", json={"photograph": 7, "label": "coast"})
        found = client.get("/v1/gallery?state=reviewed").json()
        (photo,) = found["photographs"]
        assert (found["total"], found["reviewed"], found["cameras"]) == (1, 1, [])
        assert (photo["photograph"], photo["label_given"], photo["tags_given"]) == (7, True, False)
        assert (photo["taken"], photo["camera"], photo["rating"]) == (None, None, None)
        everything = client.get("/v1/gallery?state=unreviewed&order=name").json()
        numbers = [each["photograph"] for each in everything["photographs"]]
        assert numbers == [number for number in range(24) if number != 7]
        assert client.get("/v1/gallery?since=2024-01-01&min_rating=1").json()["total"] == 0
        client.post("/v1/corrections", json={"file": gallery.paths[7]})
    for wrong in ("since=soon", "min_rating=6", "state=odd", "order=best"):
        with make_client(gallery) as client:
            check_problem(client.get(f"/v1/gallery?{wrong}"), 422, "invalid_argument")


def test_gallery_describes_a_photograph_and_those_similar_to_it(server):
    everything = server.get("/v1/gallery?limit=200").json()
    assert server.get("/v1/gallery/3").json() == everything["photographs"][3]
    original = Path(everything["photographs"][3]["path"])
    assert original.is_file()
    assert original.as_posix().endswith(everything["photographs"][3]["name"])
    similar = server.get("/v1/gallery/3/similar?limit=4").json()
    assert len(similar) == 4
    assert 3 not in [each["photograph"] for each in similar]
    check_problem(server.get("/v1/gallery/24"), 404, "not_found")
    check_problem(server.get("/v1/gallery/24/picture"), 404, "not_found")
    check_problem(server.get("/v1/gallery/-1/picture"), 422, "invalid_argument")


def test_server_without_a_gallery():
    with make_client() as client:
        assert client.get("/v1/model").json()["gallery"] is None
        for path in ("/v1/gallery", "/v1/gallery/0", "/v1/gallery/0/picture"):
            check_problem(client.get(path), 404, "no_gallery")
        similar = client.post("/v1/similar", files=upload_form(photograph(0)))
        check_problem(similar, 404, "no_gallery")


def test_every_link_of_the_overview_leads_somewhere(server):
    overview = server.get("/v1/explore").json()
    topics = {each["topic"] for each in overview["topics"]}
    tags = {each["tag"] for each in overview["tags"]}
    labels = {each["label"] for each in overview["classes"]}
    assert labels == set(small_model().classes_)
    assert tags == set(small_model().tag_names_)
    for each in (*overview["classes"], *overview["topics"]):
        assert {some["name"] for some in each["tags"]} <= tags
        assert all(some["share"] > some["elsewhere"] for some in each["tags"])
    for each in (*overview["classes"], *overview["tags"]):
        assert set(each["topics"]) <= topics
    for each in overview["tags"]:
        assert set(each["classes"]) <= labels
    for each in overview["topics"]:
        assert {some["name"] for some in each["classes"]} <= labels
    assert all(each["examples"] for each in overview["classes"])
    example = overview["classes"][0]["examples"][0]
    assert server.get(example["picture"]).content.startswith(b"\xff\xd8\xff")
    check_problem(server.get("/v1/examples/99999/picture"), 404, "not_found")


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    return build_index(tmp_path_factory.mktemp("gallery"))[0]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "corrections.jsonl"


@pytest.fixture
def client(gallery, path):
    with make_client(gallery, corrections=CorrectionFile(path)) as client:
        yield client


def test_an_upload_is_corrected_by_the_key_of_its_prediction(client, path):
    (predicted,) = client.post("/v1/predict", files=upload_form(photograph(0))).json()[
        "predictions"
    ]
    sent = {"key": predicted["key"], "file": "0.jpg", "label": "beach", "tags": ["sea", "sea"]}
    response = client.post("/v1/corrections", json=sent)
    assert response.status_code == 200
    assert response.json() == {**sent, "tags": ["sea"], "judged": {}}
    (line,) = path.read_text().splitlines()
    assert json.loads(line)["key"] == storage.read_with_key(photograph(0))[1]
    command = f"supdocnade train PHOTOS --add scenes --corrections {path} -o NEW-MODEL"
    assert client.get("/v1/model").json()["corrections"] == command


def test_a_photograph_of_the_gallery_is_corrected_by_its_number(client, gallery, path):
    client.post("/v1/corrections", json={"photograph": 3, "label": "forest"})
    (correction,) = read_corrections(path).values()
    assert (correction.file_name, correction.key) == (gallery.paths[3], None)
    listed = client.get("/v1/corrections").json()
    expected = {"file": gallery.paths[3], "key": None, "label": "forest", "tags": None}
    expected["judged"] = {}
    assert listed == {"total": 1, "offset": 0, "corrections": [expected]}
    assert client.post("/v1/corrections", json={"file": gallery.paths[3]}).status_code == 200
    assert client.get("/v1/corrections").json()["total"] == 0


def test_corrections_count_in_the_gallery_at_once(path, tmp_path):
    gallery, _ = build_index(tmp_path)
    fitted = small_model().fitted_
    with make_client(gallery, corrections=CorrectionFile(path)) as client:
        before = client.get("/v1/gallery/3").json()
        label = next(each for each in fitted.classes if each != before["label"])
        given = {tag["tag"] for tag in before["tags"]}
        tag = next(each for each in fitted.tag_names if each not in given)
        client.post(
            "/v1/corrections", json={"photograph": 3, "label": label, "tags": [tag.upper()]}
        )
    opened = Gallery.load(tmp_path / "index", fitted)
    with make_client(opened, corrections=CorrectionFile(path)) as client:
        found = client.get("/v1/gallery/3").json()
        assert (found["label"], found["probability"]) == (label, 1.0)
        assert found["tags"] == [{"tag": tag, "probability": 1.0}]
        listed = client.get("/v1/gallery", params={"label": label, "tag": tag}).json()
        assert listed["photographs"][0]["photograph"] == 3
        sent = {"photograph": 3, "label": "harbour", "tags": [tag, "shipwreck"]}
        client.post("/v1/corrections", json=sent)
        found = client.get("/v1/gallery/3").json()
        assert (found["label"], found["probability"]) == ("harbour", 1.0)
        assert [each["tag"] for each in found["tags"]] == [tag, "shipwreck"]
        for words in ("shipwreck", "harbour ship"):
            listed = client.get("/v1/gallery", params={"words": words}).json()
            assert [each["photograph"] for each in listed["photographs"]] == [3]
        assert client.get("/v1/gallery", params={"label": before["label"]}).status_code == 200
        client.post("/v1/corrections", json={"file": opened.paths[3]})
        assert client.get("/v1/gallery/3").json() == before


def test_names_cannot_break_lines_or_name_other_files(client, path):
    sent = {"key": KEY, "file": "a\n{\x00}", "label": " x\ny ", "tags": ["😀", " "]}
    assert client.post("/v1/corrections", json=sent).status_code == 200
    (line,) = path.read_text().splitlines()
    expected = {"file_name": "a {}", "key": KEY, "label": "x y", "tags": ["😀"]}
    assert json.loads(line) == expected
    refused = client.post("/v1/corrections", json={"file": "/etc/passwd", "label": "x"})
    check_problem(refused, 404, "not_found")


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        ({"label": "x"}, 404, "not_found"),
        ({"photograph": 1, "key": KEY}, 422, "invalid_argument"),
        ({"photograph": 10_000}, 404, "not_found"),
        ({"photograph": -1}, 422, "invalid_argument"),
        ({"key": "../../etc/passwd"}, 422, "invalid_argument"),
        ({"key": KEY, "label": "x" * 201}, 422, "invalid_argument"),
        ({"key": KEY, "label": "coast|forest"}, 422, "invalid_argument"),
        ({"key": KEY, "tags": ["x"] * 101}, 422, "invalid_argument"),
        ({"key": KEY, "tags": "x"}, 422, "invalid_argument"),
        ({"key": KEY, "tags": ["x"], "judged": {"y": True}}, 422, "invalid_argument"),
        ({"key": KEY, "judged": {"y": "maybe"}}, 422, "invalid_argument"),
        ({"key": KEY, "path": "/etc/passwd"}, 422, "invalid_argument"),
        ({"key": KEY, "file": "x" * MAX_CORRECTION_BYTES}, 413, "request_too_large"),
        (["x"], 422, "invalid_argument"),
    ],
)
def test_bad_requests_are_refused(client, path, sent, status, code):
    check_problem(client.post("/v1/corrections", json=sent), status, code)
    assert path.read_bytes() == b""
    assert client.service.memory.used == 0


def test_forms_and_foreign_pages_are_refused(client):
    form = client.post("/v1/corrections", files=upload_form(photograph(0)))
    check_problem(form, 415, "unsupported_media_type")
    check_problem(client.post("/v1/corrections", content=b"{"), 415, "unsupported_media_type")
    broken = client.post(
        "/v1/corrections", content=b"{", headers={"content-type": "application/json"}
    )
    check_problem(broken, 400, "invalid_request")
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        foreign = client.post("/v1/corrections", json={"key": KEY, "label": "x"}, headers=headers)
        check_problem(foreign, 403, "foreign_page")
        check_problem(client.get("/v1/corrections", headers=headers), 403, "foreign_page")


def test_a_server_with_a_token_needs_it(path):
    with make_client(corrections=CorrectionFile(path), token="secret") as client:
        check_problem(client.post("/v1/corrections", json={"key": KEY}), 401, "unauthorized")
        check_problem(client.get("/v1/corrections"), 401, "unauthorized")


def test_a_full_file_is_a_problem(client, monkeypatch):
    monkeypatch.setattr(storage, "MAX_BYTES", 10)
    response = client.post("/v1/corrections", json={"key": KEY, "label": "coast"})
    assert "has reached its limit" in check_problem(response, 507, "not_kept")


def test_nothing_is_kept_unless_asked_for():
    with make_client() as client:
        check_problem(client.get("/v1/corrections"), 404, "no_corrections")
        response = client.post("/v1/corrections", json={"key": KEY, "label": "coast"})
        detail = check_problem(response, 404, "no_corrections")
        assert "supdocnade serve --corrections FILE" in detail
        assert client.get("/v1/model").json()["corrections"] is None


def test_the_server_answers_while_a_correction_waits_for_the_disk(gallery, path, monkeypatch):
    file, may_go_on = CorrectionFile(path), threading.Event()
    monkeypatch.setattr(file, "_append", lambda _: may_go_on.wait(20))
    with make_client(gallery, corrections=file) as client, ThreadPoolExecutor(2) as pool:
        adding = pool.submit(client.post, "/v1/corrections", json={"key": KEY, "label": "coast"})
        while not file._lock.locked():
            time.sleep(0.01)
        listing = pool.submit(client.get, "/v1/corrections")
        time.sleep(0.1)
        assert client.get("/healthz").status_code == 200
        assert not may_go_on.is_set()
        may_go_on.set()
        assert (adding.result().status_code, listing.result().status_code) == (200, 200)
