import os

import pytest

from supdocnade.errors import StorageError
from supdocnade.runs import RunOptions
from supdocnade.storage import lock_folder
from supdocnade.unfinished import OutputParts, PartialFolder


def partial_folder(tmp_path, command="train"):
    return PartialFolder(tmp_path / "scenes", command)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_partial_folder_lies_beside_its_output_until_it_is_discarded(tmp_path):
    partial = partial_folder(tmp_path)
    assert partial.folder == tmp_path / "scenes.partial"
    with partial.lock():
        assert partial.read_plan() is None
        (partial.folder / "block").write_bytes(b"of somebody else")
        partial.discard()
        assert (partial.folder / "block").exists()
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


@pytest.mark.parametrize("is_partial", [False, True])
def test_a_link_to_an_empty_or_a_partial_folder_is_left_alone(is_partial, tmp_path):
    other = PartialFolder(tmp_path / "other", "train")
    other.folder.mkdir()
    if is_partial:
        with other.lock():
            other.write_plan({})
            (other.folder / "block").write_bytes(b"work")
    before = contents(tmp_path)
    partial = partial_folder(tmp_path)
    partial.folder.symlink_to(other.folder)
    with pytest.raises(StorageError, match=r"scenes\.partial is in the way"), partial.lock():
        pass
    assert contents(tmp_path) == before


def test_a_pipe_that_is_no_plan_is_not_waited_for(tmp_path):
    partial = partial_folder(tmp_path)
    partial.folder.mkdir()
    os.mkfifo(partial.folder / "run.json")
    with pytest.raises(StorageError, match=r"scenes\.partial is in the way"), partial.lock():
        pass


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


@pytest.fixture
def one_image_per_part(monkeypatch):
    monkeypatch.setattr("supdocnade.unfinished.PART_SIZE", 1)


def make(parts, texts):
    """Write a text into each part that is missing; return the texts of all."""
    texts = iter(texts)

    def write(path, images, options):
        text = next(texts)
        if text == "broken":
            raise ValueError(text)
        path.write_text(text)

    return [path.read_text() for path, _ in parts.write(write, RunOptions(), "writing")]


def test_parts_are_written_in_order_and_reported_as_one_work(tmp_path, monkeypatch):
    monkeypatch.setattr("supdocnade.unfinished.PART_SIZE", 2)
    parts, written, seen = (
        OutputParts(tmp_path / "out", "test", {}, ["a", "b", "c"], ".txt"),
        [],
        [],
    )

    def write(path, images, options):
        written.append(images)
        options.progress("reading", 1, len(images))
        path.touch()

    options = RunOptions(progress=lambda *report: seen.append(report))
    with parts.open():
        found = list(parts.write(write, options, "writing"))
    assert found == [(parts.path(0), slice(0, 2)), (parts.path(1), slice(2, 3))]
    assert written == [["a", "b"], ["c"]]
    assert seen == [("writing", done, 3) for done in (1, 2, 3, 3)]


@pytest.mark.usefixtures("one_image_per_part")
@pytest.mark.parametrize("in_output", [True, False])
def test_parts_that_exist_are_not_written_again(tmp_path, in_output):
    parts = OutputParts(tmp_path / "out", "test", {}, ["a", "b", "c"], ".txt", in_output=in_output)
    with pytest.raises(ValueError, match="broken"), parts.open():
        make(parts, ["a", "broken"])
    assert parts.path(0).read_text() == "a"
    with parts.open():
        assert make(parts, ["b", "c"]) == ["a", "b", "c"]


def test_a_run_that_fails_before_its_first_part_leaves_nothing(tmp_path):
    parts = OutputParts(tmp_path / "out", "test", {}, ["a"], ".txt")
    with pytest.raises(ValueError, match="broken"), parts.open():
        make(parts, ["broken"])
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("other", [{"plan": {"seed": 1}}, {"images": ["b"]}, {"command": "encode"}])
def test_parts_of_another_run_are_refused(other, tmp_path):
    run = {"command": "test", "plan": {"seed": 0}, "images": ["a"], "suffix": ".txt"}
    parts = OutputParts(tmp_path / "out", **run)
    with parts.open():
        make(parts, ["a"])
    other = OutputParts(tmp_path / "out", **{**run, **other})
    with pytest.raises(StorageError, match=r"out\.partial holds an interrupted run"), other.open():
        pass
    assert parts.path(0).exists()


def test_parts_of_other_files_of_the_same_name_are_refused(tmp_path, monkeypatch):
    def parts():
        return OutputParts(tmp_path / "out", "test", {}, ["a.jpg"], ".txt")

    with parts().open():
        make(parts(), ["a"])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="other photographs"), parts().open():
        pass


