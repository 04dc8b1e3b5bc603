"""The time of a stage is recorded, whichever way it ends."""

from types import SimpleNamespace

import pytest
from experiments.paper import stages
from experiments.paper.stages import describe_machine, read_log, record_time


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr(stages.time, "perf_counter", lambda: now[0])
    return now


def run(folder, machine="here", progress=lambda *_: None):
    study = SimpleNamespace(folder=folder)
    return record_time(study, "models", {"device": machine}, progress)


def predict(folder):
    path = folder / "predictions"
    path.mkdir(exist_ok=True)
    (path / f"{len(list(path.iterdir()))}.json").touch()


def test_the_time_of_a_killed_run_is_known_up_to_the_last_write(tmp_path, clock):
    reports = []
    with run(tmp_path, progress=lambda *each: reports.append(each)) as progress:
        clock[0] = 4.0
        progress("models", 1, 9)
        assert read_log(tmp_path) == {}
        clock[0] = 12.0
        progress("models", 2, 9)
        assert read_log(tmp_path) == {"seconds": {"models": 12.0}, "machines": {}}
        clock[0] = 17.0
        predict(tmp_path)
        progress("models", 3, 9)
        assert read_log(tmp_path)["seconds"] == {"models": 12.0}
        clock[0] = 23.0
        progress("models", 4, 9)
        assert read_log(tmp_path) == {
            "seconds": {"models": 23.0},
            "machines": {"models": [{"device": "here"}]},
        }
    assert reports == [("models", done, 9) for done in (1, 2, 3, 4)]


def test_runs_add_up_and_machines_are_listed_once_each(tmp_path, clock):
    def interrupted():
        with run(tmp_path):
            predict(tmp_path)
            clock[0] = 3.0
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    for machine in ("here", "there", "there"):
        with run(tmp_path, machine):
            predict(tmp_path)
            clock[0] += 2.0
    with run(tmp_path, "a machine with nothing to do"):
        clock[0] += 0.5
    assert read_log(tmp_path) == {
        "seconds": {"models": 9.5},
        "machines": {"models": [{"device": "here"}, {"device": "there"}]},
    }


def test_the_description_of_this_machine():
    found = describe_machine("cpu", "bf16")
    assert found["device"] == "CPU"
    assert "products" not in found
    assert found["cpu"].split(" × ")[0].isdigit()
