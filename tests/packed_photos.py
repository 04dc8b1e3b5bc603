"""Writers of tar files with photographs, and of copies on another file system."""

import io
import json
import tarfile

import fsspec


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


def copy_to_memory(folder, name):
    """Copy a folder to fsspec's file system in memory; return its address there."""
    system = fsspec.filesystem("memory")
    for path in folder.rglob("*"):
        if path.is_file():
            system.pipe_file(f"/{name}/{path.relative_to(folder).as_posix()}", path.read_bytes())
    return f"memory://{name}"
