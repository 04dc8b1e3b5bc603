"""A scene model with a network of three maps, from photographs to a server."""

import json

import numpy as np
import pytest
from PIL import Image
from tests.commands import supdocnade
from tests.networks import LAYERS, install_network, write_network
from tests.scene_model import SETTINGS as SIFT_SETTINGS
from tests.scene_model import columns, scenes
from tests.serving import make_client, photograph, upload_form

from supdocnade import SceneModel
from supdocnade.errors import InvalidArgument
from supdocnade.gallery.build import build_gallery
from supdocnade.images import feature_network
from supdocnade.images.decode import write_image
from supdocnade.scene.model import scene_model
from supdocnade.schema import load_arrays, save_arrays
from supdocnade.visual_words.describer import NetworkDescriber
from supdocnade.visual_words.encoder import encode_all

SETTINGS = {**SIFT_SETTINGS, "mirror": False}


def tinted(n_scenes=8, seed=0):
    """Images, classes and tags of scenes in which every class has a tint."""
    images, labels, tags = columns(scenes(n_scenes, seed))
    channel = {label: number for number, label in enumerate(sorted(set(labels)))}
    dimmed = [image.copy() for image in images]
    for image, label in zip(dimmed, labels, strict=True):
        image[..., channel[label]] //= 3
    return dimmed, labels, tags


