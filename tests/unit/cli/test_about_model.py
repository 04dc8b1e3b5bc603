from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.commands import supdocnade
from tests.scene_model import SETTINGS, columns, scenes, small_model

from supdocnade import SceneModel
from supdocnade.cli.about_model import format_evaluation, format_info, info_to_dict
from supdocnade.report.evaluation import Evaluation
from supdocnade.scene.sharing import is_stripped
from supdocnade.visual_words.settings import VisualWordSettings


def test_info_lists_classes_tags_settings_and_metrics():
    fitted = small_model().fitted_
    found = info_to_dict("m", fitted)
    assert found["classes"] == {"coast": 8, "forest": 8, "skyline": 8}
    assert list(found["tags"]) == list(fitted.tag_names)
    for tag, described in found["tags"].items():
        assert described["n_images"] == sum(tag in tags for tags in columns(scenes())[2])
        assert fitted.tag_threshold <= described["written_from"] <= 1
    assert found["settings"]["n_topics"] == SETTINGS["n_topics"]
    assert found["held_out"]["n_images"] == fitted.held_out.n_images
    lines = [line.split() for line in format_info(fitted).splitlines()]
    assert ["coast", "8"] in lines
    assert ["features", "sift"] in lines
    assert found["choices"]["vote_weight"] == fitted.choices.vote_weight
    assert ["n_topics", "12"] in lines
    assert "n_topics" not in format_info(fitted, all_rows=False)
    error = f"{100 * fitted.held_out.metrics['class_calibration_error']:.1f}"
    assert ["calibration", "error", "of", "classes", error, "%"] in lines
    assert any(line[-1:] == ["%"] for line in lines)


def test_settings_that_only_sift_uses_are_left_out_for_a_network():
    fitted = small_model().fitted_
    words = SimpleNamespace(
        settings=VisualWordSettings.for_photographs("resnet"),
        encoder=fitted.encoder,
    )
    network = replace(fitted, words=words)
    assert {"step", "patch_size"} <= set(info_to_dict("m", fitted)["settings"])
    assert not {"step", "patch_size"} & set(info_to_dict("m", network)["settings"])
    assert "patch_size" in format_info(fitted)
    assert "patch_size" not in format_info(network)


@pytest.fixture
def model(tmp_path):
    small_model().save(tmp_path / "scenes")
    return tmp_path / "scenes"


def test_the_card_is_printed(model):
    done = supdocnade("card", model)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("---\nlibrary_name: supdocnade\n")
    assert "\n# scenes\n" in done.out


def test_a_model_to_share_says_what_it_carries(model, tmp_path):
    done = supdocnade("card", model, "-o", tmp_path / "whole", "--name", "someone/scenes")
    assert done.code == 0
    assert done.err.startswith("note: The model carries thumbnails of ")
    assert "\n# someone/scenes\n" in (tmp_path / "whole/README.md").read_text()
    assert SceneModel.load(tmp_path / "whole").fitted_.thumbnails.pictures
    done = supdocnade("card", model, "-o", tmp_path / "less", "--strip", "--license", "mit")
    assert "without pictures and names" in done.err
    assert "\nlicense: mit\n" in (tmp_path / "less/README.md").read_text()
    assert is_stripped(SceneModel.load(tmp_path / "less").fitted_)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_model_is_replaced_with_force_alone(model, tmp_path):
    target = tmp_path / "other"
    small_model().save(target)
    (target / "report.html").write_text("a report")
    before = contents(target)
    refused = supdocnade("card", model, "-o", target, "--strip")
    assert (refused.code, refused.err) == (
        1,
        f"error: {target} holds a model; --force replaces it.\n",
    )
    assert contents(target) == before
    assert supdocnade("card", model, "-o", target, "--strip", "--force").code == 0
    assert is_stripped(SceneModel.load(target).fitted_)


@pytest.mark.parametrize("options", [(), ("--force",), ("--force", "--strip")])
@pytest.mark.parametrize("name", ["scenes", "link", "missing/../scenes"])
def test_a_model_is_never_replaced_by_a_copy_of_itself(name, options, model, tmp_path):
    (tmp_path / "link").symlink_to(model)
    before = contents(model)
    done = supdocnade("card", model, "-o", tmp_path / name, *options)
    assert (done.code, done.err) == (
        1,
        f"error: --output must be another folder than the model, got {tmp_path / name}.\n",
    )
    assert contents(model) == before


