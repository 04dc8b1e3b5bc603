import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from supdocnade.errors import BackendUnavailable, InvalidArgument, StorageError, UnwritableFile
from supdocnade.images import feature_network
from supdocnade.images.feature_network import FeatureNetwork, write_network

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from tests import networks  # noqa: E402 (it imports onnx)

IMAGE = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tiny.onnx"


def load(path, **settings):
    return FeatureNetwork.load(networks.write_network(path, **settings))


def patches_of(network, pixels=IMAGE, **options):
    """Return the patches of the only map."""
    (found,) = network.describe(pixels, **options)
    return found.patches_PD


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_patches_of_a_map_are_rows(path):
    network = load(path, patch=(2, 4))
    assert (network.name, network.shapes) == ("tiny", ((4, 2, 3),))
    ((grid, patches_PD, image_D),) = network.describe(IMAGE)
    assert grid == (4, 2)
    assert_close(patches_PD, networks.mean_colors(IMAGE, (2, 4)))
    assert_close(image_D, patches_PD.mean(axis=0))
    assert patches_PD.dtype == image_D.dtype == np.float32
    assert patches_PD.flags.c_contiguous


def test_tokens_are_patches(path):
    network = load(path, layout="tokens")
    ((grid, patches_PD, image_D),) = network.describe(IMAGE)
    assert grid == (2, 2)
    assert_close(patches_PD, networks.mean_colors(IMAGE))
    assert_close(image_D, patches_PD.mean(axis=0))


def test_the_first_class_token_describes_the_image(path):
    network = load(path, layout="tokens", leading=[[1, 2, 3], [4, 5, 6]], class_tokens=2)
    ((_, patches_PD, image_D),) = network.describe(IMAGE)
    assert_close(patches_PD, networks.mean_colors(IMAGE))
    assert_close(image_D, [1, 2, 3])


def test_mean_and_scale_are_those_of_the_channels_of_the_network(path):
    levels = networks.mean_colors(IMAGE) * 128 + 127
    mean, scale = [10.0, 20.0, 30.0], [2.0, 4.0, 8.0]
    rgb = load(path, mean=mean, scale=scale)
    np.testing.assert_allclose(patches_of(rgb), (levels - mean) / scale, rtol=1e-5)


def test_a_network_gives_several_maps(path):
    names = ["coarse", "map"]
    network = load(path, patch=(2, 2), extra_outputs=["coarse"], outputs=names)
    assert network.shapes == ((2, 2, 3), (4, 4, 3))
    coarse, fine = network.describe(IMAGE)
    assert_close(coarse.patches_PD, networks.mean_colors(IMAGE))
    assert_close(fine.patches_PD, networks.mean_colors(IMAGE, (2, 2)))
    swapped = load(path, patch=(2, 2), extra_outputs=["coarse"], outputs=names[::-1])
    assert swapped.fingerprint() != network.fingerprint()


def test_a_photograph_of_any_size_is_seen_whole(path):
    network = load(path)
    ramp = np.linspace(0, 255, 300).astype(np.uint8)
    wide = np.repeat(np.repeat(ramp[None, :, None], 90, axis=0), 3, axis=2)
    patches_PD = patches_of(network, wide)
    quarters = (np.array([63.5, 191.5]) - 127) / 128  # The means of both halves of the ramp.
    np.testing.assert_allclose(
        patches_PD, np.repeat([quarters, quarters], 3).reshape(4, 3), atol=0.02
    )
    # Alternating columns become grey, and not one of the two levels.
    stripes = np.zeros((400, 400, 3), np.uint8)
    stripes[:, ::2] = 255
    np.testing.assert_allclose(patches_of(network, stripes), 0, atol=0.01)


def test_a_network_of_fixed_size_is_run(path):
    assert_close(patches_of(load(path, shape=(1, 3, 8, 8))), networks.mean_colors(IMAGE))


def test_threads_share_a_session_and_get_the_same_bits(path, monkeypatch):
    network = load(path, patch=(2, 2), factor=0.1)
    images = np.random.default_rng(1).integers(0, 256, (40, 30, 20, 3), np.uint8)
    expected = [patches_of(network, image) for image in images]
    monkeypatch.setattr(feature_network, "_sessions", {})
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda image: patches_of(network, image), images))
    np.testing.assert_array_equal(found, expected)
    assert len(feature_network._sessions) == 1


def test_the_fingerprint_is_that_of_the_features(tmp_path, path):
    first = load(path).fingerprint()
    moved = load(tmp_path / "elsewhere/other.onnx", name="other", licence="MIT", mean=[127] * 3)
    assert moved.fingerprint() == first
    for setting in ({"mean": 126}, {"scale": 127}, {"factor": 2.0}):
        assert load(path, **setting).fingerprint() != first


def test_a_file_that_changed_is_noticed(path, monkeypatch):
    network = load(path)
    networks.write_network(path, factor=2.0)
    network.describe(IMAGE)  # The session holds the old one.
    monkeypatch.setattr(feature_network, "_sessions", {})
    with pytest.raises(StorageError, match=r"tiny\.onnx has changed since it was loaded\."):
        network.describe(IMAGE)


