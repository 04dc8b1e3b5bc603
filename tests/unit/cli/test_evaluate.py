from dataclasses import replace

from supdocnade.cli.evaluate import format_evaluation
from supdocnade.report.evaluation import Evaluation

LETTERS = "abcdefghijklmn"


def evaluation(n_classes, n_tags=0, n_right=18):
    classes = LETTERS[:n_classes]
    confusion = {label: {name: n_right * (name == label) for name in classes} for label in classes}
    confusion["a"]["b"] = 2
    figures = {"n_images": 9, "n_predicted": 0, "precision": None, "recall": 0.0}
    tags = {f"tag {number:02}": figures for number in range(n_tags)}
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
    figures = {"f_measure": 0.5, "f_measure_of_given": 0.6, "tag_calibration_error": 0.0042}
    text = format_evaluation(replace(evaluation(2), **figures))
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
    figures = {"n_images": 2, "n_labelled": 2, "accuracy": 1.0, "class_calibration_error": 0.1}
    few = Evaluation(**figures, confusion={"a": {"a": 2, "b": 0}})
    assert "2 of 2" in format_evaluation(few)
    assert "99.0 %" in format_evaluation(evaluation(2))
    one = Evaluation(**figures, confusion={"a": {"a": 2}})
    assert format_evaluation(one) == "photographs  2"


def test_photographs_unlike_those_of_training_are_counted():
    assert "unlike" not in format_evaluation(evaluation(2))
    text = format_evaluation(replace(evaluation(2), n_unfamiliar=7))
    assert ["unlike", "the", "training", "photographs", "7"] in map(str.split, text.splitlines())
