import pytest
from benchmarks.clients import Asked, ask, summary
from benchmarks.serving import MEDIA_TYPE, multipart
from tests.serving import fill_queue, photograph, run_threaded_server

from supdocnade.serving import service as service_module

FEW = {"max_waiting": 2, "max_images": 2, "n_workers": 1}


def load(address, seconds):
    url = f"http://127.0.0.1:{address[1]}/v1/predict"
    return ask(url, multipart([photograph(0)]), MEDIA_TYPE, clients=3, seconds=seconds)


def test_answers_and_refusals_are_told_apart(monkeypatch):
    monkeypatch.setattr(service_module, "REFUSAL_SECONDS", 0.001)
    with run_threaded_server(**FEW) as (client, address):
        with fill_queue(client.service):
            refused = load(address, 0.05)
        assert (refused["answered"], refused["failed"]) == (0, 0)
        assert refused["refused"] == refused["requests"] >= 3
        assert (refused["p50_ms"], refused["answered_per_second"]) == (None, 0)
        while client.service.workers.n_waiting:
            pass
        answered = load(address, 0.05)
    assert answered["answered"] >= 1
    assert answered["failed"] == 0
    assert 0 < answered["p50_ms"] <= answered["p99_ms"] <= answered["longest_ms"]
    # Nobody is there any more.
    gone = load(address, 0.01)
    assert gone["failed"] == gone["requests"] >= 3


def test_times_are_those_of_answers():
    found = [Asked(200, float(ms)) for ms in range(100, 0, -1)] + [Asked(503, 900.0)] * 7
    told = summary([*found, Asked(500, 1.0)], seconds=4)
    assert (told["answered"], told["refused"], told["failed"]) == (100, 7, 1)
    assert told["answered_per_second"] == 25
    assert (told["p50_ms"], told["p99_ms"], told["longest_ms"]) == (51, 100, 100)
    assert told["refused_p50_ms"] == pytest.approx(900)