def test_weights_in_other_files_are_refused(path):
    networks.write_network(path, external="tiny.bin")
    with pytest.raises(StorageError, match=r"has weights in 'tiny\.bin'; onnx\.save"):
        FeatureNetwork.load(path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layout": "vector"}, r"must give an output of shape \(1, channels, rows, columns\) or "),
        ({"shape": ("batch", 1, 8, 8)}, "no network that can be run: .*Got: 3 Expected: 1"),
        ({"shape": (1, 3, 16, 16)}, "no network that can be run: .*Got: 8 Expected: 16"),
        ({"input_type": onnx.TensorProto.UINT8}, "no network that can be run: .*uint8"),
        ({"extra_outputs": ["b"]}, r"has the outputs 'map', 'b'; its description must name some"),
        ({"outputs": ["b"]}, "no network that can be run: .*b"),
        ({"factor": np.inf}, "gives features that are not finite"),
        ({"class_tokens": 1}, "gives a feature map, which has no class tokens"),
        ({"patch": (2, 4), "layout": "tokens"}, "gives 8 vectors, 0 of .* form a square"),
        ({"layout": "tokens", "leading": [[0, 0, 0]]}, "gives 5 vectors, 0 of .* form a square"),
        ({"layout": "tokens", "class_tokens": 9}, "gives 4 vectors, 9 of them class tokens"),
        ({"layout": "tokens", "n_patches": 5}, "is damaged, or no network that can be run: "),
    ],
)
def test_networks_of_other_shapes_are_refused(path, settings, message):
    with pytest.raises(StorageError, match=message) as caught:
        load(path, **settings)
    assert str(caught.value).startswith(f"{path} ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"side": None}, r"tiny\.json does not describe a network: it must have \['class_tokens'"),
        ({"side": 0}, r"a network: side must be a whole number of at least 1, got 0\."),
        ({"side": 5000}, r"side must be at most 2048, got 5000\."),
        ({"mean": [1, 2]}, r"mean must be one number or three, got 2\."),
        ({"scale": 0}, r"scale must be a finite number above 0, got 0\."),
        ({"name": "../x"}, r"name must consist of letters, digits, .* got '\.\./x'\."),
        ({"name": "tiny.onnx"}, r"must not end in \.onnx, got 'tiny\.onnx'\."),
        ({"outputs": []}, r"outputs must be a list of different names, got \(\)\."),
        ({"outputs": ["a", "a"]}, r"outputs must be a list of different names, got \('a', 'a'\)\."),
        ({"class_tokens": -1}, r"class_tokens must be a whole number of at least 0, got -1\."),
    ],
)
def test_a_wrong_description_is_named(path, entries, message):
    with pytest.raises(StorageError, match=message):
        load(path, **entries)


def test_damaged_files_are_named(path):
    content = networks.write_network(path).read_bytes()
    with pytest.raises(StorageError, match=r"none\.onnx cannot be read: No such file"):
        FeatureNetwork.load(path.with_name("none.onnx"))
    for damaged in (content[:-5], content[: len(content) // 2], b"location", b"no network", b""):
        path.write_bytes(damaged)
        with pytest.raises(StorageError, match=r"tiny\.onnx is damaged, or no network") as caught:
            FeatureNetwork.load(path)
        assert "\n" not in str(caught.value)


def test_a_written_network_knows_its_digest(tmp_path, path):
    source = load(path)
    target = tmp_path / "new/tiny"
    write_network(target, path.read_bytes(), source.description)
    copied = FeatureNetwork.load(target / "tiny.onnx")
    assert copied.fingerprint() == source.fingerprint()
    assert copied.description.digest == source.digest
    assert [each.name for each in target.parent.iterdir()] == ["tiny"]
    networks.write_network(path, factor=2.0)
    (target / "tiny.onnx").write_bytes(path.read_bytes())
    with pytest.raises(StorageError, match="is damaged: its contents are not those that were"):
        FeatureNetwork.load(target / "tiny.onnx")
    with pytest.raises(UnwritableFile, match="tiny cannot be written: Directory not empty"):
        write_network(target, b"x", source.description)
    assert [each.name for each in target.parent.iterdir()] == ["tiny"]


def test_the_gpu_is_used_where_onnxruntime_supports_it(path, monkeypatch):
    network = load(path)
    with pytest.raises(InvalidArgument, match="device must be one of"):
        network.describe(IMAGE, device="tpu")
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(BackendUnavailable, match="networks need onnxruntime-gpu there"):
        network.describe(IMAGE, device="cuda")
    started = []

    def start(content, options, providers):
        started.append(providers)
        return original(content, options, ["CPUExecutionProvider"])

    original = onnxruntime.InferenceSession
    monkeypatch.setattr(onnxruntime, "InferenceSession", start)
    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider", "Other"]
    )
    with pytest.raises(BackendUnavailable, match="onnxruntime finds no GPU on this machine"):
        network.describe(IMAGE, device="cuda")
    assert started[0][0][0] == "CUDAExecutionProvider"
    assert_close(patches_of(network, device="auto"), networks.mean_colors(IMAGE))


def test_nothing_is_reported_to_the_makers_of_onnxruntime(tmp_path):
    """Their telemetry would leave its identifier in the cache of the user."""
    ours = {k: v for k, v in os.environ.items() if k != "ORT_DISABLE_TELEMETRY"}
    code = "from supdocnade.images import feature_network as f; f._import_onnxruntime()"
    subprocess.run(
        [sys.executable, "-c", code],
        env={**ours, "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)},
        check=True,
    )
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_describes_nothing_is_named(path):
    networks.write_network(path)
    description = path.with_suffix(".json")
    for content in (b"[1]", b"{"):
        description.write_bytes(content)
        with pytest.raises(StorageError, match=r"tiny\.json does not describe a network: "):
            FeatureNetwork.load(path)
    description.unlink()
    with pytest.raises(StorageError, match=r"tiny\.json is missing: it must describe the network"):
        FeatureNetwork.load(path)
