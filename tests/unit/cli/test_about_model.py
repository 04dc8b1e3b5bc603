from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.commands import supdocnade
from tests.scene_model import SETTINGS, columns, scenes, small_model

from supdocnade import SceneModel
from supdocnade.cli.about_model import format_info, info_to_dict
from supdocnade.scene.sharing import is_stripped
from supdocnade.visual_words.settings import VisualWordSettings


def test_info_lists_classes_tags_settings_and_figures():
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
    error = f"{100 * fitted.held_out.figures['class_calibration_error']:.1f}"
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
