import pytest

from supdocnade.errors import StorageError
from supdocnade.partial_folder import PartialFolder
from supdocnade.storage import lock_folder


def partial_folder(tmp_path, command="train"):
    return PartialFolder(tmp_path / "scenes", command)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_partial_folder_lies_beside_its_output_until_it_is_discarded(tmp_path):
    partial = partial_folder(tmp_path)
    assert partial.folder == tmp_path / "scenes.partial"
    with partial.lock():
        assert partial.read_plan() is None
        partial.write_plan({"seed": 0})
        (partial.folder / "block").write_bytes(b"work")
    assert partial.exists
    with partial.lock():
        assert partial.read_plan() == {"seed": 0}
        partial.discard()
        assert not (partial.folder / "block").exists()
        partial.write_plan({"seed": 1})
    with partial.lock():
        assert partial.read_plan() == {"seed": 1}
        partial.discard()
    assert not any(tmp_path.iterdir())


def test_a_run_that_ends_without_a_plan_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="bad"), partial_folder(tmp_path).lock():
        raise ValueError("bad")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "files", [["letter.txt"], ["words/a"], ["run.json"], ["part-00000.jsonl"], [".lock"]]
)
@pytest.mark.parametrize("by_link", [False, True])
def test_a_folder_of_somebody_else_is_left_alone(files, by_link, tmp_path):
    partial = partial_folder(tmp_path)
    folder = tmp_path / "mine" if by_link else partial.folder
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text('{"plan": {}}')
    if by_link:
        partial.folder.symlink_to(folder)
    before = contents(tmp_path)
    with pytest.raises(StorageError, match=r"scenes\.partial is in the way"), partial.lock():
        pass
    assert contents(tmp_path) == before
    assert not partial.exists


def test_a_link_to_a_partial_folder_is_left_alone(tmp_path):
    other = PartialFolder(tmp_path / "other", "train")
    with other.lock():
        other.write_plan({})
        (other.folder / "block").write_bytes(b"work")
    partial = partial_folder(tmp_path)
    partial.folder.symlink_to(other.folder)
    with pytest.raises(StorageError, match=r"scenes\.partial is in the way"), partial.lock():
        pass
    assert (other.folder / "block").exists()


def test_what_a_kill_leaves_is_removed(tmp_path, monkeypatch):
    partial = partial_folder(tmp_path)
    partial.folder.mkdir()
    (partial.folder / ".run.json.0a1b2c3d.partial").write_bytes(b"")  # Before there is a plan.
    (partial.folder / ".lock").touch()
    with partial.lock():
        partial.write_plan({})
        (partial.folder / "blocks").mkdir()
        (partial.folder / "blocks" / "1").touch()
    with monkeypatch.context() as patched, partial.lock():
        patched.setattr("shutil.rmtree", lambda *_, **__: None)
        partial.discard()
    assert (partial.folder / "blocks" / "1").exists()
    assert not partial.exists
    with partial.lock():
        assert not (partial.folder / "blocks").exists()
    assert not any(tmp_path.iterdir())


def test_a_run_of_another_command_is_named(tmp_path):
    with partial_folder(tmp_path).lock():
        partial_folder(tmp_path).write_plan({})
    other = partial_folder(tmp_path, "encode")
    with pytest.raises(StorageError, match="an interrupted run of supdocnade train"), other.lock():
        other.read_plan()


def test_only_one_run_holds_the_lock(tmp_path):
    partial = partial_folder(tmp_path)
    message = r"scenes\.partial cannot be written now: another"
    with partial.lock(), pytest.raises(StorageError, match=message), partial.lock():
        pass
    with partial.lock(), lock_folder(tmp_path):
        pass


def test_errors_name_the_folder(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    cannot = pytest.raises(StorageError, match="cannot be created")
    with cannot, PartialFolder(tmp_path / "file" / "scenes", "train").lock():
        pass
    with (
        pytest.raises(StorageError, match="missing cannot be written"),
        lock_folder(tmp_path / "missing"),
    ):
        pass
