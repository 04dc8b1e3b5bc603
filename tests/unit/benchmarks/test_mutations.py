import json

import numpy as np
from benchmarks.mutations import change_entries, mutate_folder, mutate_json

from supdocnade import Corpus
from supdocnade.schema import load_arrays, save_arrays


def test_a_mutation_is_reproducible():
    texts = []
    for _ in range(2):
        value = {"a": [1, 2, {"b": "c"}], "d": 5}
        rng = np.random.default_rng(3)
        texts.append([mutate_json(value, rng) for _ in range(3)] + [json.dumps(value)])
    assert texts[0] == texts[1]
    assert texts[0][-1] != json.dumps({"a": [1, 2, {"b": "c"}], "d": 5})


def test_an_entry_is_changed():
    for seed in range(20):
        array = np.arange(1, 6)
        change_entries(array, np.random.default_rng(seed))
        assert array.shape == (5,)


def test_digests_are_made_again(tmp_path):
    corpus = Corpus.create(tmp_path / "corpus", n_words=3)
    corpus.append(np.array([[2, 0, 1]]))
    save_arrays(tmp_path / "corpus" / "x.safetensors", {"x": np.arange(3)}, {"y": [1, 2]})
    changed = 0
    for seed in range(60):
        what, before = mutate_folder(tmp_path, np.random.default_rng(seed))
        if what.startswith("x.safetensors") and "bytes" not in what:
            arrays, description = load_arrays(tmp_path / "corpus" / "x.safetensors")
            changed += (list(arrays), arrays, description) != (["x"], {}, {"y": [1, 2]})
        for path, content in before.items():
            path.write_bytes(content)
    assert changed > 5
    assert Corpus.open(tmp_path / "corpus").counts().toarray().tolist() == [[2, 0, 1]]