NEW = tinted(4, 7)[0]


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """Mean colours of 64 patches, and two other maps."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        library = tmp_path_factory.mktemp("networks")
        yield install_network(library, monkeypatch, side=64, patch=(8, 8), **LAYERS)


@pytest.fixture(scope="module")
def model(network):
    settings = {**SETTINGS, "features": network}
    return scene_model(**settings).fit(*tinted())


def test_it_learns_from_words_and_from_whole_photographs(model):
    fitted = model.fitted_
    assert not fitted.encoder.mirror
    assert (fitted.words.settings.n_words, fitted.words.settings.n_nearest) == (30, 4)
    assert fitted.words.settings.grid == (1, 1)
    assert "step" not in fitted.used_settings()
    assert fitted.network.config.n_visual_words == 30
    assert fitted.network.config.n_global_features == 12
    assert fitted.references.point_NX.shape == (24, 12 + 12)
    images, labels, _ = tinted(4, 7)
    assert (model.predict(images) == labels).mean() > 0.9
    one_by_one = [each.label for each in model.iter_predictions(images)]
    assert one_by_one == model.predict(images).tolist()
    # Topics depend on the features of whole photographs.
    encoded = encode_all(fitted.encoder, images)
    other = fitted.compute_topics(encoded.counts, encoded.global_features + 1)
    assert not np.array_equal(other, model.transform(images))


def test_workers_cache_and_resumption_do_not_change_a_bit(model, network, tmp_path):
    settings = {**SETTINGS, "features": network, "cache": tmp_path / "cache"}
    stages = []

    def stop(stage, done, total):
        stages.append(stage)
        if stage == "learning from all" and done == 3:
            raise KeyboardInterrupt

    again = scene_model(**settings, checkpoint=tmp_path / "checkpoint", n_jobs=2)
    with pytest.raises(KeyboardInterrupt):
        again.fit(*tinted(), progress=stop)
    again.fit(*tinted())
    np.testing.assert_array_equal(again.transform(NEW), model.transform(NEW))
    assert again.predict_proba(NEW).tolist() == model.predict_proba(NEW).tolist()


def test_a_saved_model_predicts_the_same_and_learns_more(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = SceneModel.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(NEW), model.transform(NEW))
    assert loaded.get_params()["features"] == model.features
    loaded.fit_more(*columns(scenes(4, 7)))
    learned = loaded.fitted_.training_set
    assert learned.features_BF.shape == (36, 12)
    with pytest.raises(InvalidArgument, match="features must be as before"):
        loaded.set_params(words__features="sift").fit_more(*columns(scenes(4, 7)))


def test_explanations_add_up(model, monkeypatch):
    scores = model.fitted_.class_head.scores(model._compare(NEW[:1]))[0]
    for tag in (None, model.tag_names_[0]):
        found = model.explain(NEW[0], tag=tag)
        # The maps have 8 × 8, 4 × 4 and 8 × 8 patches.
        assert (found.share_S.shape, found.global_share) == ((144,), 0)
        change = pytest.approx(found.whole - found.empty, abs=2e-3)
        assert found.share_S.sum() == change
        assert found.topic_share_H.sum() + found.feature_share == change
        if tag is None:
            assert found.whole == pytest.approx(scores.max(), abs=1e-4)
        # Tags depend on the features by the topics alone.
        assert (found.feature_share == 0) == (tag is not None)
        assert all(found.share_S[part].any() for part in (slice(64), slice(64, 80), slice(80, 144)))
        # With a class token, the features of the photograph have one share.
        monkeypatch.setattr(NetworkDescriber, "divide_features", lambda *_, **_options: None)
        whole = model.explain(NEW[0], tag=tag)
        monkeypatch.undo()
        assert whole.global_share != 0
        assert whole.share_S.shape == (64,)
        assert whole.share_S.sum() + whole.global_share == change


def test_a_network_describes_images_of_any_shape(model, tmp_path):
    """Also if there are fewer pixels than patches along a side."""
    strip = tmp_path / "photos" / "strip.png"
    write_image(strip, np.linspace(0, 255, 500).astype(np.uint8)[None])
    write_image(tmp_path / "photos" / "photo.png", NEW[0])
    model.save(tmp_path / "model")
    asked = supdocnade("predict", tmp_path / "model", tmp_path / "photos", "--quiet")
    assert (asked.code, asked.err, len(asked.out.splitlines())) == (0, "", 2)
    gallery, skipped, _ = build_gallery(model.fitted_, tmp_path / "photos", tmp_path / "index")
    assert (len(gallery), skipped) == (2, [])
    assert supdocnade("explain", tmp_path / "model", strip, "-o", tmp_path / "why.png").code == 0
    assert supdocnade("check", tmp_path / "photos").code == 0


def test_a_photograph_that_the_network_cannot_describe_is_named(model, tmp_path, monkeypatch):
    folder = tmp_path / "photos"
    for number in range(4):
        write_image(folder / f"{number}.png", NEW[number])
    model.save(tmp_path / "model")
    prepare = feature_network._prepare

    def fail(pixels, description):
        if np.array_equal(pixels, NEW[1]):
            raise RuntimeError("Failed to allocate memory")
        return prepare(pixels, description) * (np.nan if np.array_equal(pixels, NEW[2]) else 1)

    monkeypatch.setattr(feature_network, "_prepare", fail)
    asked = supdocnade("predict", tmp_path / "model", folder)
    assert (asked.code, len(asked.out.splitlines())) == (1, 2)
    memory, finite = asked.err.splitlines()
    assert memory == f"error: {folder / '1.png'} cannot be described: Failed to allocate memory."
    assert finite.startswith(f"error: {folder / '2.png'} cannot be described: ")
    assert finite.endswith("gives features that are not finite.")


def test_a_gallery_and_a_server_use_the_network(model, tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(6):
        (photos / f"{number}.jpg").write_bytes(photograph(number))
    gallery, skipped, _ = build_gallery(model.fitted_, photos, tmp_path / "index")
    assert not skipped
    with make_client(gallery=gallery, fitted=model.fitted_) as client:
        contents = [photograph(number) for number in range(3)]
        answered = client.post("/v1/predict", files=upload_form(*contents)).json()
        labels = [each["label"] for each in answered["predictions"]]
        assert labels == model.predict(contents).tolist()
        explained = client.post("/v1/explain", files=upload_form(contents[0])).json()
        parts = ("empty", "spoke_for", "spoke_against", "global_share")
        total = sum(explained[part] for part in parts)
        assert total == pytest.approx(explained["whole"], abs=1e-3)


def test_the_command_line(tmp_path, monkeypatch):
    photos = tmp_path / "photos"
    for number, scene in enumerate(scenes()):
        path = photos / scene.label / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(photograph(number))
    install_network(tmp_path / "library", monkeypatch, side=64, patch=(8, 8))
    options = ("--features", "tiny", "--topics", "8", "--words", "20", "--set", "max_epochs=4")
    trained = supdocnade("train", photos, "-o", tmp_path / "model", *options)
    assert trained.code == 0, trained.err
    assert "network tiny\n" in trained.progress
    image = next((photos / "coast").iterdir())
    predicted = supdocnade("predict", tmp_path / "model", image)
    assert predicted.code == 0, predicted.err
    explained = supdocnade("explain", tmp_path / "model", image, "-o", tmp_path / "why.png")
    assert explained.code == 0, explained.err
    monkeypatch.setattr(NetworkDescriber, "divide_features", lambda *_, **_options: None)
    options = ("-o", tmp_path / "whole.png", "--json")
    explained = json.loads(supdocnade("explain", tmp_path / "model", image, *options).out)
    assert explained["features"] != 0 != explained["global_share"]
    (tmp_path / "library/tiny/tiny.onnx").unlink()
    refused = supdocnade("predict", tmp_path / "model", image)
    assert refused.code != 0
    assert refused.err.count("\n") == 1
    assert "tiny.onnx" in refused.err
    missing = supdocnade("train", photos, "-o", tmp_path / "other", "--features", "marvel")
    assert missing.err.startswith(
        "error: the network 'marvel' is not installed; supdocnade features "
    )


def name_network(model, name, target):
    """Write a copy of a model whose files name another network."""
    model.save(target)
    path = target / "scene.safetensors"
    arrays, description = load_arrays(path)
    text = json.dumps(description)
    assert '"tiny"' in text
    save_arrays(path, arrays, json.loads(text.replace('"tiny"', json.dumps(name))))
    return target


@pytest.fixture
def no_network_runs(monkeypatch):
    def run(*_arguments, **_options):
        raise AssertionError("a network was loaded")

    monkeypatch.setattr("onnxruntime.InferenceSession", run)


@pytest.mark.usefixtures("no_network_runs")
@pytest.mark.parametrize("name", ["{model}/tiny.onnx", "tiny.onnx", "../tiny", "..", ""])
def test_a_model_cannot_name_a_file_as_its_network(model, tmp_path, monkeypatch, name):
    target = tmp_path / "model"
    name_network(model, name.format(model=target), target)
    write_network(target / "tiny.onnx", side=64, patch=(8, 8))
    monkeypatch.chdir(target)
    Image.fromarray(NEW[0]).save(tmp_path / "photo.png")
    for arguments in (["predict", target, tmp_path / "photo.png"], ["card", target]):
        done = supdocnade(*arguments)
        assert done.code == 1
        assert done.err.count("\n") == 1
        assert "scene.safetensors is damaged: " in done.err
        assert "the name of a network" in done.err


@pytest.mark.usefixtures("no_network_runs")
def test_another_network_of_the_name_is_not_run(model, tmp_path, monkeypatch):
    model.save(tmp_path / "model")
    library = tmp_path / "library"
    install_network(library, monkeypatch, side=64, patch=(8, 8), factor=2.0)
    loaded = SceneModel.load(tmp_path / "model")
    with pytest.raises(InvalidArgument, match="'tiny' must be the one that the words were learned"):
        loaded.predict(NEW[:1])
