"""Every command from end to end, on small drawn scenes."""

import csv
import io
import shlex
import shutil

import numpy as np
import pytest
from tests.commands import CLASSES, SMALL, draw, learned, supdocnade

from supdocnade import SceneModel
from supdocnade.cli.console import Stages
from supdocnade.cli.run import UnfinishedRun
from supdocnade.cli.xmp import read_keywords


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("data") / "photos")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("data") / "fresh", 2, seed=1)


@pytest.fixture(scope="module")
def trained(photos, tmp_path_factory):
    model = tmp_path_factory.mktemp("models") / "scenes"
    return model, supdocnade("train", photos, "-o", model, *SMALL)


@pytest.fixture
def model(trained):
    return trained[0]


def test_train_writes_a_model_and_leaves_nothing_else(trained, photos):
    model, done = trained
    assert done.code == 0
    assert done.err == ""
    assert "learned 3 classes" in done.out
    assert "from 18 photographs\n" in done.out
    assert "held out" in done.out
    assert [path.name for path in model.parent.iterdir()] == ["scenes"]
    assert SceneModel.load(model).classes_.tolist() == list(CLASSES)


def test_train_tells_programs_figures_and_times(photos, model, tmp_path):
    done = supdocnade("train", photos, "-o", tmp_path / "m", *SMALL, "--json", "--jobs", 1)
    (told,) = done.objects
    assert told["classes"] == list(CLASSES)
    assert told["held_out"]["n_images"] == 3
    assert set(told["seconds"]) >= {"learning words", "learning", "learning from all", "writing"}
    # One seed, one model, whatever the number of workers.
    assert learned(tmp_path / "m") == learned(model)


def test_train_tunes_when_asked_to(photos, tmp_path):
    done = supdocnade(
        "train", photos, "-o", tmp_path / "m", *SMALL, "--tune", "--tune-trials", 2, "--json"
    )
    assert done.code == 0
    assert "trial 2 of 2" in done.objects[0]["seconds"]


def test_train_learns_from_mirror_images_unless_told_not_to(photos, model, tmp_path):
    assert SceneModel.load(model).fitted_.training_set.mirrored is not None
    done = supdocnade("train", photos, "-o", tmp_path / "m", *SMALL, "--no-mirror")
    assert "from 18 photographs\n" in done.out
    assert SceneModel.load(tmp_path / "m").fitted_.training_set.mirrored is None
    odd = ("--add", tmp_path / "m", "--mirror", "-o", tmp_path / "x")
    assert "mirror must be as before, False" in supdocnade("train", photos, *odd).err


def test_train_adds_photographs_to_a_model(model, tmp_path):
    more = draw(tmp_path / "more", 5, seed=3, classes=("street",))
    done = supdocnade("train", more, "--add", model, "-o", tmp_path / "both", "--json")
    assert done.code == 0, done.err
    (described,) = done.objects
    assert described["classes"] == ["coast", "forest", "skyline", "street"]
    assert described["data"]["images_of_class"] == dict.fromkeys(described["classes"], 6) | {
        "street": 5
    }
    assert supdocnade("predict", tmp_path / "both", more).code == 0
    refused = supdocnade("train", more, "--add", model, "-o", tmp_path / "x", "--words", "9")
    assert refused.code == 1
    assert "--words must not be given with --add" in refused.err


def test_predict_gives_a_line_for_every_photograph(model, fresh):
    done = supdocnade("predict", model, fresh / "coast", fresh / "forest" / "forest_0001.jpg")
    assert done.code == 0
    lines = done.out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(f"{fresh / 'coast' / 'coast_0001.jpg'}: ")
    assert "%" in lines[0]


def test_predict_json_is_what_other_programs_rely_on(model, fresh):
    for each in supdocnade("predict", model, fresh, "--json", "--top", 3).objects:
        keys = ["file", "label", "probability", "unsure", "probabilities", "tags"]
        assert list(each) == keys
        assert set(each["probabilities"]) == set(CLASSES)
        assert each["probability"] == max(each["probabilities"].values())
        assert sum(each["probabilities"].values()) == pytest.approx(1)
        assert [set(tag) for tag in each["tags"]] == [{"tag", "probability"}] * 3


def test_predict_csv_can_be_read_back(model, fresh):
    done = supdocnade("predict", model, fresh, "--csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert len(rows) == 6
    assert {row["label"] for row in rows} <= set(CLASSES)
    for row in rows:
        assert len(row["tags"].split("|")) == len(row["tag_probabilities"].split("|"))


def test_predict_goes_on_after_a_file_that_cannot_be_read(model, fresh, tmp_path):
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"no image")
    done = supdocnade("predict", model, bad, tmp_path / "missing.jpg", fresh / "coast", "--json")
    assert done.code == 1
    assert len(done.objects) == 2
    assert [line.startswith("error: ") for line in done.err.splitlines()] == [True, True]
    assert "bad.jpg" in done.err
    assert "missing.jpg" in done.err


