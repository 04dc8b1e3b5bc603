"""Every command from end to end, on small drawn scenes."""

import csv
import io
import json
import shlex
import shutil

import numpy as np
import pytest
from tests.commands import CLASSES, SMALL, draw, learned, stopped_while, supdocnade
from tests.scene_model import SETTINGS, columns, scenes, small_model

from supdocnade import SceneModel
from supdocnade.cli.console import ProgressBars
from supdocnade.cli.demo import SETTINGS as DEMO_SETTINGS
from supdocnade.cli.features import describe_features
from supdocnade.folders.keywords import OWN, new_packet, read_keywords
from supdocnade.images.network_library import DEFAULT_NETWORK
from supdocnade.report.html import write_report
from supdocnade.scene.model import scene_model
from supdocnade.unfinished import PartialFolder


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
    assert done.progress.startswith(f"{describe_features('sift')}\n[")
    assert "learned 3 classes" in done.out
    assert "from 18 photographs\n" in done.out
    assert "tested on 3 photographs it had not seen: class right for" in done.out
    assert [path.name for path in model.parent.iterdir()] == ["scenes"]
    assert SceneModel.load(model).classes_.tolist() == list(CLASSES)


def test_train_json_has_metrics_and_times(photos, model, tmp_path):
    done = supdocnade("train", photos, "-o", tmp_path / "m", *SMALL, "--json", "--jobs", 1)
    (result,) = done.objects
    assert result["classes"] == list(CLASSES)
    assert result["held_out"]["n_images"] == 3
    assert set(result["seconds"]) >= {"learning words", "learning", "learning from all", "writing"}
    # One seed, one model, whatever the number of workers.
    assert learned(tmp_path / "m") == learned(model)


def test_train_names_the_option_of_a_setting_that_does_not_fit(photos, tmp_path):
    options = ("--features", "sift", "--words", 3, "--set", "n_nearest=4")
    done = supdocnade("train", photos, "-o", tmp_path / "m", *options)
    assert done.code == 1
    assert "error: --set n_nearest must be at most n_words, 3, got 4" in done.err
    assert not list(tmp_path.iterdir())


def test_train_uses_mirror_images_unless_disabled(photos, model, tmp_path):
    assert SceneModel.load(model).fitted_.encoder.mirror
    done = supdocnade("train", photos, "-o", tmp_path / "m", *SMALL, "--set", "mirror=false")
    assert "from 18 photographs\n" in done.out
    assert not SceneModel.load(tmp_path / "m").fitted_.encoder.mirror
    odd = ("--add", tmp_path / "m", "--set", "mirror=true", "-o", tmp_path / "x")
    assert "--set mirror must not be given with --add" in supdocnade("train", photos, *odd).err
    odd = ("--features", DEFAULT_NETWORK, "--set", "mirror=true", "-o", tmp_path / "x")
    assert "mirror must be False with a network" in supdocnade("train", photos, *odd).err


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


def test_predict_prints_one_line_per_photograph(model, fresh):
    done = supdocnade("predict", model, fresh / "coast", fresh / "forest" / "forest_0001.jpg")
    assert done.code == 0
    lines = done.out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(f"{fresh / 'coast' / 'coast_0001.jpg'}: ")
    assert "%" in lines[0]


def test_predict_json_format(model, fresh):
    for each in supdocnade("predict", model, fresh, "--json", "--top", 3).objects:
        marks = ["unsure", "unfamiliar"]
        assert list(each) == ["file", "label", "probability", *marks, "probabilities", "tags"]
        assert set(each["probabilities"]) == set(CLASSES)
        assert each["probability"] == max(each["probabilities"].values())
        assert sum(each["probabilities"].values()) == pytest.approx(1)
        assert [set(tag) for tag in each["tags"]] == [{"tag", "probability"}] * 3


def test_predict_prints_csv(model, fresh):
    done = supdocnade("predict", model, fresh, "--csv")
    assert [row["label"] in CLASSES for row in csv.DictReader(io.StringIO(done.out))] == [True] * 6


