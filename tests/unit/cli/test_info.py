from dataclasses import replace

from tests.scene_model import SETTINGS, columns, scenes, small_model

from supdocnade.cli.info import format_info, info_to_dict


def test_info_lists_classes_tags_settings_and_figures():
    fitted = small_model().fitted_
    found = info_to_dict("m", fitted, 0)
    assert found["classes"] == {"coast": 8, "forest": 8, "skyline": 8}
    assert list(found["tags"]) == list(fitted.tag_names)
    for tag, described in found["tags"].items():
        assert described["n_images"] == sum(tag in tags for tags in columns(scenes())[2])
        assert fitted.tag_threshold <= described["written_from"] <= 1
    assert found["settings"]["n_topics"] == SETTINGS["n_topics"]
    assert found["held_out"]["n_images"] == fitted.held_out.n_images
    lines = [line.split() for line in format_info(fitted, 0).splitlines()]
    assert ["coast", "8"] in lines
    assert ["features", "sift"] in lines
    assert ["classifier", "svm"] in lines
    assert found["classifier"] == "svm"
    assert ["n_topics", "12"] in lines
    error = f"{100 * fitted.held_out.figures['class_calibration_error']:.1f}"
    assert ["calibration", "error", "of", "classes", error, "%"] in lines
    assert any(line[-1:] == ["%"] for line in lines)


def test_settings_that_only_sift_uses_are_left_out_for_a_network():
    fitted = small_model().fitted_
    network = replace(fitted, settings=replace(fitted.settings, features="resnet"))
    assert {"step", "patch_size"} <= set(info_to_dict("m", fitted, 0)["settings"])
    assert not {"step", "patch_size"} & set(info_to_dict("m", network, 0)["settings"])
    assert "patch_size" in format_info(fitted, 0)
    assert "patch_size" not in format_info(network, 0)
