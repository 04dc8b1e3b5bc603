import pytest
from tests.commands import supdocnade
from tests.scene_model import small_model

from supdocnade import SceneModel
from supdocnade.scene.sharing import is_stripped


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
    assert "without pictures, names and tags" in done.err
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
@pytest.mark.parametrize("name", ["scenes", "link"])
def test_a_model_is_never_replaced_by_a_copy_of_itself(name, options, model, tmp_path):
    (tmp_path / "link").symlink_to(model)
    before = contents(model)
    done = supdocnade("card", model, "-o", tmp_path / name, *options)
    assert (done.code, done.err) == (
        1,
        f"error: --output must be another folder than the model, got {tmp_path / name}.\n",
    )
    assert contents(model) == before


def test_errors(model, tmp_path):
    assert "--strip needs --output" in supdocnade("card", model, "--strip").err
    (tmp_path / "full").mkdir()
    (tmp_path / "full/letter.txt").write_text("dear")
    done = supdocnade("card", model, "-o", tmp_path / "full")
    assert done.code == 1
    assert "contains other files" in done.err
