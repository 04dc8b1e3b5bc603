from benchmarks import fuzz_files


def test_no_mutated_file_is_a_fault():
    found = fuzz_files.run_kind("topics", range(8), seed=7)
    assert found.pop("faults") == {}
    assert found.pop("cases") == 8 == sum(found.values())


def test_a_fault_is_reported_with_its_place():
    def use(_):
        raise KeyError("lost")

    kind = fuzz_files.Kind(lambda _: None, use)
    assert fuzz_files.run_case(kind, fuzz_files.Path("."), 0).startswith("fault: KeyError in ")
