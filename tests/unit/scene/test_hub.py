import re

import numpy as np
import pytest
from tests.hub import COMMIT, run_hub
from tests.scene_model import scenes, small_model

from supdocnade import SceneModel
from supdocnade.errors import StorageError
from supdocnade.scene.persistence import DESCRIPTION, SCENE

hub_package = pytest.importorskip("huggingface_hub", reason="the extra hub is not installed")
NAME = "someone/scenes"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with run_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


@pytest.fixture
def pushed(hub):
    with pytest.warns(UserWarning, match="The model carries thumbnails of"):
        hub.commit = small_model().push_to_hub(NAME, private=True, token="hf_secret")
    return hub


def test_a_model_is_uploaded_with_its_card(pushed):
    assert pushed.commit.endswith(f"/{NAME}/commit/{COMMIT}")
    files = pushed.files[NAME]
    assert set(files) == {SCENE, DESCRIPTION, "README.md"}
    assert b"\n# someone/scenes\n" in files["README.md"]
    assert pushed.created == [
        {"name": "scenes", "organization": "someone", "visibility": "private"}
    ]
    for _, _, headers in pushed.requests:
        assert headers["authorization"] == "Bearer hf_secret"
        # With telemetry, the Hub would learn the versions of other packages.
        assert "torch" not in headers["user-agent"]


def test_a_model_of_the_hub_predicts_as_before(pushed, tmp_path):
    model = SceneModel.from_pretrained(NAME, cache_dir=tmp_path)
    images = [scene.image for scene in scenes()[:3]]
    np.testing.assert_array_equal(model.predict_proba(images), small_model().predict_proba(images))
    fetched = {
        path for method, path, _ in pushed.requests if method == "GET" and "/resolve/" in path
    }
    assert {path.rpartition("/")[2] for path in fetched} == {SCENE, DESCRIPTION}
    pushed.requests.clear()
    again = SceneModel.from_pretrained(NAME, cache_dir=tmp_path, local_files_only=True)
    assert again.get_params() == model.get_params()
    assert pushed.requests == []


def test_a_model_of_a_stranger_is_checked(pushed, tmp_path):
    content = bytearray(pushed.files[NAME][SCENE])
    content[len(content) // 2] ^= 1
    pushed.files[NAME][SCENE] = bytes(content)
    with pytest.raises(StorageError, match="is damaged"):
        SceneModel.from_pretrained(NAME, cache_dir=tmp_path)


def test_a_stripped_model_is_uploaded_without_pictures_and_names(hub):
    with pytest.warns(UserWarning, match="without pictures, names and tags"):
        small_model().push_to_hub(NAME, strip=True)
    assert b"\xff\xd8\xff" not in hub.files[NAME][SCENE]  # The beginning of a JPEG file.


def test_errors_are_one_sentence(hub, tmp_path, monkeypatch):
    with pytest.raises(StorageError, match="someone/none cannot be fetched: ") as caught:
        SceneModel.from_pretrained("someone/none", cache_dir=tmp_path)
    assert "\n" not in str(caught.value)
    for name in ("scenes", "../scenes", "a/b/c", "https://evil.example/a"):
        with pytest.raises(
            StorageError, match=re.escape(f"there is no folder {name}, and it is no")
        ):
            SceneModel.from_pretrained(name)
        with pytest.raises(StorageError, match="no name of the Hub"), pytest.warns(match="carries"):
            small_model().push_to_hub(name)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    unreachable = pytest.raises(StorageError, match="someone/scenes cannot be uploaded")
    with unreachable, pytest.warns(match="carries"):
        small_model().push_to_hub(NAME)


def test_a_folder_needs_no_hub(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    small_model().save(tmp_path / "scenes")
    model = SceneModel.from_pretrained(tmp_path / "scenes")
    assert model.classes_.tolist() == small_model().classes_.tolist()
    with pytest.raises(ValueError, match=r"the Hub needs an extra that is not installed: .*hub"):
        SceneModel.from_pretrained(NAME)
