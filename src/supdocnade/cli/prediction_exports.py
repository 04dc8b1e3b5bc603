"""Predictions in the import formats of other programs.

FiftyOne: `data.json` names the photographs, `labels.json` and `tags.json` have the predicted
classes and tags in the format of `fiftyone.types.FiftyOneImageClassificationDataset`.

Label Studio: `tasks.json` has a task per photograph with its prediction, and `config.xml` is the
labelling configuration with the classes and tags of the model. A task has the path of the
photograph as `file_name`, which an export keeps, so that `train --corrections` finds it again.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from supdocnade.images.source import absolute_address, is_remote
from supdocnade.text import clean_name

LOCAL_FILES = "/data/local-files/?d="
"""Address at which Label Studio serves files of this machine."""


def export_fiftyone(
    rows: Iterable[dict[str, Any]], class_names: Sequence[str] = (), tag_names: Sequence[str] = ()
) -> Iterator[tuple[str, bytes]]:
    """Yield the names and the contents of the files for FiftyOne.

    Parameters
    ----------
    rows : predictions as `prediction_to_dict` describes them.
    class_names, tag_names : those of the model, which FiftyOne does not need.
    """
    paths: dict[str, str] = {}
    labels: dict[str, Any] = {}
    tags: dict[str, Any] = {}
    for number, row in enumerate(rows):
        name = f"{number:08d}"
        paths[name] = absolute_address(row["file"])
        marks = {mark: row[mark] for mark in ("unsure", "unfamiliar", "small")}
        classes = [_classify(label, p, attributes=marks) for label, p in _labels(row)]
        labels[name] = classes if "labels" in row else classes[0] if classes else None
        tags[name] = [_classify(each["tag"], each["probability"]) for each in row["tags"]]
    yield "data.json", _to_json(paths)
    yield "labels.json", _to_json({"labels": labels})
    yield "tags.json", _to_json({"labels": tags})


def _labels(row: dict[str, Any]) -> list[tuple[str, float]]:
    """Return the predicted class, or several labels, with probabilities."""
    if "labels" in row:
        return [(each["label"], each["probability"]) for each in row["labels"]]
    return [] if row["label"] is None else [(row["label"], row["probability"])]


def _classify(label: str, confidence: float, **more: Any) -> dict[str, Any]:
    return {"label": label, "confidence": confidence, **more}


def export_label_studio(
    rows: Iterable[dict[str, Any]], class_names: Sequence[str], tag_names: Sequence[str]
) -> Iterator[tuple[str, bytes]]:
    """Yield the names and the contents of the files for Label Studio.

    Parameters
    ----------
    rows : predictions as `prediction_to_dict` describes them.
    class_names, tag_names : those of the model.
    """
    tasks, several = [], False
    for row in rows:
        path = absolute_address(row["file"])
        several = several or "labels" in row
        results = [_choose("label", [label for label, _ in _labels(row)])] if class_names else []
        if tag_names:
            results.append(_choose("tags", [each["tag"] for each in row["tags"]]))
        local = LOCAL_FILES + quote(path.lstrip("/"), errors="surrogateescape")
        prediction: dict[str, Any] = {"model_version": "supdocnade", "result": results}
        if row["probability"] is not None:
            prediction["score"] = row["probability"]
        image = path if is_remote(path) else local
        tasks.append({"data": {"image": image, "file_name": path}, "predictions": [prediction]})
    yield "tasks.json", _to_json(tasks)
    yield "config.xml", _labelling_config(class_names, tag_names, several=several).encode()


def _choose(control: str, choices: list[str]) -> dict[str, Any]:
    value = {"choices": choices}
    return {
        "id": control,
        "from_name": control,
        "to_name": "image",
        "type": "choices",
        "value": value,
    }


def _labelling_config(classes: Sequence[str], tag_names: Sequence[str], *, several: bool) -> str:
    """Return the labelling configuration: one class, or several, and any number of tags."""
    kind = "multiple" if several else "single"
    lines = ["<View>", '  <Image name="image" value="$image"/>']
    for control, choice, names in (("label", kind, classes), ("tags", "multiple", tag_names)):
        if names:
            lines.append(f'  <Choices name="{control}" toName="image" choice="{choice}">')
            lines += [f"    <Choice value={quoteattr(clean_name(name))}/>" for name in names]
            lines.append("  </Choices>")
    return "\n".join([*lines, "</View>", ""])


def _to_json(value: Any) -> bytes:
    return (json.dumps(value, allow_nan=False, indent=1) + "\n").encode()


Export = Callable[
    [Iterable[dict[str, Any]], Sequence[str], Sequence[str]], Iterator[tuple[str, bytes]]
]
EXPORTS: dict[str, Export] = {"fiftyone": export_fiftyone, "label-studio": export_label_studio}
