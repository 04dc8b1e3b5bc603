import inspect
from dataclasses import asdict

import pytest
from sklearn.base import clone

from supdocnade import SceneModel
from supdocnade.errors import InvalidArgument
from supdocnade.scene.settings import SIFT_SETTINGS, SceneSettings


def test_parameters_of_the_model_are_the_settings_and_the_options_of_a_run():
    options = {"n_jobs", "device", "random_state", "on_error", "cache", "checkpoint"}
    params = SceneModel().get_params()
    assert set(params) == {*SceneSettings.names(), *options}
    assert {name: params[name] for name in SceneSettings.names()} == asdict(SceneSettings())
    signature = inspect.signature(SceneModel)
    assert list(signature.parameters)[:2] == ["n_topics", "features"]
    assert signature.parameters["n_words"].kind is inspect.Parameter.KEYWORD_ONLY


def test_a_model_is_an_estimator():
    model = SceneModel(7, grid=[[1, 1], [2, 2]])
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(n_words=3).n_words == 3
    assert "n_topics=7" in repr(model)
    assert model != clone(model)
    assert hash(model)


def test_lists_become_tuples():
    settings = SceneSettings(grid=[[1, 1], [2, 2]], patch_size=[16, 24]).check()
    assert (settings.grid, settings.patch_size) == (((1, 1), (2, 2)), (16, 24))


def test_a_network_does_not_use_the_settings_of_sift():
    sift = SceneSettings()
    network = SceneSettings(features="efficientnet-lite2")
    assert sift.used() == asdict(sift)
    assert set(sift.used()) - set(network.used()) == set(SIFT_SETTINGS)
    assert network.used()["features"] == "efficientnet-lite2"
    assert (network.check().n_topics, network.check().n_nearest) == (512, 4)


def test_mirror_images_belong_to_sift():
    assert SceneSettings().check().mirror is True
    assert SceneSettings(mirror=False).check().mirror is False
    assert SceneSettings(features="marvel").check().mirror is False
    with pytest.raises(InvalidArgument, match="mirror must be False with a network"):
        SceneSettings(features="marvel", mirror=True).check()


def test_the_weight_of_tags_depends_on_their_outputs():
    for output, expected in (("words", 30.0), ("sigmoid", 1.0)):
        assert SceneSettings(annotation_output=output).check().annotation_weight == expected
        given = SceneSettings(annotation_output=output, annotation_weight=3.0)
        assert given.check().annotation_weight == 3.0
