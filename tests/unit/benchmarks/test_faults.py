import random

from benchmarks import faults


def test_a_message_is_one_sentence():
    line = "error: m cannot be written: No space left on device."
    assert faults.error_line(f"features: SIFT\n{line}\noperations 3\n") == line
    assert faults.error_line(f"{line}\n{line.replace('m', 'n', 1)}\n") == line
    assert faults.error_line(f"{line}\n{line}\n") == ""
    assert faults.error_line("error: KeyError: 'x' (a bug in supdocnade)\n") == ""
    assert faults.error_line("Traceback (most recent call last):\n") == ""


def test_contents_have_no_locks(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".lock").touch()
    (tmp_path / "a" / "part").write_bytes(b"x")
    assert faults.contents(tmp_path / "a") == {"part": b"x"}


class Replayed(faults.Workspace):
    """A workspace whose commands write a file in two steps, and are not processes."""

    def run(self, arguments, fault="", at=0):
        (self.work / "new").write_bytes(b"half" if fault else b"whole")
        return (1, "error: new cannot be written: full.") if fault else (0, "operations 2")

    def resize(self, room=None):
        pass


def test_a_case_compares_with_a_run_without_a_fault(tmp_path):
    space = Replayed(tmp_path)
    space.template.mkdir()
    (space.template / "old").write_bytes(b"old")
    expected = faults.run_undisturbed(space, faults.WRITING["report"])
    found = faults.run_case(space, "report", "read-only", expected, random.Random(0))
    assert found["good"]
    assert found["sentence"] == "error: new cannot be written: full."
    expected.contents["new"] = b"other"
    found = faults.run_case(space, "report", "read-only", expected, random.Random(0))
    assert (found["good"], found["differing"]) == (False, ["new"])
