"""Predictions of many photographs in a folder of files, which a cluster can write.

Every file has a row per photograph, as JSON lines or Parquet. Other programs import:

- FiftyOne: `data.json` names the photographs, `labels.json` and `tags.json` have the predicted
  classes and tags in the format of `fiftyone.types.FiftyOneImageClassificationDataset`;
- Label Studio: `tasks.json` has a task per photograph with its prediction, and `config.xml` is the
  labelling configuration with the classes and tags of the model. A task has the path of the
  photograph as `file_name`, which an export keeps, so that `train --corrections` finds it again.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from supdocnade.cli.console import prediction_to_dict
from supdocnade.cluster import shard_options
from supdocnade.errors import InvalidArgument, install_command
from supdocnade.gallery.photo_index import model_fingerprint
from supdocnade.images.source import absolute_address, is_remote
from supdocnade.run_options import RunOptions
from supdocnade.scene.prediction import FittedScene, iter_predictions
from supdocnade.shard_parts import ShardParts, digest
from supdocnade.storage import read_file, write_atomically
from supdocnade.text import clean_name
from supdocnade.visual_words.parallel import SkippedImage, image_name

FORMAT = 1
MANIFEST = "manifest.json"
_ERROR = b'{"error": '
"""Beginning of the line of a photograph that could not be read."""

LOCAL_FILES = "/data/local-files/?d="
"""Address at which Label Studio serves files of this machine."""


def write_predictions(
    fitted: FittedScene,
    sources: Sequence[Any],
    output: Path,
    options: RunOptions = RunOptions(),
    top: int | None = None,
    shard_size: int = 1000,
    format: str = "jsonl",
) -> list[str]:
    """Write predictions to files of a new folder; return the sentences about unreadable images.

    A file has one row per photograph, in their order: the prediction, or an error. The folder
    appears when all are written; an interrupted run resumes. Its manifest lists the files, their
    numbers of photographs and of errors, and their checksums.

    Parameters
    ----------
    sources : photographs.
    options : `cluster` makes every file the task of a cluster.
    top : number of tags per photograph; None: those that are probable enough.
    shard_size : photographs per file.
    format : of the files, "jsonl" or "parquet"; or "fiftyone" or "label-studio", for files that
        these programs import, beside JSON lines.
    """
    parquet = format == "parquet"
    if parquet:
        _import_parquet()
    shards = [sources[i : i + shard_size] for i in range(0, len(sources), shard_size)]
    names = [[image_name(shard, n) for n in range(len(shard))] for shard in shards]
    plan = {
        "model": model_fingerprint(fitted),
        "choices": digest(repr(fitted.choices)),
        "photographs": digest(names),
        "top": top,
        "format": format,
    }
    suffix = ".parquet" if parquet else ".jsonl"
    parts = ShardParts(output, "predict", plan, shards, suffix, in_output=True)
    done, files, reasons = 0, [], []

    def report(_: str, within: int, __: int | None) -> None:
        options.progress("predicting", done + within, len(sources))

    with parts.open():
        write = partial(_write_part, fitted, shard_options(options, report), top)
        for shard, path in zip(shards, parts.write(write, shards, options), strict=True):
            content = read_file(path)
            errors = _read_errors(content, parquet=parquet)
            reasons += errors
            figures = {"n_images": len(shard), "n_errors": len(errors)}
            files.append({"file": path.name, **figures, "checksum": _checksum(content)})
            done += len(shard)
            options.progress("predicting", done, len(sources))
        manifest = {
            "format": FORMAT,
            "model": plan["model"],
            "n_images": done,
            "n_errors": len(reasons),
            "files": files,
        }
        if format in ("fiftyone", "label-studio"):
            rows = _read_predictions([parts.result / str(each["file"]) for each in files])
            exported = export_fiftyone(rows)
            if format == "label-studio":
                exported = export_label_studio(rows, fitted.classes, fitted.tag_names)
            for name, content in exported:
                write_atomically(parts.result / name, content)
        write_atomically(parts.result / MANIFEST, json.dumps(manifest, indent=1).encode() + b"\n")
        parts.publish()
    return reasons


def _write_part(
    fitted: FittedScene, options: RunOptions, top: int | None, task: tuple[Path, Sequence[Any]]
) -> None:
    """Write the predictions of a shard: the same bytes whenever it is done."""
    path, sources = task
    rows = [
        {"error": clean_name(result.reason), "file": result.name}
        if isinstance(result, SkippedImage)
        else prediction_to_dict(result, top)
        for result in iter_predictions(fitted, sources, options)
    ]
    if path.suffix == ".jsonl":
        lines = [json.dumps(row, allow_nan=False) + "\n" for row in rows]
        write_atomically(path, "".join(lines).encode())
    else:
        write_atomically(path, _format_parquet(rows, several_labels=fitted.several_labels))


def _read_errors(content: bytes, *, parquet: bool) -> list[str]:
    """Return the errors in a file that `_write_part` wrote."""
    if parquet:
        errors = _import_parquet()[1].read_table(BytesIO(content), columns=["error"])["error"]
        return [error for error in errors.to_pylist() if error is not None]
    return [json.loads(line)["error"] for line in content.splitlines() if line.startswith(_ERROR)]


def _read_predictions(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yield the rows of JSON lines files that are no errors."""
    for path in paths:
        lines = read_file(path).splitlines()
        yield from (json.loads(line) for line in lines if not line.startswith(_ERROR))


