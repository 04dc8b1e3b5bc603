"""What stages took stays known, whichever way they end."""

import pytest

from supdocnade.errors import UnwritableFile
from supdocnade.paper import study as record
from supdocnade.paper.study import recall, recorded, this_machine


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr(record.time, "perf_counter", lambda: now[0])
    return now


@pytest.fixture
def made():
    return []


@pytest.fixture
def told():
    return []


def run(folder, made, machine="here", on_stage=lambda *each: None):
    return recorded(folder, "models", {"device": machine}, lambda: len(made), on_stage)


def test_what_a_killed_run_took_is_known_up_to_its_last_note(tmp_path, clock, made, told):
    with run(tmp_path, made, on_stage=lambda *each: told.append(each)) as progress:
        clock[0] = 4.0
        progress("models", 1, 9)
        assert recall(tmp_path) == {}
        clock[0] = 12.0
        progress("models", 2, 9)
        assert recall(tmp_path) == {"seconds": {"models": 12.0}, "machines": {}}
        clock[0] = 17.0
        made.append("an answer")
        progress("models", 3, 9)
        assert recall(tmp_path)["seconds"] == {"models": 12.0}
        clock[0] = 23.0
        progress("models", 4, 9)
        assert recall(tmp_path) == {
            "seconds": {"models": 23.0},
            "machines": {"models": [{"device": "here"}]},
        }
    assert told == [("models", done, 9) for done in (1, 2, 3, 4)]


def test_a_note_that_cannot_be_written_does_not_stop_the_stage(tmp_path, clock, made, monkeypatch):
    def full(path, content):
        raise UnwritableFile(f"{path}: no space")

    with run(tmp_path, made) as progress:
        with monkeypatch.context() as patch:
            patch.setattr(record, "write_atomically", full)
            clock[0] = 20.0
            progress("models", 1, 9)
        clock[0] = 25.0
    assert recall(tmp_path)["seconds"] == {"models": 25.0}


def test_runs_add_up_and_machines_are_named_once_each(tmp_path, clock, made):
    def interrupted():
        with run(tmp_path, made):
            made.append("an answer")
            clock[0] = 3.0
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    for machine in ("here", "there", "there"):
        with run(tmp_path, made, machine):
            made.append("an answer")
            clock[0] += 2.0
    with run(tmp_path, made, "a machine with nothing to do"):
        clock[0] += 0.5
    assert recall(tmp_path) == {
        "seconds": {"models": 9.5},
        "machines": {"models": [{"device": "here"}, {"device": "there"}]},
    }


def test_the_name_of_this_machine():
    found = this_machine("cpu", "bf16")
    assert found["device"] == "CPU"
    assert "products" not in found
    assert found["cpu"].split(" × ")[0].isdigit()
