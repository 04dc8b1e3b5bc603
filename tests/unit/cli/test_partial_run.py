import pytest

from supdocnade.cli.partial_run import PartialRun
from supdocnade.errors import StorageError


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
