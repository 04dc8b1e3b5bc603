import json

import pytest

from supdocnade.errors import StorageError
from supdocnade.gallery.manifest import (
    Manifest,
    format_number,
    is_index,
    read_manifest,
    unused_number,
    write_manifest,
)
from supdocnade.gallery.segment import SegmentEntry

ENTRY = SegmentEntry("000004", 3, 9, 8, "digest", "000005")
MANIFEST = Manifest(model="m", folders=("/a", "/b\udc80"), segments=(ENTRY,), order="000006")


def test_a_manifest_is_read_as_it_was_written(tmp_path):
    write_manifest(tmp_path, MANIFEST)
    assert read_manifest(tmp_path) == MANIFEST
    assert is_index(tmp_path)
    assert not is_index(tmp_path / "nothing")


def test_only_files_that_the_manifest_does_not_name_are_removed(tmp_path):
    kept = ["segment-000004.pictures", "deleted-000005.safetensors", "order-000006.safetensors"]
    gone = ["segment-000003.safetensors", "order-000005.safetensors", ".segment-7.faiss.partial"]
    for name in (*kept, *gone, "notes.txt", ".lock"):
        (tmp_path / name).touch()
    assert unused_number(tmp_path) == 8
    write_manifest(tmp_path, MANIFEST)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {*kept, "notes.txt", ".lock", "index.json"}
    assert format_number(unused_number(tmp_path)) == "000007"


@pytest.mark.parametrize(
    "changed",
    [
        {"format": 3},
        {"kind": "SceneModel"},
        {"model": 5},
        {"folders": [1]},
        {"order": "../../etc"},
        {"segments": None},
        {"segments": [{"name": "000001"}]},
        {"segments": [{**vars(ENTRY), "name": "/000004"}]},
        {"segments": [{**vars(ENTRY), "rows": -1}]},
        {"segments": [{**vars(ENTRY), "rows": True}]},
    ],
)
def test_odd_manifests_are_refused(tmp_path, changed):
    write_manifest(tmp_path, MANIFEST)
    path = tmp_path / "index.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises(StorageError, match="index"):
        read_manifest(tmp_path)
