import pytest
from benchmarks import fuzz_files


@pytest.mark.parametrize(("name", "n_cases"), [("cache", 30), ("corpus", 30), ("topics", 10)])
def test_no_mutated_file_is_a_fault(name, n_cases):
    found = fuzz_files.run_kind(name, range(n_cases), seed=7)
    assert found.pop("faults") == {}
    assert found.pop("cases") == n_cases == sum(found.values())


def test_a_fault_is_reported_with_its_place():
    def use(_):
        raise KeyError("lost")

    kind = fuzz_files.Kind(lambda _: None, use)
    assert fuzz_files.run_case(kind, fuzz_files.Path("."), 0).startswith("fault: KeyError in ")
