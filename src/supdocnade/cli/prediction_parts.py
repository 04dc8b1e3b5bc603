"""Predictions of many photographs in a folder of files, which a cluster can write."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from supdocnade.cli.console import prediction_to_dict
from supdocnade.cli.prediction_exports import EXPORTS
from supdocnade.cluster import shard_options
from supdocnade.errors import InvalidArgument, install_command
from supdocnade.gallery.photo_index import model_fingerprint
from supdocnade.run_options import RunOptions
from supdocnade.scene.prediction import FittedScene, iter_predictions
from supdocnade.shard_parts import ShardParts
from supdocnade.storage import read_file, write_atomically
from supdocnade.text import clean_name
from supdocnade.visual_words.parallel import SkippedImage, image_name

FORMAT = 1
MANIFEST = "manifest.json"
_ERROR = b'{"error": '
"""Beginning of the line of a photograph that could not be read."""


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
    format : of the files, "jsonl" or "parquet"; or a key of `EXPORTS`, for files that another
        program imports, beside JSON lines.
    """
    parquet = format == "parquet"
    if parquet:
        _import_parquet()
    shards = [sources[i : i + shard_size] for i in range(0, len(sources), shard_size)]
    names = [[image_name(shard, n) for n in range(len(shard))] for shard in shards]
    plan = {
        "model": model_fingerprint(fitted),
        "choices": _digest(repr(fitted.choices).encode()),
        "photographs": _digest(json.dumps(names).encode()),
        "top": top,
    }
    parts = ShardParts(output, plan, ".parquet" if parquet else ".jsonl")
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
            files.append({"file": path.name, **figures, "checksum": _digest(content)})
            done += len(shard)
            options.progress("predicting", done, len(sources))
        manifest = {
            "format": FORMAT,
            "model": plan["model"],
            "n_images": done,
            "n_errors": len(reasons),
            "files": files,
        }
        if format in EXPORTS:
            rows = _read_predictions([parts.folder / str(each["file"]) for each in files])
            for name, content in EXPORTS[format](rows, fitted.classes, fitted.tag_names):
                write_atomically(parts.folder / name, content)
        write_atomically(parts.folder / MANIFEST, json.dumps(manifest, indent=1).encode() + b"\n")
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
            ("small", arrow.bool_()),
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


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