def test_predict_continues_after_an_unreadable_file(model, fresh, tmp_path):
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"no image")
    done = supdocnade("predict", model, bad, tmp_path / "missing.jpg", fresh / "coast", "--json")
    assert done.code == 1
    assert len(done.objects) == 2
    assert [line.startswith("error: ") for line in done.err.splitlines()] == [True, True]
    assert "bad.jpg" in done.err
    assert "missing.jpg" in done.err


def test_predict_writes_sidecars(model, fresh, tmp_path):
    own = tmp_path / "own"
    shutil.copytree(fresh, own)
    before = {path: path.read_bytes() for path in own.rglob("*.jpg")}
    record = tmp_path / "record.jsonl"
    arguments = ("tag", model, own, "--with-class", "--min-probability", 0.3, "--record", record)
    dry = supdocnade(*arguments, "--dry-run")
    assert dry.code == 0
    assert dry.out.count(f"would write {own}") == 6
    assert dry.err == "would write 6 sidecars\n"
    assert not record.exists()
    assert not list(own.rglob("*.xmp"))
    done = supdocnade(*arguments, "--json")
    assert done.code == 0
    assert done.err == f"wrote 6 sidecars; undo with: supdocnade tag --undo {record}\n"
    assert done.objects == [json.loads(line) for line in record.read_text().splitlines()]
    written = {each["sidecar"]: each["keywords"] for each in done.objects}
    for each in supdocnade("predict", model, own, "--json", "--top", 99).objects:
        keywords = [tag["tag"] for tag in each["tags"] if tag["probability"] >= 0.3]
        if not each["unsure"] and each["probability"] >= 0.3:
            keywords = [each["label"], *keywords]
        assert written[f"{each['file']}.xmp"] == keywords
        assert read_keywords((own / f"{each['file']}.xmp").read_bytes()) == keywords
    assert {path: path.read_bytes() for path in own.rglob("*.jpg")} == before
    # A second time there is nothing to add.
    sidecars = {path: path.stat().st_mtime_ns for path in own.rglob("*.xmp")}
    again = supdocnade(*arguments)
    assert (again.code, again.err) == (0, "wrote 0 sidecars\n")
    assert {path: path.stat().st_mtime_ns for path in own.rglob("*.xmp")} == sidecars
    assert supdocnade("tag", "--undo", record, "--dry-run").out.count("would delete ") == 6
    assert len(list(own.rglob("*.xmp"))) == 6
    undone = supdocnade("tag", "--undo", record)
    assert (undone.code, undone.out) == (0, "undid the changes of 6 files\n")
    assert not list(own.rglob("*.xmp"))


def test_tags_are_spelled_as_in_most_training_photographs(fresh, tmp_path):
    photo = shutil.copy(fresh / "coast" / "coast_0001.jpg", tmp_path)
    images, labels, tags = columns(scenes())
    upper = [[tag.upper() for tag in some] for some in tags]
    upper[0] = tags[0]
    model = scene_model(**SETTINGS).fit(images, labels, upper)
    model.save(tmp_path / "upper")
    names = {tag.upper() for tag in small_model().tag_names_}
    assert {*model.tag_names_} == names
    options = ("--top", 99, "--json")
    found, plain = (
        next(iter(each.iter_predictions([photo]))).ranked_tags for each in (model, small_model())
    )
    assert found == tuple((tag.upper(), probability) for tag, probability in plain)
    printed = supdocnade("predict", tmp_path / "upper", photo, *options).objects[0]["tags"]
    assert {each["tag"] for each in printed} == names
    assert model.explain(photo, tag=plain[0][0]).name == found[0][0]
    evaluated = supdocnade("evaluate", tmp_path / "upper", fresh, "--json").objects[0]
    assert evaluated["f_measure"] > 0
    write_report(model.fitted_, tmp_path / "report.html")
    assert "Missed: <bdi>" in (tmp_path / "report.html").read_text()
    arguments = ("--min-probability", 0, "--record", tmp_path / "record.jsonl", "--json")
    assert supdocnade("tag", tmp_path / "upper", photo, *arguments).code == 0
    keywords = read_keywords((tmp_path / "coast_0001.jpg.xmp").read_bytes())
    assert {*keywords} == names


