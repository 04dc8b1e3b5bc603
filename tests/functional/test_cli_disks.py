"""Read-only and full disks: one-line errors, exit codes, nothing lost."""

import shlex

import pytest
from tests.commands import SMALL, draw, supdocnade
from tests.disks import commands_on, permissions_count, read_only, small


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with photographs and a model."""
    folder = tmp_path_factory.mktemp("disk")
    draw(folder / "photos", 5, classes=("coast", "forest"))
    assert supdocnade("train", folder / "photos", "-o", folder / "m", *SMALL).code == 0
    return folder


def refused(done, *expected):
    """Check that a command failed and return its one line of error."""
    assert (done.code, done.out) == (1, "")
    (line,) = done.err.splitlines()
    assert line.startswith("error: ")
    for text in expected:
        assert text in line
    return line


@pytest.fixture(scope="module")
def done(made, tmp_path_factory):
    """Results of commands on a read-only disk and on several full ones."""
    photos, model, photo = made / "photos", made / "m", made / "photos/coast/coast_0001.jpg"
    disks = {
        # The number of files is limited, not their size.
        "no names": {"nr_inodes": 2},
        "some words": {"size": "16k"},
        "no model": {"size": "128k"},
        "one model": {"size": f"{kilobytes(model) + 128}k"},
    }
    full = tmp_path_factory.mktemp("full")
    for name in disks:
        (full / name).mkdir()

    def train(output, *options):
        return ("train", photos, "-o", output, *SMALL, "--jobs", 1, *options)

    commands = {
        "train": train(made / "new"),
        "replace": train(model, "--force"),
        "predict": ("predict", model, photos, "--json"),
        "tag": (
            *("tag", model, photo, "--min-probability", 0),
            *("--record", full / "record.jsonl", "--quiet"),
        ),
        "evaluate": ("evaluate", model, photos, "--json", "--quiet"),
        "explain": ("explain", model, photo, "-o", made / "why.png"),
        "report": ("report", model),
    }
    for name in ("no names", "some words", "no model"):
        commands[name] = train(full / name / "m")
        commands[f"{name}, again"] = train(full / name / "m")
    commands["one model"] = train(full / "one model" / "m", "--force", "--seed", 1)
    commands["one model, asked"] = ("predict", full / "one model" / "m", photos, "--json")
    return commands_on(
        [
            *(small(full / name, **limits) for name, limits in disks.items()),
            shlex.join(["cp", "-r", str(model), str(full / "one model")]),
            read_only(made),
        ],
        commands,
    )


def kilobytes(folder):
    return sum(path.stat().st_size for path in folder.iterdir()) // 1024


def test_a_read_only_disk_is_not_written_to(made, done):
    refused(done["train"], "new", "Read-only file system")
    refused(done["replace"], "m.partial", "Read-only file system")
    refused(done["explain"], "why.png cannot be written: Read-only file system")
    refused(done["report"], "report.html cannot be written: Read-only file system")
    assert (done["tag"].code, done["tag"].out) == (1, "")
    assert "coast_0001.jpg.xmp cannot be written: Read-only file system" in done["tag"].err
    assert sorted(path.name for path in made.iterdir()) == ["m", "photos"]


def test_a_read_only_disk_is_read(done):
    assert (done["predict"].code, len(done["predict"].objects), done["predict"].err) == (0, 10, "")
    assert (done["evaluate"].code, done["evaluate"].objects[0]["n_images"]) == (0, 10)


def test_a_disk_that_is_full_from_the_start_leaves_nothing_in_the_way(done):
    line = refused(done["no names"], "m.partial cannot be written: No space left on device")
    assert refused(done["no names, again"]) == line


@pytest.mark.parametrize(
    ("disk", "place"), [("some words", "/words/"), ("no model", "scene.safetensors")]
)
def test_a_disk_that_becomes_full_loses_nothing(done, disk, place):
    refused(done[disk], place, "No space left on device; the work so far is kept, resume with: ")
    refused(done[f"{disk}, again"], "continue it with --resume")


def test_a_full_disk_keeps_the_model_that_is_there(done):
    """With room for one model only, the existing one stays usable."""
    refused(done["one model"], "scene.safetensors cannot be written: No space left", "--resume")
    asked = done["one model, asked"]
    assert (asked.code, asked.out) == (0, done["predict"].out)


def test_a_place_without_permission(made, tmp_path):
    tmp_path.chmod(0o500)
    try:
        with permissions_count():
            done = supdocnade("train", made / "photos", "-o", tmp_path / "m", *SMALL)
    finally:
        tmp_path.chmod(0o700)
    refused(done, "m.partial", "Permission denied")
    assert not list(tmp_path.iterdir())
