import pytest

from supdocnade.errors import StorageError
from supdocnade.partial_folder import PartialFolder, lock_folder


def test_a_partial_folder_lies_beside_its_output(tmp_path):
    partial = PartialFolder(tmp_path / "scenes")
    assert partial.folder == tmp_path / "scenes.partial"
    assert not partial.exists
    partial.create()
    partial.create()
    assert partial.exists
    (partial.folder / "block").write_bytes(b"work")
    partial.discard()
    assert not partial.exists
    partial.discard()


def test_only_one_run_holds_the_lock(tmp_path):
    partial = PartialFolder(tmp_path / "scenes")
    partial.create()
    message = r"scenes\.partial cannot be written now: another"
    with partial.lock(), pytest.raises(StorageError, match=message), partial.lock():
        pass
    with partial.lock(), lock_folder(tmp_path):
        pass


def test_errors_name_the_folder(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot be created"):
        PartialFolder(tmp_path / "file" / "scenes").create()
    with (
        pytest.raises(StorageError, match="missing cannot be written"),
        lock_folder(tmp_path / "missing"),
    ):
        pass
