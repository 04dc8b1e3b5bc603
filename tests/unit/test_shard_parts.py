import pytest

from supdocnade.errors import ClusterError, StorageError
from supdocnade.run_options import RunOptions
from supdocnade.shard_parts import ShardParts


def write(task):
    path, shard = task
    if shard == "broken":
        raise ValueError(shard)
    path.write_text(shard)


def test_parts_that_exist_are_not_written_again(tmp_path):
    parts = ShardParts(tmp_path / "out", {"seed": 0}, ".txt")
    with pytest.raises(ValueError, match="broken"), parts.open():
        list(parts.write(write, ["a", "broken", "c"], RunOptions()))
    assert parts.path(0).read_text() == "a"
    parts.path(0).write_text("kept")
    with parts.open():
        paths = list(parts.write(write, ["a", "b", "c"], RunOptions()))
    assert [path.read_text() for path in paths] == ["kept", "b", "c"]


def test_a_run_that_fails_before_its_first_part_leaves_nothing(tmp_path):
    parts = ShardParts(tmp_path / "out", {}, ".txt")
    with pytest.raises(ValueError, match="broken"), parts.open():
        list(parts.write(write, ["broken"], RunOptions()))
    assert not parts.exists


def test_parts_of_another_plan_are_refused(tmp_path):
    parts = ShardParts(tmp_path / "out", {"seed": 0}, ".txt")
    with parts.open():
        list(parts.write(write, ["a"], RunOptions()))
    other = ShardParts(tmp_path / "out", {"seed": 1}, ".txt")
    with pytest.raises(StorageError, match=r"out\.partial holds an interrupted run"), other.open():
        pass
    assert parts.path(0).exists()


def test_a_part_on_the_disk_of_another_machine_is_an_error(tmp_path):
    parts = ShardParts(tmp_path / "out", {}, ".txt")
    with pytest.raises(ClusterError, match="must share the folder"), parts.open():
        list(parts.write(lambda task: None, ["a"], RunOptions()))


def test_a_kill_while_a_folder_is_published_is_mended(tmp_path):
    parts = ShardParts(tmp_path / "out", {"seed": 0}, ".txt")
    with parts.open():
        list(parts.write(write, ["a"], RunOptions()))
    parts.folder.rename(parts.output)  # The first step of `publish`.
    with parts.open():
        assert [path.read_text() for path in parts.write(write, ["b"], RunOptions())] == ["a"]
        parts.publish()
    assert [path.name for path in parts.output.iterdir()] == ["part-00000.txt"]
    assert not parts.exists


def test_parts_without_a_plan_are_removed(tmp_path):
    parts = ShardParts(tmp_path / "out", {"seed": 0}, ".txt")
    with parts.open():
        list(parts.write(write, ["a"], RunOptions()))
    (parts.folder / "plan.json").unlink()
    other = ShardParts(tmp_path / "out", {"seed": 1}, ".txt")
    with other.open():
        assert [path.read_text() for path in other.write(write, ["b"], RunOptions())] == ["b"]


def test_a_complete_output_is_taken_back_by_its_own_run_alone(tmp_path):
    parts = ShardParts(tmp_path / "out", {"seed": 0}, ".txt")
    with parts.open():
        list(parts.write(write, ["a"], RunOptions()))
    parts.output.mkdir()
    (parts.output / "corpus.txt").write_text("whole")
    ShardParts(tmp_path / "out", {"seed": 1}, ".txt").take_back("corpus")
    assert (parts.output / "corpus.txt").exists()
    parts.take_back("corpus")
    assert not parts.output.exists()
    assert (parts.folder / "corpus" / "corpus.txt").read_text() == "whole"
