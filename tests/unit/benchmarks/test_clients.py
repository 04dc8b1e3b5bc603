import pytest
from benchmarks.clients import generate_load, summarize
from benchmarks.serving import MEDIA_TYPE, multipart
from tests.serving import SMALL_QUEUE, fill_queue, photograph, run_threaded_server

from supdocnade.serving import service as service_module


def load(address, seconds):
    url = f"http://127.0.0.1:{address[1]}/v1/predict"
    return generate_load(url, multipart([photograph(0)]), MEDIA_TYPE, clients=3, seconds=seconds)


def test_accepted_and_refused_requests_are_counted_apart(monkeypatch):
    monkeypatch.setattr(service_module, "REFUSAL_SECONDS", 0.001)
    with run_threaded_server(**SMALL_QUEUE) as (client, address):
        with fill_queue(client.service):
            refused = load(address, 0.05)
        assert (refused["answered"], refused["failed"]) == (0, 0)
        assert refused["refused"] == refused["requests"] >= 3
        assert (refused["p50_ms"], refused["answered_per_second"]) == (None, 0)
        while client.service.workers.n_waiting:
            pass
        accepted = load(address, 0.05)
    assert accepted["answered"] >= 1
    assert accepted["failed"] == 0
    assert 0 < accepted["p50_ms"] <= accepted["p99_ms"] <= accepted["longest_ms"]
    # The server has ended.
    failed = load(address, 0.01)
    assert failed["failed"] == failed["requests"] >= 3


def test_times_are_those_of_accepted_requests():
    outcomes = [(200, float(ms)) for ms in range(100, 0, -1)] + [(503, 900.0)] * 7
    summary = summarize([*outcomes, (500, 1.0)], seconds=4)
    assert (summary["answered"], summary["refused"], summary["failed"]) == (100, 7, 1)
    assert summary["answered_per_second"] == 25
    assert (summary["p50_ms"], summary["p99_ms"], summary["longest_ms"]) == (51, 100, 100)
    assert summary["refused_p50_ms"] == pytest.approx(900)