def test_levels_of_keywords_are_learned_and_embedded(tmp_path):
    photos = draw(tmp_path / "photos")
    lines = [json.loads(line) for line in (photos / "metadata.jsonl").read_text().splitlines()]
    (photos / "metadata.jsonl").unlink()
    for line in lines:
        packet = new_packet([f"Things|{tag}" for tag in line["tags"]]).replace(OWN.encode(), b"x:y")
        (photos / line["file_name"]).with_suffix(".xmp").write_bytes(packet)
    model, more, fresh = tmp_path / "scenes", tmp_path / "more", draw(tmp_path / "fresh", 1, seed=9)
    assert supdocnade("train", photos, "-o", model, *SMALL).code == 0
    assert supdocnade("train", fresh, "--add", model, "-o", more).code == 0
    for each in (model, more):
        done = supdocnade("tag", each, fresh, "--embed", "--dry-run", "--min-probability", 0)
        assert done.err == "would write 3 JPEG files\n"
        words = ", ".join(line.rpartition(": ")[2] for line in done.out.splitlines()).split(", ")
        assert all(word.startswith("Things|") for word in words)


def test_predict_recognises_a_photograph_under_several_names(model, fresh, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "link").symlink_to("own")
    shutil.copy(fresh / "coast" / "coast_0001.jpg", tmp_path / "own" / "a.jpg")
    shutil.copy(fresh / "coast" / "coast_0002.jpg", tmp_path / "own" / "a.jpeg")
    names = ("own/a.jpg", "own", tmp_path / "own" / "a.jpg", "link/../own/a.jpg", "link/a.jpg")
    # The two photographs in the folder would share a sidecar.
    done = supdocnade("predict", model, *names, "--json")
    assert [each["file"] for each in done.objects] == [
        *("own/a.jpg", "own/a.jpeg", "own/a.jpg", str(tmp_path / "own" / "a.jpg")),
        *("link/../own/a.jpg", "link/a.jpg"),
    ]
    arguments = ("--sidecar", "stem", "--json", "--quiet", "--min-probability", 0)
    tagged = supdocnade("tag", model, *names, *arguments)
    assert tagged.code == 1
    (line,) = tagged.err.splitlines()
    assert "own/a.xmp would hold the keywords of" in line
    assert line.endswith("own/a.jpg and own/a.jpeg.")
    (written,) = tagged.objects
    assert read_keywords((tmp_path / "own" / "a.xmp").read_bytes()) == written["keywords"]


def test_evaluate_prints_metrics_and_confusion(model, fresh):
    done = supdocnade("evaluate", model, fresh)
    assert done.code == 0
    for text in ("accuracy", "F-measure", "calibration", "true class", "[1] coast"):
        assert text in done.out
    (result,) = supdocnade("evaluate", model, fresh, "--json").objects
    assert result["n_images"] == 6
    assert 0 <= result["accuracy"] <= 1
    assert 0 < result["f_measure"] <= 1
    assert sum(sum(row.values()) for row in result["confusion"].values()) == 6
    assert set(result["tags"]) == set(SceneModel.load(model).tag_names_)


def test_evaluate_counts_unknown_classes_as_errors(model, tmp_path):
    draw(tmp_path / "p", 1, seed=2, classes=("coast", "dunes"))
    (result,) = supdocnade("evaluate", model, tmp_path / "p", "--json").objects
    assert result["n_unknown_classes"] == 1
    assert result["accuracy"] <= 0.5
    assert "do not know" in supdocnade("evaluate", model, tmp_path / "p").out.replace("does", "do")


def test_evaluate_needs_classes_or_tags(model, fresh, tmp_path):
    shutil.copy(fresh / "coast" / "coast_0001.jpg", tmp_path)
    done = supdocnade("evaluate", model, tmp_path)
    assert done.code == 1
    assert "nothing to compare with; give the folder above it" in done.err


