import json

import pytest
from tests.scene_model import small_model
from tests.serving import check_problem, make_client, photograph, upload_form

from supdocnade.serving import service as service_module
from supdocnade.serving.app import IMAGE_ROUTES, SECURITY_HEADERS, page_files


def test_page_is_served_from_memory_and_loads_nothing_from_elsewhere(server):
    files = page_files()
    assert {"index.html", "docs.html", "page.css", "report.css", "app.js"} <= set(files)
    types = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
    for name, content in files.items():
        response = server.get(f"/page/{name}")
        assert response.content == content
        media_type = types.get(name.rpartition(".")[2], "image/svg+xml")
        assert response.headers["content-type"].startswith(media_type)
        text = content.decode().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text
        assert "https://" not in text
        assert "innerHTML" not in text
    for path in ("/page/..%2fapp.py", "/page/%2e%2e/app.py", "/page//etc/passwd", "/page/x.js"):
        assert server.get(path).status_code == 404
    assert server.get("/").text.startswith("<!DOCTYPE html>")
    assert server.get("/favicon.ico").status_code == 200


def test_readyz_reports_the_shutdown():
    with make_client() as client:
        assert client.get("/readyz").json() == {"status": "ready"}
        client.service.draining = True
        response = client.get("/readyz")
        assert (response.status_code, response.json()) == (503, {"status": "ending"})
        assert client.get("/healthz").status_code == 200


def test_openapi_describes_every_error_and_schema(server):
    description = server.get("/openapi.json").json()
    assert set(description["paths"]) >= {"/v1/predict", "/v1/explain", "/v1/similar", "/v1/model"}
    text = json.dumps(description)
    names = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= set(description["components"]["schemas"])
    responses = description["paths"]["/v1/predict"]["post"]["responses"]
    assert {"200", "400", "401", "413", "415", "422", "503"} <= set(responses)
    assert "Retry-After" in responses["503"]["headers"]


def test_a_refused_method_names_all_methods_of_its_url(server):
    described = server.get("/openapi.json").json()["paths"]
    for path, operations in described.items():
        url = path.replace("{number}", "0").replace("{word}", "0").replace("{topic}", "0")
        refused = server.put(url)
        assert refused.status_code == 405, path
        assert refused.headers["allow"].split(", ") == sorted(map(str.upper, operations)), path


@pytest.fixture(scope="module")
def token_server():
    with make_client(token="secret") as client:
        yield client


def test_every_response_has_security_headers(token_server):
    for path in ("/", "/docs", "/v1/model", "/nothing", "/healthz", "/page/app.js"):
        headers = token_server.get(path).headers
        for name, value in SECURITY_HEADERS.items():
            assert headers[name] == value
        assert "cache-control" in headers
        assert "server" not in headers
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_unknown_parameters_are_refused_but_of_the_page(server):
    for path in ("/v1/model", "/v1/gallery"):
        detail = check_problem(server.get(path, params={"x": 1}), 422, "invalid_argument")
        assert "there is no parameter 'x'" in detail
    assert server.get("/", params={"x": 1}).status_code == 200


def test_token_is_required_if_set(token_server):
    for path in ("/v1/model", "/v1/explore", "/v1/gallery", "/v1/nothing"):
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "secret"}):
            response = token_server.get(path, headers=headers)
            assert response.status_code == 401
            assert response.headers["www-authenticate"].startswith("Bearer")
            assert response.json()["code"] == "unauthorized"
    files = upload_form(photograph(0))
    assert token_server.post("/v1/predict", files=files).status_code == 401
    token = {"authorization": "bearer secret"}
    assert token_server.get("/v1/model", headers=token).status_code == 200
    assert token_server.post("/v1/predict", files=files, headers=token).status_code == 200
    for path in ("/", "/page/app.js", "/docs", "/openapi.json", "/healthz", "/readyz"):
        assert token_server.get(path).status_code == 200, path
    description = token_server.get("/openapi.json").json()
    assert description["paths"]["/v1/predict"]["post"]["security"] == [{"token": []}]


def test_public_routes_do_not_reveal_names_of_the_model(server):
    names = {*small_model().classes_, *small_model().tag_names_}
    public = ("/", "/docs", "/openapi.json", "/problems", "/healthz", "/readyz")
    text = " ".join(server.get(path).text for path in public)
    assert {name for name in names if f'"{name}"' in text} == set()


def test_unknown_host_names_are_refused_without_a_token(token_server):
    hosts = ("evil.example", "127.0.0.1.evil.example", "", "evil:8000")
    with make_client(allowed_hosts=("photos.example",)) as client:
        for host in hosts:
            response = client.get("/v1/model", headers={"host": host})
            assert response.status_code == 421
            assert response.json()["code"] == "unknown_host"
            assert "start the server with --set allow_host=NAME" in response.json()["detail"]
        for host in ("localhost:8000", "127.0.0.1", "[::1]:8000", "Photos.example:443"):
            assert client.get("/v1/model", headers={"host": host}).status_code == 200
    with make_client(check_host=False) as client:
        for host in hosts:
            assert token_server.get("/healthz", headers={"host": host}).status_code == 200
            assert client.get("/v1/model", headers={"host": host}).status_code == 200


def test_pages_of_other_origins_are_refused(server):
    for site in ("cross-site", "same-site"):
        headers = {"sec-fetch-site": site}
        response = server.post("/v1/predict", files=upload_form(photograph(0)), headers=headers)
        assert response.status_code == 403
        assert response.json()["code"] == "foreign_page"
    for site in ("same-origin", "none"):
        response = server.get("/v1/model", headers={"sec-fetch-site": site})
        assert response.status_code == 200
    for origin in ("http://evil.example", "https://evil.example:8000", "x"):
        response = server.get("/v1/model", headers={"origin": origin})
        assert response.status_code == 403
    for origin in ("null", "http://localhost:8000", "https://LOCALHOST"):
        headers = {"origin": origin, "host": "localhost:8000"}
        assert server.get("/v1/model", headers=headers).status_code == 200


def test_internal_error_is_reported_in_the_log_only(caplog, monkeypatch):
    monkeypatch.setattr(service_module, "process_images", lambda *_: 1 / 0)
    with make_client() as client:
        response = client.post("/v1/predict", files=upload_form(photograph(0)))
        assert "division" not in check_problem(response, 500, "internal_error")
        assert "ZeroDivisionError" in caplog.text


def test_image_routes_are_those_of_the_openapi_description(server):
    paths = server.get("/openapi.json").json()["paths"]
    posts = {path: verbs["post"] for path, verbs in paths.items() if "post" in verbs}
    taking_images = {
        path
        for path, post in posts.items()
        if "multipart/form-data" in post.get("requestBody", {}).get("content", ())
    }
    assert taking_images == IMAGE_ROUTES