def test_predict_takes_names_from_a_file(model, fresh, tmp_path):
    listed = tmp_path / "list.txt"
    names = sorted(map(str, fresh.glob("coast/*.jpg")))
    listed.write_text("\r\n".join(names) + "\n\n")
    done = supdocnade("predict", model, "--files-from", listed, "--json")
    assert [each["file"] for each in done.objects] == names
    assert supdocnade("predict", model, "--files-from", tmp_path / "none").code == 1


def test_predict_of_an_empty_folder_says_so(model, tmp_path):
    done = supdocnade("predict", model, tmp_path)
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "no photographs" in done.err


def test_predict_writes_tags_beside_the_photographs(model, fresh, tmp_path):
    own = tmp_path / "own"
    shutil.copytree(fresh, own)
    before = {path: path.read_bytes() for path in own.rglob("*.jpg")}
    arguments = ("predict", model, own, "--write-xmp", "--top", 2, "--xmp-label")
    dry = supdocnade(*arguments, "--dry-run")
    assert dry.code == 0
    assert dry.err.count("would write ") == 6
    assert not list(own.rglob("*.xmp"))
    done = supdocnade(*arguments, "--json")
    assert done.code == 0
    for each in done.objects:
        keywords = read_keywords((own / f"{each['file']}.xmp").read_bytes())
        wanted = [tag["tag"] for tag in each["tags"]]
        assert keywords == (wanted if each["unsure"] else [each["label"], *wanted])
    assert {path: path.read_bytes() for path in own.rglob("*.jpg")} == before
    # A second time there is nothing to add.
    sidecars = {path: path.stat().st_mtime_ns for path in own.rglob("*.xmp")}
    assert supdocnade(*arguments).code == 0
    assert {path: path.stat().st_mtime_ns for path in own.rglob("*.xmp")} == sidecars


def test_predict_knows_a_photograph_by_any_name(model, fresh, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "link").symlink_to("own")
    shutil.copy(fresh / "coast" / "coast_0001.jpg", tmp_path / "own" / "a.jpg")
    shutil.copy(fresh / "coast" / "coast_0002.jpg", tmp_path / "own" / "a.jpeg")
    arguments = ("--write-xmp", "--top", 2, "--xmp-name", "stem", "--json")
    names = ("own/a.jpg", "own", tmp_path / "own" / "a.jpg", "link/../own/a.jpg", "link/a.jpg")
    # Of the two photographs, that are in the folder, one has no sidecar to itself.
    done = supdocnade("predict", model, *names, *arguments)
    assert done.code == 1
    assert [each["file"] for each in done.objects] == [
        *("own/a.jpg", "own/a.jpeg", "own/a.jpg", str(tmp_path / "own" / "a.jpg")),
        *("link/../own/a.jpg", "link/a.jpg"),
    ]
    (line,) = done.err.splitlines()
    assert "own/a.xmp would hold the keywords of" in line
    assert line.endswith("own/a.jpg and own/a.jpeg.")
    wanted = [tag["tag"] for tag in done.objects[0]["tags"]]
    assert read_keywords((tmp_path / "own" / "a.xmp").read_bytes()) == wanted


def test_predict_leaves_a_damaged_sidecar_alone(model, fresh, tmp_path):
    photo = shutil.copy(fresh / "coast" / "coast_0001.jpg", tmp_path / "a.jpg")
    sidecar = tmp_path / "a.xmp"
    sidecar.write_text("not xml")
    done = supdocnade("predict", model, photo, "--write-xmp", "--xmp-name", "stem", "--top", 2)
    assert done.code == 1
    assert "a.xmp stays as it is" in done.err
    assert sidecar.read_text() == "not xml"


def test_evaluate_prints_figures_and_confusion(model, fresh):
    done = supdocnade("evaluate", model, fresh)
    assert done.code == 0
    for text in ("accuracy", "F-measure", "calibration", "true class", "[1] coast"):
        assert text in done.out
    (told,) = supdocnade("evaluate", model, fresh, "--json").objects
    assert told["n_images"] == 6
    assert 0 <= told["accuracy"] <= 1
    assert 0 < told["f_measure"] <= 1
    assert sum(sum(row.values()) for row in told["confusion"].values()) == 6


def test_evaluate_counts_classes_that_the_model_does_not_know(model, tmp_path):
    draw(tmp_path / "p", 1, seed=2, classes=("coast", "dunes"))
    (told,) = supdocnade("evaluate", model, tmp_path / "p", "--json").objects
    assert told["n_unknown_classes"] == 1
    assert told["accuracy"] <= 0.5
    assert "do not know" in supdocnade("evaluate", model, tmp_path / "p").out.replace("does", "do")


def test_evaluate_needs_something_to_compare_with(model, fresh, tmp_path):
    shutil.copy(fresh / "coast" / "coast_0001.jpg", tmp_path)
    done = supdocnade("evaluate", model, tmp_path)
    assert done.code == 1
    assert "nothing to compare with" in done.err


