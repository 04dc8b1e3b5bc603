"""Write predictions as tasks of Label Studio, and its labelling configuration.

    supdocnade predict scenes photos -o predictions
    python examples/to_label_studio.py predictions scenes review

Run it where `predict` was run, if the photographs have relative paths.
"""

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from supdocnade import SceneModel

LOCAL_FILES = "/data/local-files/?d="
"""Address at which Label Studio serves files of this machine."""


def choose(control: str, choices: list[str]) -> dict[str, Any]:
    names = {"id": control, "from_name": control, "to_name": "image"}
    return {**names, "type": "choices", "value": {"choices": choices}}


def make_task(row: dict[str, Any]) -> dict[str, Any]:
    path = row["file"] if "://" in row["file"] else str(Path.cwd() / row["file"])
    image = path
    if "://" not in path:
        image = LOCAL_FILES + quote(path.lstrip("/"), errors="surrogateescape")
    chosen = [choose("label", [row["label"]])] if row["label"] is not None else []
    if row["tags"]:
        chosen.append(choose("tags", [each["tag"] for each in row["tags"]]))
    prediction = {"model_version": "supdocnade", "result": chosen, "score": row["probability"] or 0}
    return {"data": {"image": image, "file_name": path}, "predictions": [prediction]}


def make_config(controls: dict[str, tuple[str, list[str]]]) -> str:
    lines = ["<View>", '  <Image name="image" value="$image"/>']
    for control, (choice, names) in controls.items():
        if not names:
            continue
        lines.append(f'  <Choices name="{control}" toName="image" choice="{choice}">')
        lines += [f"    <Choice value={quoteattr(name)}/>" for name in names]
        lines.append("  </Choices>")
    return "\n".join([*lines, "</View>", ""])


def convert(predictions: str, model: str, output: str) -> None:
    files = sorted(Path(predictions).glob("*.jsonl"))
    lines = [line for file in files for line in file.read_text().splitlines()]
    tasks = [make_task(row) for row in map(json.loads, lines) if "error" not in row]
    fitted = SceneModel.load(model)
    classes, tags = fitted.classes_.tolist(), fitted.tag_names_.tolist()
    Path(output).mkdir()
    Path(output, "tasks.json").write_text(json.dumps(tasks, indent=1))
    config = make_config({"label": ("single", classes), "tags": ("multiple", tags)})
    Path(output, "config.xml").write_text(config, encoding="utf-8")


if __name__ == "__main__":
    convert(*sys.argv[1:4])
