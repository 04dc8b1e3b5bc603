import tracemalloc

import pytest
from tests.serving import check_problem, make_client, noise, photograph, upload_form

from supdocnade.scene.corrections import CorrectionFile

JSON = {"content-type": "application/json"}


def test_malformed_requests_are_problems(server):
    post = server.post
    too_many = upload_form(*[photograph(0)] * 5)
    check_problem(post("/v1/predict", files=too_many), 422, "too_many_images")
    check_problem(post("/v1/predict", json={"images": []}), 415, "unsupported_media_type")
    check_problem(post("/v1/predict", content=b""), 415, "unsupported_media_type")
    headers = {"content-type": "multipart/form-data"}
    check_problem(post("/v1/predict", content=b"x", headers=headers), 400, "invalid_request")
    headers = {"content-type": "multipart/form-data; boundary=b"}
    for content in (b"x", b"--b\r\n\r\n", b"--b--\r\n", b""):
        response = post("/v1/predict", content=content, headers=headers)
        assert response.status_code in (400, 422), (content, response.text)
    check_problem(post("/v1/predict", files={"photo": b"x"}), 422, "invalid_argument")
    form = post("/v1/predict", data={"images": "x"}, files={})
    check_problem(form, 415, "unsupported_media_type")
    text = {"images": (None, "no file")}
    check_problem(post("/v1/predict", files=text), 422, "invalid_argument")
    no_tags = post("/v1/predict?top=0", files=upload_form(photograph(0)))
    check_problem(no_tags, 422, "invalid_argument")
    check_problem(server.get("/v1/predict"), 405, "method_not_allowed")
    check_problem(server.get("/nothing"), 404, "not_found")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("../../etc/passwd", "../../etc/passwd"),
        ("a\x00b\u202e.jpg", None),
        ("x" * 1500, None),
        ("\u2028", "?"),
    ],
)
def test_names_are_made_printable(server, name, expected):
    response = server.post("/v1/predict", files=upload_form(b"AAA", names=[name]))
    assert response.status_code == 422
    shown = response.json()["file"]
    assert len(shown) <= 200
    assert "\x00" not in shown
    if expected is not None:
        assert shown == expected


def test_a_long_list_in_json_takes_little_memory(tmp_path):
    body = b'{"key":null,"tags":[' + b"0," * 100_000 + b"0]}"
    file = CorrectionFile(tmp_path / "corrections.jsonl")
    with make_client(corrections=file) as client:
        tracemalloc.start()
        response = client.post("/v1/corrections", content=body, headers=JSON)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert "commas" in check_problem(response, 400, "invalid_request")
    assert most < 20 * len(body)


def test_large_request_is_refused_with_and_without_a_declared_length():
    with make_client(max_request_bytes=20_000) as client:
        declared = client.post("/v1/predict", files=upload_form(noise(300)))
        check_problem(declared, 413, "request_too_large")

        def parts():
            for _ in range(100):
                yield b"x" * 1000

        headers = {"content-type": "multipart/form-data; boundary=b"}
        response = client.post("/v1/predict", content=parts(), headers=headers)
        check_problem(response, 413, "request_too_large")
        assert client.post("/v1/predict", files=upload_form(photograph(0))).status_code == 200
        assert client.service.memory.used == 0


def test_memory_of_all_requests_together_is_limited():
    with make_client(max_request_bytes=20_000) as client:
        client.service.memory.used = 79_000
        response = client.post("/v1/predict", files=upload_form(photograph(0)))
        check_problem(response, 503, "overloaded")
        assert response.headers["retry-after"] == "1"
        client.service.memory.used = 0
        assert client.post("/v1/predict", files=upload_form(photograph(0))).status_code == 200
