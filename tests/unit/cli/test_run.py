from pathlib import Path

import pytest

from supdocnade.cli.run import PartialRun, describe_records
from supdocnade.errors import StorageError
from supdocnade.folders.photo_folder import ImageRecord


def test_the_one_class_of_added_photographs_is_not_unusual():
    photos = Path("photos")
    records = [ImageRecord(photos / "coast" / name, "coast", None) for name in ("a.jpg", "b.jpg")]
    assert "of one class, coast" in describe_records(records)[0]
    assert describe_records(records, extends=True) == []
    assert describe_records(records[:1], extends=True) == []


def test_a_partial_run_that_was_killed_without_settings_is_replaced(tmp_path):
    """A kill may come before the settings are written, or after they were removed."""
    partial = PartialRun(tmp_path / "scenes")
    partial.checkpoint.mkdir(parents=True)
    (partial.checkpoint / "old.safetensors").write_bytes(b"")
    (partial.folder / ".run.json.0a1b2c3d.partial").write_bytes(b"")
    assert not partial.exists
    partial.write_settings("photos", {"seed": 1})
    assert partial.read_settings("photos") == {"seed": 1}
    assert not partial.checkpoint.exists()
    partial.discard()
    assert not partial.folder.exists()


def test_a_folder_that_is_no_partial_run_is_left_alone(tmp_path):
    partial = PartialRun(tmp_path / "scenes")
    partial.folder.mkdir()
    (partial.folder / "letter.txt").write_text("dear")
    with pytest.raises(StorageError, match="in the way"):
        partial.write_settings("photos", {})
    assert (partial.folder / "letter.txt").read_text() == "dear"