def _format_parquet(rows: list[dict[str, Any]], *, several_labels: bool = False) -> bytes:
    arrow, parquet = _import_parquet()
    tag = arrow.struct([("tag", arrow.string()), ("probability", arrow.float64())])
    schema = arrow.schema(
        [
            ("file", arrow.string()),
            ("label", arrow.string()),
            ("probability", arrow.float64()),
            ("unsure", arrow.bool_()),
            ("unfamiliar", arrow.bool_()),
            ("probabilities", arrow.map_(arrow.string(), arrow.float64())),
            ("tags", arrow.list_(tag)),
            ("error", arrow.string()),
        ]
    )
    if several_labels:
        label = arrow.struct([("label", arrow.string()), ("probability", arrow.float64())])
        schema = schema.append(arrow.field("labels", arrow.list_(label)))
    columns = [
        {
            **row,
            # Names of files need not be valid text.
            "file": row["file"].encode(errors="backslashreplace").decode(),
            "probabilities": list(row.get("probabilities", {}).items()),
        }
        for row in rows
    ]
    content = BytesIO()
    parquet.write_table(arrow.Table.from_pylist(columns, schema), content)
    return content.getvalue()


def _import_parquet() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InvalidArgument(
            f"--format parquet needs pyarrow, which is not installed; {install_command('parquet')}."
        ) from error
    return pyarrow, pyarrow.parquet


def _checksum(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def export_fiftyone(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[str, bytes]]:
    """Yield the names and the contents of the files for FiftyOne.

    The rows are those of `prediction_to_dict`.
    """
    paths: dict[str, str] = {}
    labels: dict[str, Any] = {}
    tags: dict[str, Any] = {}
    for number, row in enumerate(rows):
        name = f"{number:08d}"
        paths[name] = absolute_address(row["file"])
        marks = {mark: row[mark] for mark in ("unsure", "unfamiliar")}
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
    """Yield the names and the contents of the files for Label Studio."""
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
    names = {"id": control, "from_name": control, "to_name": "image"}
    return {**names, "type": "choices", "value": {"choices": choices}}


def _labelling_config(classes: Sequence[str], tag_names: Sequence[str], *, several: bool) -> str:
    """Return the labelling configuration: one class, or several, and any number of tags."""
    kind = "multiple" if several else "single"
    lines = ["<View>", '  <Image name="image" value="$image"/>']
    for control, choice, names in (("label", kind, classes), ("tags", "multiple", tag_names)):
        if names:
            lines.append(
                f'  <Choices name="{control}" toName="image" choice="{choice}" showInline="true">'
            )
            lines += [f"    <Choice value={quoteattr(clean_name(name))}/>" for name in names]
            lines.append("  </Choices>")
    return "\n".join([*lines, "</View>", ""])


def _to_json(value: Any) -> bytes:
    return (json.dumps(value, allow_nan=False, indent=1) + "\n").encode()
