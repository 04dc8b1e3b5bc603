import pytest
from tests.drawn import small_model
from tests.serving import make_client, photograph, upload_form

from supdocnade.serving.app import page_files
from supdocnade.serving.security import SECURITY_HEADERS


def test_every_answer_has_safe_headers():
    with make_client(token="secret") as guarded:
        for path in ("/", "/docs", "/v1/model", "/nothing", "/healthz", "/page/app.js"):
            headers = guarded.get(path).headers
            for name, value in SECURITY_HEADERS.items():
                assert headers[name] == value
            assert "cache-control" in headers
            assert "server" not in headers
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_a_token_is_asked_for_where_there_is_one():
    with make_client(token="secret") as guarded:
        for path in ("/v1/model", "/v1/explore", "/v1/gallery", "/metrics", "/v1/nothing"):
            for given in ({}, {"authorization": "Bearer wrong"}, {"authorization": "secret"}):
                response = guarded.get(path, headers=given)
                assert response.status_code == 401
                assert response.headers["www-authenticate"].startswith("Bearer")
                assert response.json()["code"] == "unauthorized"
        refused = guarded.post("/v1/predict", files=upload_form(photograph(0)))
        assert refused.status_code == 401
        known = {"authorization": "bearer secret"}
        assert guarded.get("/v1/model", headers=known).status_code == 200
        assert guarded.get("/metrics", headers=known).status_code == 200
        asked = guarded.post("/v1/predict", files=upload_form(photograph(0)), headers=known)
        assert asked.status_code == 200
        for path in ("/", "/page/app.js", "/docs", "/openapi.json", "/healthz", "/readyz"):
            assert guarded.get(path).status_code == 200, path
        described = guarded.get("/openapi.json").json()
        assert described["paths"]["/v1/predict"]["post"]["security"] == [{"token": []}]


def test_what_is_public_says_no_names_of_a_model_that_has_a_token():
    names = {*small_model().classes_, *small_model().tag_names_}
    public = ("/", "/docs", "/openapi.json", "/problems", "/healthz", "/readyz")

    def told(some):
        text = " ".join(some.get(path).text for path in public)
        return {name for name in names if f'"{name}"' in text}

    with make_client(token="secret") as guarded:
        assert told(guarded) == set()
    with make_client() as local:
        assert told(local) == names


def test_methods_that_are_made_up_are_counted_as_one():
    with make_client() as local:
        for number in range(3):
            assert local.request(f"ODD{number}", "/").status_code == 405
        figures = local.get("/metrics").text
        assert 'requests_total{method="other",route="/",status="405"} 3.0' in figures
        assert "ODD" not in figures


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "evil:8000"])
def test_other_names_do_not_lead_here_without_a_token(host):
    with make_client(allowed_hosts=("photos.example",)) as local:
        refused = local.get("/v1/model", headers={"host": host})
        assert refused.status_code == 421
        assert refused.json()["code"] == "unknown_host"
        assert refused.json()["detail"].endswith(
            "start the server with --allow-host and that name."
        )
        for known in ("localhost:8000", "127.0.0.1", "[::1]:8000", "Photos.example:443"):
            assert local.get("/v1/model", headers={"host": known}).status_code == 200
    with make_client(token="secret") as guarded:
        assert guarded.get("/healthz", headers={"host": host}).status_code == 200
    with make_client(check_host=False) as everyone:
        assert everyone.get("/v1/model", headers={"host": host}).status_code == 200


def test_pages_of_other_origins_may_not_ask():
    with make_client() as local:
        for site in ("cross-site", "same-site"):
            response = local.post(
                "/v1/predict", files=upload_form(photograph(0)), headers={"sec-fetch-site": site}
            )
            assert response.status_code == 403
            assert response.json()["code"] == "foreign_page"
        for site in ("same-origin", "none"):
            found = local.get("/v1/model", headers={"sec-fetch-site": site})
            assert found.status_code == 200


def test_the_page_is_served_from_memory_and_asks_for_nothing_elsewhere():
    with make_client() as local:
        files = page_files()
        assert {"index.html", "docs.html", "page.css", "report.css", "app.js"} <= set(files)
        for name, content in files.items():
            response = local.get(f"/page/{name}")
            assert response.content == content
            kind = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
            ending = name.rpartition(".")[2]
            assert response.headers["content-type"].startswith(kind.get(ending, "image/svg+xml"))
            text = content.decode().replace("http://www.w3.org/2000/svg", "")
            assert "http://" not in text
            assert "https://" not in text
            assert "innerHTML" not in text
        for path in ("/page/..%2fapp.py", "/page/%2e%2e/app.py", "/page//etc/passwd", "/page/x.js"):
            assert local.get(path).status_code == 404
        assert local.get("/").text.startswith("<!DOCTYPE html>")
        assert local.get("/favicon.ico").status_code == 200


def test_ready_is_said_until_the_end():
    with make_client() as local:
        assert local.get("/readyz").json() == {"status": "ready"}
        local.service.draining = True
        response = local.get("/readyz")
        assert (response.status_code, response.json()) == (503, {"status": "ending"})
        assert local.get("/healthz").status_code == 200