def test_explain_draws_a_picture_whose_shares_add_up(model, fresh, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    photo = fresh / "coast" / "coast_0001.jpg"
    done = supdocnade("explain", model, photo, "--label", "coast")
    assert done.code == 0
    assert (tmp_path / "coast_0001-coast.png").read_bytes().startswith(b"\x89PNG")
    tag = SceneModel.load(model).tag_names_[0]
    done = supdocnade("explain", model, photo, "--tag", tag, "-o", "tag.png", "--json")
    (result,) = done.objects
    assert (result["kind"], result["name"], result["picture"]) == ("tag", tag, "tag.png")
    total = np.sum([patch["share"] for patch in result["patches"]])
    assert total == pytest.approx(result["whole"] - result["empty"], abs=1e-3)
    assert sum(result["topics"]) == pytest.approx(total, abs=1e-3)
    assert (tmp_path / "tag.png").is_file()
    shares = [each["share"] for each in result["voters"]]
    assert shares == sorted(shares, reverse=True)
    told = supdocnade("explain", model, photo, "--tag", tag).out.splitlines()
    assert len(told) == 2 + bool(shares)
    assert all(each["file"] in told[1] for each in result["voters"])


def test_explain_replaces_no_file(model, fresh, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    photo = tmp_path / "a.png"
    shutil.copy(fresh / "coast" / "coast_0001.jpg", photo)
    before = photo.read_bytes()
    assert supdocnade("explain", model, photo, "-o", photo).code == 1
    assert photo.read_bytes() == before
    assert supdocnade("explain", model, photo, "-o", tmp_path / "a.jpg").code == 1
    assert supdocnade("explain", model, photo, "--tag", "nothing").code == 1
    first, second = (
        supdocnade("explain", model, photo, "--json").objects[0]["picture"] for _ in range(2)
    )
    assert first != second


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


def test_demo_resumes_and_ends_with_a_report(tmp_path, monkeypatch):
    folder = tmp_path / "my demo"
    for name, value in (("n_words", 30), ("max_epochs", 12)):
        monkeypatch.setitem(DEMO_SETTINGS, name, value)
    for name, value in (("N_TRAIN", 4), ("N_FRESH", 1)):
        monkeypatch.setattr(f"supdocnade.cli.demo.{name}", value)
    with stopped_while("learning from all"):
        other = PartialFolder(folder / "model", "train")
        with other.lock():
            other.write_plan({})
        refused = supdocnade("demo", "-o", folder)
        assert "holds an interrupted run of supdocnade train" in refused.err
        shutil.rmtree(other.folder)
        stopped = supdocnade("demo", "-o", folder, "--features", "sift", "--quiet")
    again = f"supdocnade demo -o '{folder}' --features sift"
    assert (stopped.code, stopped.err.splitlines()[-1]) == (130, f"stopped; resume with: {again}")
    stages, report = set(), ProgressBars.__call__

    def record(self, name, done, total):
        report(self, name, done, total)
        stages.add(name)

    with monkeypatch.context() as patched:
        patched.setattr(ProgressBars, "__call__", record)
        done = supdocnade(*shlex.split(again)[1:])
    assert done.code == 0, done.err
    assert "learning from all" in stages
    assert "learning" not in stages  # Already done before.
    assert sorted(path.name for path in folder.iterdir()) == [
        *("fresh", "model", "photos", "report.html")
    ]
    assert f"The report: {folder / 'report.html'}" in done.out
    assert f"supdocnade explain '{folder / 'model'}'" in done.out
    assert f"supdocnade serve '{folder / 'model'}'" in done.out
    assert "<html" in (folder / "report.html").read_text()
    assert f"{describe_features('sift')}\n" in done.out
    assert done.out.count("  truth: ") == 4
    (folder / "other.txt").write_text("other")
    assert supdocnade("demo", "-o", folder).code == 1


def test_a_run_of_another_process_is_not_touched(photos, tmp_path):
    running = PartialFolder(tmp_path / "m", "train")
    with running.lock():
        for plan in (None, {"photos": str(photos), "settings": {}}):
            if plan is not None:
                running.write_plan(plan)
            for option in ((), ("--resume",)):
                done = supdocnade("train", photos, "-o", tmp_path / "m", *SMALL, *option)
                assert done.code == 1
                assert "another process is writing to it" in done.err
            assert running.read_plan() == plan


def test_evaluate_warns_about_training_photographs(model, photos, fresh):
    assert (
        "18 of these photographs were used for training"
        in supdocnade("evaluate", model, photos).err
    )
    assert "used for training" not in supdocnade("evaluate", model, fresh).err