def test_a_folder_with_other_files_is_refused(model, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/letter.txt").write_text("dear")
    done = supdocnade("card", model, "-o", tmp_path / "full")
    assert done.code == 1
    assert "contains other files" in done.err


LETTERS = "abcdefghijklmn"


def evaluation(n_classes, n_tags=0, n_right=18):
    classes = LETTERS[:n_classes]
    confusion = {label: {name: n_right * (name == label) for name in classes} for label in classes}
    confusion["a"]["b"] = 2
    metrics = {"n_images": 9, "n_predicted": 0, "precision": None, "recall": 0.0}
    tags = {f"tag {number:02}": metrics for number in range(n_tags)}
    if n_tags:
        tags["tag 01"] = {"n_images": 10, "n_predicted": 8, "precision": 0.75, "recall": 0.6}
    return Evaluation(
        n_images=200,
        n_labelled=200,
        accuracy=0.99,
        class_calibration_error=0.01,
        confusion=confusion,
        tags=tags,
    )


def test_few_classes_have_a_matrix():
    text = format_evaluation(evaluation(12))
    assert "[12]" in text
    assert "confusions" not in text


def test_columns_of_classes_without_photographs_are_named():
    known = evaluation(3)
    assert "other predicted classes" not in format_evaluation(known)
    odd = {"a": known.confusion["a"], "x": {"a": 0, "b": 1, "c": 0}}
    text = format_evaluation(replace(known, confusion=odd))
    assert text.endswith("\nother predicted classes: [2] b, [3] c")


def test_classes_that_the_model_does_not_know_are_marked():
    for n_classes in (3, 13):
        known = evaluation(n_classes)
        odd = {**known.confusion, "x": dict.fromkeys(known.confusion, 1)}
        text = format_evaluation(replace(known, confusion=odd, n_unknown_classes=n_classes))
        assert "\nx (not known)  " in text
        assert text.count("(not known)") == 1


def test_calibration_errors_are_in_percent():
    metrics = {"f_measure": 0.5, "f_measure_of_given": 0.6, "tag_calibration_error": 0.0042}
    text = format_evaluation(replace(evaluation(2), **metrics))
    errors = [line.split()[2:] for line in text.splitlines() if "calibration error" in line]
    assert errors == [["1.0", "%"], ["0.4", "%"]]


def test_many_classes_have_their_shares_and_confusions():
    text = format_evaluation(evaluation(13))
    assert max(map(len, text.splitlines())) < 80
    lines = [line.split() for line in text.splitlines()]
    assert ["a", "20", "90", "%"] in lines
    assert ["m", "18", "100", "%"] in lines
    assert ["a,", "predicted", "as", "b", "2", "of", "20"] in lines
    assert text.count("predicted as") == 1
    assert "[13]" in format_evaluation(evaluation(13), all_rows=True)
    for n_classes in (3, 13):
        assert " 1,800 " in format_evaluation(evaluation(n_classes, n_right=1800))


def test_tags_have_precision_and_recall():
    text = format_evaluation(evaluation(2, n_tags=22))
    header, first, second, *_ = text.split("\n\n")[-1].splitlines()
    assert header.split() == ["tag", "photographs", "predicted", "precision", "recall"]
    assert first.split() == ["tag", "01", "10", "8", "75", "%", "60", "%"]
    assert second.split() == ["tag", "00", "9", "0", "-", "0", "%"]
    assert "(2 other tags: --all)" in text
    assert "tag 21" not in text
    assert "tag 21" in format_evaluation(evaluation(2, n_tags=22), all_rows=True)


def test_few_photographs_are_counted():
    metrics = {"n_images": 2, "n_labelled": 2, "accuracy": 1.0, "class_calibration_error": 0.1}
    few = Evaluation(**metrics, confusion={"a": {"a": 2, "b": 0}})
    assert "2 of 2" in format_evaluation(few)
    assert "99.0 %" in format_evaluation(evaluation(2))
    one = Evaluation(**metrics, confusion={"a": {"a": 2}})
    assert format_evaluation(one) == "photographs  2"


def test_photographs_unlike_those_of_training_are_counted():
    assert "unlike" not in format_evaluation(evaluation(2))
    text = format_evaluation(replace(evaluation(2), n_unfamiliar=7))
    assert ["unlike", "the", "training", "photographs", "7"] in map(str.split, text.splitlines())
