import asyncio
import gc
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.scene_model import small_model
from tests.serving import (
    check_problem,
    hold_work,
    make_client,
    photograph,
    upload_form,
)

from supdocnade.errors import InvalidArgument
from supdocnade.serving import service as service_module
from supdocnade.serving.app import IMAGE_ROUTES, make_app
from supdocnade.serving.service import ServeSettings, Service


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"max_images": 0}, "max_images"),
        ({"seconds": 0}, "seconds"),
        ({"seconds": float("nan")}, "seconds"),
        ({"token": "two words"}, "token"),
        ({"token": ""}, "token"),
        ({"token": "café"}, "token"),
        ({"n_workers": 0}, "n_workers"),
    ],
)
def test_invalid_settings_are_refused(settings, name):
    with pytest.raises(InvalidArgument, match=name):
        ServeSettings(**settings)


@pytest.mark.parametrize("path", sorted(IMAGE_ROUTES))
def test_request_is_refused_before_its_body_is_read(path, monkeypatch):
    monkeypatch.setattr(service_module, "REFUSAL_SECONDS", 0.0)
    service = Service(small_model().fitted_, ServeSettings(n_workers=1))
    sent = []

    async def receive():
        raise AssertionError("the body was read")

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"multipart/form-data; boundary=b")],
    }
    app = make_app(service)
    service.n_waiting = service.settings.max_waiting
    asyncio.run(app(scope, receive, send))
    service.n_waiting = 0
    assert sent[0]["status"] == 503
    assert json.loads(sent[1]["body"])["code"] == "overloaded"
    headers = dict(sent[0]["headers"])
    assert int(headers[b"retry-after"]) >= 1
    assert headers[b"connection"] == b"close"
    # With room in the queue, the body of the same request is read, unless there is no gallery.
    sent.clear()
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == (404 if path == "/v1/similar" else 500)
    service.close()


def test_number_of_delayed_requests_is_limited(monkeypatch):
    monkeypatch.setattr(service_module, "MAX_DELAYED", 0)
    monkeypatch.setattr(service_module, "REFUSAL_SECONDS", 1e9)
    with make_client(n_workers=1) as client:
        client.service.n_waiting = client.service.settings.max_waiting
        response = client.post("/v1/predict", files=upload_form(photograph(0)))
        assert response.status_code == 503


def test_full_queue_and_slow_work_are_problems(monkeypatch, caplog):
    monkeypatch.setattr(service_module, "REFUSAL_SECONDS", 0.01)
    with (
        make_client(max_images=2, n_workers=1, max_batch=1, seconds=0.3) as client,
        hold_work(monkeypatch) as (_, started),
        ThreadPoolExecutor(1) as pool,
    ):
        # One image is with the worker, the other one waits.
        form = upload_form(photograph(0), photograph(1))
        slow = pool.submit(client.post, "/v1/predict", files=form)
        started.wait()
        client.service.n_waiting += 14
        response = client.post("/v1/predict", files=upload_form(photograph(0)))
        check_problem(response, 503, "overloaded")
        assert int(response.headers["retry-after"]) >= 1
        check_problem(slow.result(), 503, "too_slow")
        assert "retry-after" in slow.result().headers
        assert client.service.n_waiting == 14
        # A busy server still reports its health.
        assert client.get("/healthz").json() == {"status": "ok"}
    gc.collect()
    assert "never retrieved" not in caplog.text  # By asyncio, about work that was given up.


def test_images_of_a_request_are_shared_among_workers(monkeypatch):
    sizes, work = [], service_module.process_images
    monkeypatch.setattr(
        service_module,
        "process_images",
        lambda task, fitted, images, *others: (
            sizes.append(len(images)) or work(task, fitted, images, *others)
        ),
    )
    with make_client(max_batch=3) as client:
        for n_images in (1, 4, 8):
            form = upload_form(*[photograph(0)] * n_images)
            assert len(client.post("/v1/predict", files=form).json()["predictions"]) == n_images
    assert sorted(sizes) == [1, 2, 2, 2, 3, 3]


def test_a_service_is_not_ready_while_no_worker_becomes_free(monkeypatch):
    started, may_end = threading.Event(), threading.Event()

    def wait(*_):
        started.set()
        may_end.wait(20)
        return [b""]

    monkeypatch.setattr(service_module, "STUCK_SECONDS", 0.2)
    monkeypatch.setattr("supdocnade.serving.predict_routes.preview_images", wait)
    with make_client(n_workers=1) as client, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.post, "/v1/preview", files=upload_form(photograph(0)))
        assert started.wait(20)
        assert client.get("/readyz").status_code == 200
        time.sleep(0.3)
        stuck = client.get("/readyz")
        assert (stuck.status_code, stuck.json()) == (503, {"status": "busy"})
        may_end.set()
        assert waiting.result().status_code == 200
        assert client.get("/readyz").status_code == 200
