"""Write predictions as a dataset that FiftyOne imports.

    supdocnade predict scenes photos -o predictions
    python examples/to_fiftyone.py predictions review

Run it where `predict` was run, if the photographs have relative paths.
"""

import json
import sys
from pathlib import Path
from typing import Any


def classify(label: str, confidence: float, **more: Any) -> dict[str, Any]:
    return {"label": label, "confidence": confidence, **more}


def convert(predictions: str, output: str) -> None:
    paths, labels, tags = {}, {}, {}
    files = sorted(Path(predictions).glob("*.jsonl"))
    lines = [line for file in files for line in file.read_text().splitlines()]
    for number, row in enumerate(map(json.loads, lines)):
        if "error" in row:
            continue
        name, marks = f"{number:08d}", {mark: row[mark] for mark in ("unsure", "unfamiliar")}
        paths[name] = row["file"] if "://" in row["file"] else str(Path.cwd() / row["file"])
        labels[name] = row["label"] and classify(row["label"], row["probability"], attributes=marks)
        tags[name] = [classify(each["tag"], each["probability"]) for each in row["tags"]]
    Path(output).mkdir()
    contents = {"data": paths, "labels": {"labels": labels}, "tags": {"labels": tags}}
    for each, content in contents.items():
        Path(output, f"{each}.json").write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    convert(*sys.argv[1:3])
