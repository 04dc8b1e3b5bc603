import base64
import io
import json
import threading

import numpy as np
import pytest
from PIL import Image
from tests.drawn import small_model
from tests.serving import build_index, huge_png, make_client, noise, photograph, upload_form

from supdocnade.gallery import build_gallery
from supdocnade.serving import service as service_module
from supdocnade.serving.problems import MEDIA_TYPE, PROBLEM_TYPES


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    gallery, _ = build_index(tmp_path_factory.mktemp("gallery"))
    with make_client(gallery, max_images=4, max_pixels=1_000_000) as found:
        yield found


def problem(response, status, code, file=None):
    """Check that a response is a problem as it should be; return its sentence."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == MEDIA_TYPE
    found = response.json()
    assert (found["status"], found["code"], found.get("file")) == (status, code, file)
    assert found["type"] == f"/docs#{code}"
    assert PROBLEM_TYPES[code] == (status, found["title"])
    assert found["detail"].endswith(".")
    return found["detail"]


def as_json(*contents):
    return {
        "images": [
            {"name": f"{number}.jpg", "data": base64.b64encode(content).decode()}
            for number, content in enumerate(contents)
        ]
    }


def test_answers_are_those_of_the_model(server):
    files = [photograph(number) for number in (0, 9, 20)]
    answer = server.post("/v1/predict", files=upload_form(*files)).json()
    assert answer["errors"] == []
    expected = list(small_model().iter_predictions(files))
    for number, (got, said) in enumerate(zip(answer["predictions"], expected, strict=True)):
        assert (got["number"], got["file"]) == (number, f"{number}.jpg")
        assert (got["label"], got["probability"]) == (said.label, said.probability)
        assert got["probabilities"] == said.probabilities
        assert [(each["tag"], each["probability"]) for each in got["tags"]] == list(said.tags)
        assert got["unsure"] == said.unsure


def test_json_gives_what_multipart_gives(server):
    files = [photograph(0), photograph(9)]
    by_form = server.post("/v1/predict", files=upload_form(*files))
    by_json = server.post("/v1/predict", json=as_json(*files))
    assert by_json.status_code == 200
    assert by_json.json() == by_form.json()
    bare = {"images": [base64.b64encode(files[0]).decode()]}
    (found,) = server.post("/v1/predict", json=bare).json()["predictions"]
    assert found == {**by_form.json()["predictions"][0], "file": "image 0"}


def test_top_gives_so_many_tags(server):
    said = next(iter(small_model().iter_predictions([photograph(0)])))
    found = server.post("/v1/predict?top=3", files=upload_form(photograph(0))).json()
    tags = found["predictions"][0]["tags"]
    assert [each["tag"] for each in tags] == [tag for tag, _ in said.ranked_tags[:3]]


def test_one_bad_image_does_not_spoil_the_others(server):
    files = upload_form(b"nonsense", photograph(0), b"", names=["a.jpg", "b.jpg", "c.jpg"])
    response = server.post("/v1/predict", files=files)
    assert response.status_code == 200
    answer = response.json()
    assert [(each["file"], each["number"]) for each in answer["predictions"]] == [("b.jpg", 1)]
    assert [(each["file"], each["code"]) for each in answer["errors"]] == [
        ("a.jpg", "unreadable_image"),
        ("c.jpg", "unreadable_image"),
    ]
    assert answer["errors"][1]["detail"] == "c.jpg is empty."


def test_bad_images_alone_are_a_problem(server):
    alone = server.post("/v1/predict", files=upload_form(b"nonsense", names=["a.jpg"]))
    assert problem(alone, 422, "unreadable_image", "a.jpg").startswith("a.jpg is no image")
    two = server.post("/v1/predict", files=upload_form(b"x", b"y"))
    problem(two, 422, "unreadable_image")
    assert [each["file"] for each in two.json()["errors"]] == ["0.jpg", "1.jpg"]


def test_many_pixels_are_refused_before_they_are_decoded(server):
    bomb = huge_png(20_000, 20_000)
    assert len(bomb) < 200_000
    for path in ("/v1/predict", "/v1/explain", "/v1/similar"):
        response = server.post(path, files=upload_form(huge_png(2_000, 2_000), names=["big.png"]))
        assert "2000 × 2000" in problem(response, 422, "too_many_pixels", "big.png")
        # Pillow itself refuses the bomb.
        response = server.post(path, files=upload_form(bomb, names=["bomb.png"]))
        problem(response, 422, "unreadable_image", "bomb.png")


def test_requests_that_make_no_sense_are_problems(server):
    post = server.post
    problem(post("/v1/predict", files=upload_form(*[photograph(0)] * 5)), 422, "too_many_images")
    problem(post("/v1/predict", json={"images": []}), 422, "invalid_argument")
    problem(post("/v1/predict", json={"pictures": []}), 422, "invalid_argument")
    problem(post("/v1/predict", content=b"{", headers=JSON), 400, "invalid_request")
    problem(post("/v1/predict", content=b""), 415, "unsupported_media_type")
    sent = {"content-type": "multipart/form-data"}
    problem(post("/v1/predict", content=b"x", headers=sent), 400, "invalid_request")
    sent = {"content-type": "multipart/form-data; boundary=b"}
    for content in (b"x", b"--b\r\n\r\n", b"--b--\r\n", b""):
        response = post("/v1/predict", content=content, headers=sent)
        assert response.status_code in (400, 422), (content, response.text)
    problem(post("/v1/predict", files={"photo": b"x"}), 422, "invalid_argument")
    problem(post("/v1/predict", data={"images": "x"}, files={}), 415, "unsupported_media_type")
    text = {"images": (None, "no file")}
    problem(post("/v1/predict", files=text), 422, "invalid_argument")
    wrong = {"images": [{"name": "a.jpg", "data": "!!"}]}
    problem(post("/v1/predict", json=wrong), 422, "invalid_argument", "a.jpg")
    problem(post("/v1/predict?top=0", files=upload_form(photograph(0))), 422, "invalid_argument")
    problem(server.get("/v1/predict"), 405, "method_not_allowed")
    problem(server.get("/nothing"), 404, "not_found")


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("../../etc/passwd", "../../etc/passwd"),
        ("a\x00b\u202e.jpg", None),
        ("x" * 5000, None),
        ("\u2028\u0007", "?"),
        ("", "image 0"),
    ],
)
def test_odd_names_do_no_harm(server, given, shown):
    body = json.dumps({"images": [{"name": given, "data": "AAAA"}]})
    response = server.post("/v1/predict", content=body, headers=JSON)
    assert response.status_code == 422
    name = response.json()["file"]
    assert len(name) <= 200
    assert "\x00" not in name
    if shown is not None:
        assert name == shown


def test_half_a_character_is_no_json(server):
    body = b'{"images": [{"name": "\\ud800.jpg", "data": "AAAA"}]}'
    problem(server.post("/v1/predict", content=body, headers=JSON), 400, "invalid_request")


def test_a_large_request_is_refused_whether_it_says_so_or_not():
    with make_client(max_request_bytes=20_000, max_held_bytes=30_000) as small:
        problem(small.post("/v1/predict", files=upload_form(noise(300))), 413, "request_too_large")

        def parts():
            for _ in range(100):
                yield b"x" * 1000

        sent = {"content-type": "multipart/form-data; boundary=b"}
        response = small.post("/v1/predict", content=parts(), headers=sent)
        problem(response, 413, "request_too_large")
        assert small.post("/v1/predict", files=upload_form(photograph(0))).status_code == 200
        assert small.service.memory.used == 0


def test_memory_of_all_requests_together_is_limited():
    with make_client(max_request_bytes=20_000, max_held_bytes=20_000) as small:
        small.service.memory.used = 19_000
        response = small.post("/v1/predict", files=upload_form(photograph(0)))
        problem(response, 503, "overloaded")
        assert response.headers["retry-after"] == "1"
        small.service.memory.used = 0
        assert small.post("/v1/predict", files=upload_form(photograph(0))).status_code == 200


def test_a_full_queue_and_a_slow_answer_are_said(monkeypatch):
    monkeypatch.setattr(service_module, "REFUSAL_SECONDS", 0.01)
    with make_client(max_waiting=2, max_images=2, n_workers=1, answer_seconds=0.3) as small:
        release, begun = threading.Event(), threading.Event()
        work = small.service.workers._work
        small.service.workers._work = lambda tasks: begun.set() or (release.wait() and work(tasks))
        slow = []
        thread = threading.Thread(
            target=lambda: slow.append(small.post("/v1/predict", files=upload_form(photograph(0))))
        )
        thread.start()
        begun.wait()
        (first, second) = small.service.workers.submit([None, None])
        response = small.post("/v1/predict", files=upload_form(photograph(0)))
        problem(response, 503, "overloaded")
        assert int(response.headers["retry-after"]) >= 1
        thread.join()
        problem(slow[0], 503, "too_slow")
        assert "retry-after" in slow[0].headers
        first.cancel(), second.cancel()
        # Health is told whatever there is to do.
        assert server_is_there(small)
        release.set()


def server_is_there(found):
    return found.get("/healthz").json() == {"status": "ok"}


def test_a_mistake_is_answered_and_told_to_the_log_alone(caplog):
    with make_client() as broken:
        broken.service.workers._work = lambda tasks: 1 / 0
        response = broken.post("/v1/predict", files=upload_form(photograph(0)))
        sentence = problem(response, 500, "internal_error")
        assert "division" not in sentence
        assert "ZeroDivisionError" in caplog.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_that_dies_is_said_and_replaced():
    with make_client(n_workers=1) as shaken:
        work, dying = shaken.service.workers._work, []

        def die(tasks):
            shaken.service.workers._work = work
            dying.append(threading.current_thread())
            raise SystemExit

        shaken.service.workers._work = die
        response = shaken.post("/v1/predict", files=upload_form(photograph(0)))
        problem(response, 503, "interrupted")
        # What a thread dies of is reported when it has ended: within this test, not the next.
        dying[0].join()
        assert response.headers["retry-after"] == "1"
        again = shaken.post("/v1/predict", files=upload_form(photograph(0)))
        assert again.status_code == 200
        assert shaken.get("/readyz").status_code == 200


def test_explaining_gives_shares_that_add_up_and_a_map(server):
    why = small_model().explain(photograph(0))
    found = server.post("/v1/explain", files=upload_form(photograph(0))).json()
    assert (found["kind"], found["name"]) == ("label", why.name)
    total = found["spoke_for"] + found["spoke_against"]
    assert total == pytest.approx(found["whole"] - found["empty"], abs=1e-6)
    levels = np.asarray(Image.open(io.BytesIO(base64.b64decode(found["map"]))))
    assert levels.shape == (found["height"], found["width"]) == why.size
    assert levels.max() == 255 or levels.min() == 1
    assert len(found["colours"]) == 65
    shares = [abs(each["share"]) for each in found["topics"]]
    assert shares == sorted(shares, reverse=True)


def test_a_class_a_tag_or_a_drawing_can_be_asked_for(server):
    tag, label = small_model().tag_names_[0], small_model().classes_[1]
    files = upload_form(photograph(0))
    assert server.post(f"/v1/explain?tag={tag}", files=files).json()["name"] == tag
    assert server.post(f"/v1/explain?label={label}", files=files).json()["name"] == label
    drawn = server.post("/v1/explain?format=png", files=files)
    assert drawn.headers["content-type"] == "image/png"
    assert drawn.content.startswith(b"\x89PNG")
    for query in ("tag=no such", "label=no such", f"tag={tag}&label={label}"):
        problem(server.post(f"/v1/explain?{query}", files=files), 422, "invalid_argument", "0.jpg")
    problem(server.post("/v1/explain?format=gif", files=files), 422, "invalid_argument")
    several = upload_form(photograph(0), photograph(1))
    problem(server.post("/v1/explain", files=several), 422, "too_many_images")
    cut = upload_form(photograph(0)[:2000], names=["cut.jpg"])
    assert "cut.jpg" in problem(
        server.post("/v1/explain", files=cut), 422, "unreadable_image", "cut.jpg"
    )


def test_similar_photographs_are_the_nearest(server):
    answer = server.post("/v1/similar?top=3", files=upload_form(photograph(5), b"x")).json()
    (found,) = answer["similar"]
    assert len(answer["errors"]) == 1
    distances = [each["distance"] for each in found["photographs"]]
    assert len(distances) == 3
    assert distances == sorted(distances)
    nearest = found["photographs"][0]
    assert nearest["distance"] == 0
    assert nearest["name"].endswith("05.jpg")
    picture = server.get(nearest["picture"])
    assert picture.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(picture.content)).size == (128, 96)


def test_the_gallery_is_browsed_by_class_and_tag(server):
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
    sure = [
        next(each["probability"] for each in photograph["tags"] if each["tag"] == tag)
        for photograph in with_tag["photographs"]
    ]
    assert sure == sorted(sure, reverse=True)
    one = server.get("/v1/gallery/3").json()
    assert one == everything["photographs"][3]
    near = server.get("/v1/gallery/3/similar?top=4").json()["photographs"]
    assert len(near) == 4
    assert 3 not in [each["photograph"] for each in near]
    problem(server.get("/v1/gallery?tag=nothing"), 422, "invalid_argument")
    problem(server.get("/v1/gallery?label=nothing"), 422, "invalid_argument")
    problem(server.get("/v1/gallery/24"), 404, "not_found")
    problem(server.get("/v1/gallery/24/picture"), 404, "not_found")
    problem(server.get("/v1/gallery/-1/picture"), 422, "invalid_argument")


def test_pictures_of_another_index_have_other_addresses(server, tmp_path):
    """Browsers keep pictures for a day; their numbers mean others once a photograph is added."""
    _, photos = build_index(tmp_path)
    (photos / "a.jpg").write_bytes(photograph(7))
    grown, _ = build_gallery(small_model().fitted_, photos, tmp_path / "index")
    before = server.get("/v1/gallery/0").json()["picture"]
    with make_client(grown) as another:
        after = another.get("/v1/gallery/0").json()["picture"]
        assert another.get(after).content != server.get(before).content
    assert after != before


def test_a_server_without_a_gallery_says_so():
    with make_client() as plain:
        assert plain.get("/v1/model").json()["gallery"] is None
        for path in ("/v1/gallery", "/v1/gallery/0", "/v1/gallery/0/picture"):
            problem(plain.get(path), 404, "no_gallery")
        problem(plain.post("/v1/similar", files=upload_form(photograph(0))), 404, "no_gallery")


def test_the_model_describes_itself(server):
    found = server.get("/v1/model").json()
    assert found["classes"] == small_model().classes_.tolist()
    assert found["tags"] == small_model().tag_names_.tolist()
    assert found["limits"]["images"] == 4
    assert found["gallery"] == 24
    assert found["n_images"] == 24


def test_everything_that_is_explored_leads_to_something_that_is_there(server):
    web = server.get("/v1/explore").json()
    topics = {each["topic"] for each in web["topics"]}
    words = {each["word"] for each in web["words"]}
    tags = {each["tag"] for each in web["tags"]}
    labels = {each["label"] for each in web["classes"]}
    assert labels == set(small_model().classes_)
    assert tags == set(small_model().tag_names_)
    for each in (*web["classes"], *web["topics"]):
        assert {word["word"] for word in each["words"]} <= words
        assert set(each["tags"]) <= tags
    for each in (*web["classes"], *web["tags"], *web["words"]):
        assert set(each["topics"]) <= topics
    for each in (*web["topics"], *web["words"], *web["tags"]):
        assert set(each["classes"]) <= labels
    assert all(each["examples"] for each in web["classes"])
    for path in (web["words"][0]["picture"], web["classes"][0]["examples"][0]["picture"]):
        assert server.get(path).content.startswith(b"\xff\xd8\xff")
    problem(server.get("/v1/words/99999/picture"), 404, "not_found")
    problem(server.get("/v1/examples/99999/picture"), 404, "not_found")


def test_figures_are_counted(server):
    before = server.get("/metrics").text
    server.post("/v1/predict", files=upload_form(photograph(0), b"x"))
    after = server.get("/metrics")
    assert after.headers["content-type"].startswith("text/plain")

    def value(text, name):
        lines = [line for line in text.splitlines() if line.startswith(name)]
        return float(lines[0].split()[-1]) if lines else 0.0

    for name in (
        'supdocnade_images_total{outcome="predicted"}',
        'supdocnade_images_total{outcome="unreadable_image"}',
        'supdocnade_requests_total{method="POST",route="/v1/predict",status="200"}',
        "supdocnade_batch_images_count",
    ):
        assert value(after.text, name) >= value(before, name) + 1
    assert value(after.text, "supdocnade_images_waiting") == 0
    assert value(after.text, "supdocnade_held_bytes") == 0


def test_the_description_names_every_problem_and_schema(server):
    described = server.get("/openapi.json").json()
    assert set(described["paths"]) >= {"/v1/predict", "/v1/explain", "/v1/similar", "/v1/model"}
    text = json.dumps(described)
    names = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= set(described["components"]["schemas"])
    answers = described["paths"]["/v1/predict"]["post"]["responses"]
    assert {"200", "400", "401", "413", "415", "422", "503"} <= set(answers)
    assert "Retry-After" in answers["503"]["headers"]
