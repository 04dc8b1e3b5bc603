"""Small texts with known topics."""

import json

import numpy as np

SEA = ["waves", "sand", "gull", "boat", "tide", "shore", "salt", "harbour", "sail"]
CITY = ["street", "tram", "window", "traffic", "square", "bridge", "tower", "crowd", "shop"]
FOREST = ["oak", "fern", "moss", "deer", "owl", "path", "branch", "leaf", "trunk"]
LABELS = ("sea", "city", "forest")


def write_texts(folder, n=20, seed=0):
    """Write texts of three labels, each in a sub-folder of its own."""
    rng = np.random.default_rng(seed)
    for label, words in zip(LABELS, (SEA, CITY, FOREST), strict=True):
        (folder / label).mkdir(parents=True)
        for number in range(n):
            text = " ".join(rng.choice(words, 15))
            (folder / label / f"{number}.txt").write_text(f"The {text}.\n", encoding="utf-8")
    return folder


def write_jsonl(path, folder, **names):
    """Write the texts of a folder to a JSONL file; `names` are those of the fields."""
    fields = {"text": "text", "label": "label", **names}
    lines = [
        json.dumps({fields["text"]: file.read_text(), fields["label"]: file.parent.name})
        for file in sorted(folder.rglob("*.txt"))
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
