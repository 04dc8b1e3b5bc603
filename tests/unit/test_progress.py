from supdocnade import progress
from supdocnade.progress import PrintProgress, no_progress


def test_a_stage_is_printed_at_intervals_and_at_its_end(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    report = PrintProgress()
    for done in range(1, 6):
        now[0] += 1.5
        report("reading", done, 5)
    report("writing", 1, None)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "reading: 3 of 5, 2 s left",
        "reading: 5 of 5, 6.0 s",
    ]


def test_no_progress_prints_nothing(capsys):
    no_progress("reading", 5, 5)
    assert capsys.readouterr() == ("", "")