def test_explain_draws_a_picture_whose_shares_add_up(model, fresh, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    photo = fresh / "coast" / "coast_0001.jpg"
    done = supdocnade("explain", model, photo, "--label", "coast")
    assert done.code == 0
    assert (tmp_path / "coast_0001-coast.png").read_bytes().startswith(b"\x89PNG")
    tag = SceneModel.load(model).tag_names_[0]
    done = supdocnade("explain", model, photo, "--tag", tag, "-o", "tag.png", "--json")
    (told,) = done.objects
    assert (told["kind"], told["name"], told["picture"]) == ("tag", tag, "tag.png")
    total = np.sum([patch["share"] for patch in told["patches"]])
    assert total == pytest.approx(told["whole"] - told["empty"], abs=1e-3)
    assert sum(told["topics"]) == pytest.approx(total, abs=1e-3)
    assert (tmp_path / "tag.png").is_file()


def test_explain_never_replaces_the_photograph(model, fresh, tmp_path):
    photo = tmp_path / "a.png"
    shutil.copy(fresh / "coast" / "coast_0001.jpg", photo)
    before = photo.read_bytes()
    assert supdocnade("explain", model, photo, "-o", photo).code == 1
    assert photo.read_bytes() == before
    assert supdocnade("explain", model, photo, "-o", tmp_path / "a.jpg").code == 1
    assert supdocnade("explain", model, photo, "--tag", "nothing").code == 1


def test_report_is_written_into_the_model(trained, tmp_path):
    model = tmp_path / "m"
    shutil.copytree(trained[0], model)
    done = supdocnade("report", model, "--json")
    assert done.objects == [{"report": str(model / "report.html")}]
    assert "<html" in (model / "report.html").read_text()
    assert supdocnade("report", model, "-o", tmp_path / "r.html").code == 0
    assert (tmp_path / "r.html").is_file()
    # It is still a model, which --force may replace.
    assert SceneModel.load(model).classes_.tolist() == list(CLASSES)


def test_bench_prints_ratios():
    (told,) = supdocnade("bench", "--json", "--rounds", 1).objects
    for row in told.values():
        assert row["ratio"] == pytest.approx(row["plain_ms"] / row["ours_ms"])


def test_demo_ends_with_a_report_and_what_to_type_next(tmp_path, monkeypatch):
    folder = tmp_path / "my demo"
    report = Stages.__call__

    def stop(self, name, done, total):
        report(self, name, done, total)
        if name == "learning from all":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Stages, "__call__", stop)
        stopped = supdocnade("demo", "-o", folder, "--scenes", 4, "--quiet")
    again = f"supdocnade demo -o '{folder}' --scenes 4 --seed 0"
    assert (stopped.code, stopped.err.splitlines()[-1]) == (130, f"stopped; go on with: {again}")
    seen = set()

    def see(self, name, done, total):
        report(self, name, done, total)
        seen.add(name)

    with monkeypatch.context() as patched:
        patched.setattr(Stages, "__call__", see)
        done = supdocnade(*shlex.split(again)[1:])
    assert done.code == 0, done.err
    assert "learning from all" in seen
    assert "learning" not in seen  # That was over before.
    assert sorted(path.name for path in folder.iterdir()) == [
        *("fresh", "model", "photos", "report.html")
    ]
    assert f"The report: {folder / 'report.html'}" in done.out
    assert f"supdocnade explain '{folder / 'model'}'" in done.out
    assert "<html" in (folder / "report.html").read_text()
    assert done.out.count("  truth: ") == 4
    (folder / "mine.txt").write_text("mine")
    assert supdocnade("demo", "-o", folder).code == 1


def test_a_file_that_cannot_be_read_alone_is_no_crash(model, tmp_path):
    (tmp_path / "bad.jpg").write_text("junk")
    done = supdocnade("predict", model, tmp_path / "bad.jpg")
    assert done.code == 1
    assert "bad.jpg is no image" in done.err
    assert "mistake" not in done.err


def test_explain_replaces_nothing_that_is_there(model, fresh, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    photo = sorted(fresh.glob("*/*.jpg"))[0]
    first = supdocnade("explain", model, photo, "--json").objects[0]["picture"]
    before = (tmp_path / first).read_bytes()
    second = supdocnade("explain", model, photo, "--json").objects[0]["picture"]
    assert first != second
    assert (tmp_path / first).read_bytes() == before


def test_a_run_that_is_going_on_is_left_alone(photos, tmp_path):
    running = UnfinishedRun(tmp_path / "m")
    running.begin(photos, {})
    with running.lock():
        for option in ((), ("--restart",), ("--resume",)):
            done = supdocnade("train", photos, "-o", tmp_path / "m", *SMALL, *option)
            assert done.code == 1
            assert "another process is writing to it" in done.err
    assert running.exists


def test_evaluate_says_what_was_learned_from(model, photos, fresh):
    assert "18 photographs of these were learned from" in supdocnade("evaluate", model, photos).err
    assert "learned from" not in supdocnade("evaluate", model, fresh).err
