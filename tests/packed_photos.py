"""Writers of tar and Parquet files with photographs, and of copies on another file system."""

import io
import json
import tarfile

import fsspec
import pyarrow as pa
from pyarrow import parquet


def write_tar(path, members):
    """Write a tar file; `members` has the contents by name."""
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def tar_members(records):
    """Return the members that WebDataset writes for records of photographs."""
    members = {}
    for record in records:
        key = f"{record.label}_{record.path.stem}"
        described = {"label": record.label, "tags": record.tags and list(record.tags)}
        members[f"{key}.jpg"] = record.path.read_bytes()
        members[f"{key}.json"] = json.dumps(described).encode()
    return members


def write_parquet(path, records, *, with_names=True, row_group_size=4):
    """Write a Parquet file as `datasets` of Hugging Face does."""
    classes = sorted({record.label for record in records})
    columns = {
        "image": [
            {
                "bytes": record.path.read_bytes(),
                "path": f"{record.label}-{record.path.name}" if with_names else None,
            }
            for record in records
        ],
        "label": [classes.index(record.label) for record in records],
        "tags": [record.tags and list(record.tags) for record in records],
    }
    schema = pa.schema(
        {
            "image": pa.struct({"bytes": pa.binary(), "path": pa.string()}),
            "label": pa.int64(),
            "tags": pa.list_(pa.string()),
        }
    )
    features = {
        "image": {"_type": "Image"},
        "label": {"names": classes, "_type": "ClassLabel"},
        "tags": {"feature": {"dtype": "string", "_type": "Value"}, "_type": "Sequence"},
    }
    described = json.dumps({"info": {"features": features}})
    table = pa.table(columns, schema.with_metadata({"huggingface": described}))
    parquet.write_table(table, path, row_group_size=row_group_size)
    return path


def copy_to_memory(folder, name):
    """Copy a folder to fsspec's file system in memory; return its address there."""
    system = fsspec.filesystem("memory")
    for path in folder.rglob("*"):
        if path.is_file():
            system.pipe_file(f"/{name}/{path.relative_to(folder).as_posix()}", path.read_bytes())
    return f"memory://{name}"
