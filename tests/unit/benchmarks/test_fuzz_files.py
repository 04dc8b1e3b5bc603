import json

import numpy as np
import pytest
from benchmarks import fuzz_files


@pytest.mark.parametrize(("name", "n_cases"), [("cache", 30), ("corpus", 30), ("topics", 10)])
def test_no_mutated_file_is_a_fault(name, n_cases):
    found = fuzz_files.run_kind(name, n_cases, seed=7)
    assert found.pop("faults") == {}
    assert found.pop("cases") == n_cases == sum(found.values())


def test_a_fault_is_reported_with_its_place():
    def use(_):
        raise KeyError("lost")

    kind = fuzz_files.Kind(lambda _: None, use)
    assert fuzz_files.run_case(kind, fuzz_files.Path("."), 0).startswith("fault: KeyError in ")


def test_a_mutation_is_reproducible():
    texts = []
    for _ in range(2):
        value = {"a": [1, 2, {"b": "c"}], "d": 5}
        rng = np.random.default_rng(3)
        texts.append([fuzz_files.mutate_json(value, rng) for _ in range(3)] + [json.dumps(value)])
    assert texts[0] == texts[1]
    assert texts[0][-1] != json.dumps({"a": [1, 2, {"b": "c"}], "d": 5})
