import re
from dataclasses import replace

import numpy as np
import pytest
from tests.hub import COMMIT, run_hub
from tests.scene_model import CLASSES, columns, params_of, scenes, small_model

from supdocnade import SceneModel
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.metrics import share_interval
from supdocnade.report.html import write_report
from supdocnade.scene.persistence import DESCRIPTION, SCENE, load_scene, save_scene
from supdocnade.scene.sharing import describe_contents, is_stripped, model_card, strip_scene


@pytest.fixture(scope="module")
def fitted():
    return small_model().fitted_


@pytest.fixture(scope="module")
def stripped(fitted, tmp_path_factory):
    """A stripped model, saved and loaded."""
    folder = tmp_path_factory.mktemp("stripped") / "scenes"
    save_scene(strip_scene(fitted), folder)
    return load_scene(folder), folder


def test_a_card_has_the_metrics_of_the_model(fitted):
    card = model_card(fitted, "scenes", licence="cc-by-4.0")
    metrics = fitted.held_out.metrics
    n = int(metrics["n_labelled"])
    ends = share_interval(round(metrics["accuracy"] * n), n)
    low, high = (f"{100 * end:.1f}" for end in ends)
    for expected in (
        "license: cc-by-4.0\n",
        f"| {100 * metrics['accuracy']:.1f} % (95 % interval {low} % to {high} %) |",
        "| calibration error of class probabilities | "
        f"{100 * metrics['class_calibration_error']:.1f} % |",
        f"{fitted.data['n_images']} photographs, 0 of them without a class",
        "30 visual words, 12 topics, from sift.",
        'SceneModel.from_pretrained("scenes")',
        "thumbnails of",
    ):
        assert expected in card
    for label in CLASSES:
        assert f"| {label} | 8 |" in card
    assert "license:" not in model_card(fitted, "scenes")
    large = replace(fitted, data={**fitted.data, "n_images": 4500})
    assert "\n4,500 photographs, 0 of them" in model_card(large, "scenes")


def test_names_cannot_change_the_card(fitted):
    odd = replace(fitted, tag_names=("a|b", "<script>", "line\nbreak"))
    assert "Tags: a\\|b, \\<script\\>, line break." in model_card(odd, "scenes\n---\nx: y")
    assert "\n# scenes --- x: y\n" in model_card(odd, "scenes\n---\nx: y")


def test_a_model_of_tags_alone_has_no_accuracy(fitted):
    metrics = {name: fitted.held_out.metrics[name] for name in ("f_measure", "n_tagged")}
    tags = replace(fitted, held_out=replace(fitted.held_out, metrics=metrics))
    card = model_card(tags, "scenes")
    assert "F-measure of five tags" in card
    assert "accuracy of the class" not in card


def test_a_stripped_model_predicts_the_same(fitted, stripped):
    loaded, _ = stripped
    images = [scene.image for scene in scenes()[:4]]
    for scene in images:
        words = [loaded.encoder.encode(scene).words]
        after, before = loaded.compare(words), fitted.compare(words)
        np.testing.assert_array_equal(after.topics_BH, before.topics_BH)
        np.testing.assert_array_equal(
            loaded.is_unfamiliar(after.topics_BH), fitted.is_unfamiliar(before.topics_BH)
        )
        np.testing.assert_array_equal(loaded.class_proba(after), fitted.class_proba(before))
        np.testing.assert_array_equal(loaded.tag_proba(after), fitted.tag_proba(before))


def test_a_stripped_model_carries_no_pictures_names_and_tags(fitted, stripped):
    loaded, folder = stripped
    assert is_stripped(loaded)
    assert not is_stripped(fitted)
    photographs = loaded.training_set.photographs
    assert set(photographs.tags) == {None}
    assert photographs.names[0] == photographs.keys[0] == "photograph 1"
    assert loaded.thumbnails.pictures == ()
    assert all(image.tags is None for image in loaded.held_out.images)
    content = (folder / SCENE).read_bytes()
    for key in fitted.training_set.photographs.content_keys():
        assert key.encode() not in content
    assert (
        "24 photographs, and the tags of 24, without pictures and names"
        in describe_contents(loaded)[0]
    )
    assert "the tags of 24" in describe_contents(fitted)[1]


def test_a_stripped_model_has_a_report_and_a_page(stripped, tmp_path):
    loaded, _ = stripped
    write_report(loaded, tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 1000
    explore = pytest.importorskip(
        "supdocnade.serving.explore", reason="needs the extra serve", exc_type=ImportError
    )
    overview = explore.describe_overview(loaded, "0" * 8)
    assert [each["label"] for each in overview["classes"]] == list(CLASSES)


def test_nothing_can_be_added_to_a_stripped_model(stripped):
    model = SceneModel.load(stripped[1])
    with pytest.raises(InvalidArgument, match="this model was stripped of the tags"):
        model.fit_more(*columns(scenes()[:3]))


NAME = "someone/scenes"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    pytest.importorskip("huggingface_hub", reason="the extra hub is not installed")
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
    assert params_of(again) == params_of(model)
    assert pushed.requests == []


def test_a_model_of_a_stranger_is_checked(pushed, tmp_path):
    content = bytearray(pushed.files[NAME][SCENE])
    content[len(content) // 2] ^= 1
    pushed.files[NAME][SCENE] = bytes(content)
    with pytest.raises(StorageError, match="is damaged"):
        SceneModel.from_pretrained(NAME, cache_dir=tmp_path)


def test_a_stripped_model_is_uploaded_without_pictures_and_names(hub):
    with pytest.warns(UserWarning, match="without pictures and names"):
        small_model().push_to_hub(NAME, strip=True)
    assert b"\xff\xd8\xff" not in hub.files[NAME][SCENE]  # The beginning of a JPEG file.


def test_errors_are_one_sentence(hub, tmp_path, monkeypatch):
    with pytest.raises(StorageError, match="someone/none cannot be fetched: ") as caught:
        SceneModel.from_pretrained("someone/none", cache_dir=tmp_path)
    assert "\n" not in str(caught.value)
    for name in ("scenes", "../scenes", "a/b/c", "https://evil.example/a"):
        message = re.escape(f"there is no folder {name}; a name of the Hub is owner/model.")
        with pytest.raises(StorageError, match=message):
            SceneModel.from_pretrained(name)
        with pytest.raises(StorageError, match=message), pytest.warns(match="carries"):
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
    with pytest.raises(ValueError, match=r"the Hub needs an extra: .*hub"):
        SceneModel.from_pretrained(NAME)