@pytest.mark.usefixtures("one_image_per_part")
@pytest.mark.parametrize("in_output", [True, False])
@pytest.mark.parametrize("in_memory", [True, False])
def test_parts_of_images_that_have_changed_are_made_again(tmp_path, in_output, in_memory):
    images = [b"first", b"second"] if in_memory else [tmp_path / "first", tmp_path / "second"]

    def parts():
        return OutputParts(tmp_path / "out", "test", {}, images, ".txt", in_output=in_output)

    for image in () if in_memory else images:
        image.write_bytes(b"before")
    with parts().open():
        make(parts(), ["old 0", "old 1"])
        (parts().result / "all").mkdir(parents=True)
    if in_memory:
        images[1] = b"changed"
    else:
        os.utime(images[1], ns=(1, 1))
    again = pytest.warns(UserWarning, match="1 of 2 parts that were finished are made again")
    with again, parts().open():
        assert make(parts(), ["new 1"]) == ["old 0", "new 1"]
        assert (parts().result / "all").exists() == in_output
    with parts().open():
        assert make(parts(), []) == ["old 0", "new 1"]


def stop(*_, **__):
    raise SystemExit


def kill_publishing(parts, monkeypatch, step):
    """Make an output whose publication is interrupted at a step."""
    with parts.open(), monkeypatch.context() as patched:
        make(parts, ["a"])
        (parts.folder / "more").mkdir()
        patched.setattr(step, stop)
        with pytest.raises(SystemExit):
            parts.publish()


@pytest.mark.parametrize(
    "step", ["supdocnade.unfinished.move_folder", "supdocnade.unfinished.OutputParts.discard"]
)
def test_a_kill_while_an_output_is_published_is_mended(step, tmp_path, monkeypatch):
    def parts(seed=0):
        plan = {"seed": seed}
        return OutputParts(tmp_path / "out", "test", plan, ["a"], ".txt", in_output=True)

    kill_publishing(parts(), monkeypatch, step)
    with pytest.raises(StorageError), parts(seed=1).open():
        pass
    with parts().open():
        assert not parts().output.exists()
        assert make(parts(), []) == ["a"]
        parts().publish()
    assert [path.name for path in parts().output.iterdir()] == ["part-00000.txt"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_kill_after_an_output_was_published_leaves_nothing_for_long(tmp_path, monkeypatch):
    parts = OutputParts(tmp_path / "out", "test", {}, ["a"], ".txt", in_output=True)
    kill_publishing(parts, monkeypatch, "shutil.rmtree")
    with pytest.raises(StorageError, match="must be a new or an empty folder"), parts.open():
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_foreign_output_is_not_taken(tmp_path):
    parts = OutputParts(tmp_path / "out", "test", {}, ["a"], ".txt", in_output=True)
    with parts.open():
        make(parts, ["a"])
    parts.output.mkdir()
    (parts.output / "letter.txt").write_text("dear")
    with pytest.raises(StorageError, match="must be a new or an empty folder"), parts.open():
        pass
    assert (parts.output / "letter.txt").read_text() == "dear"


@pytest.mark.parametrize("target", ["empty", "missing"])
def test_a_link_is_refused_as_output_before_any_work(target, tmp_path):
    (tmp_path / "empty").mkdir()
    parts = OutputParts(tmp_path / "out", "test", {}, ["a"], ".txt")
    parts.output.symlink_to(tmp_path / target)
    with pytest.raises(StorageError, match="must be a new or an empty folder, got a link"):
        parts.open().__enter__()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "out"]


def test_nothing_is_removed_through_a_link_in_the_folder(tmp_path):
    image = tmp_path / "image"
    image.write_bytes(b"before")

    def parts():
        return OutputParts(tmp_path / "out", "test", {}, [image], ".txt", in_output=True)

    with parts().open():
        make(parts(), ["a"])
    parts().result.rename(tmp_path / "elsewhere")
    parts().result.symlink_to(tmp_path / "elsewhere")
    image.write_bytes(b"changed")
    with pytest.raises(StorageError, match="output must be a folder of this run, got a link"):
        parts().open().__enter__()
    assert (tmp_path / "elsewhere/part-00000.txt").read_text() == "a"


def test_another_folder_in_the_place_of_a_published_output_is_not_taken(tmp_path, monkeypatch):
    parts = OutputParts(tmp_path / "out", "test", {}, ["a"], ".txt", in_output=True)
    kill_publishing(parts, monkeypatch, "supdocnade.unfinished.OutputParts.discard")
    (parts.output / "part-00000.txt").unlink()
    (parts.output / "letter.txt").write_text("dear")
    with pytest.raises(StorageError, match="must be a new or an empty folder"):
        parts.open().__enter__()
    assert (parts.output / "letter.txt").read_text() == "dear"
