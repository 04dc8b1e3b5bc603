import json

from tests.serving import make_client

from supdocnade.serving.app import page_files


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
