"""Networks on a GPU: onnxruntime's CUDA provider gives the features of the CPU."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from tests.textures import stripes

from supdocnade.images.feature_network import FeatureNetwork
from supdocnade.images.network_library import DEFAULT_NETWORK, find_network
from supdocnade.scene.model import scene_model

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

IMAGES = [np.stack([stripes(number, (250, 300))] * 3, axis=-1) for number in range(24)]
LABELS = ["few", "many"] * 12


@pytest.fixture(scope="module")
def network() -> FeatureNetwork:
    onnxruntime = pytest.importorskip("onnxruntime")
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        pytest.skip("needs onnxruntime-gpu")
    return find_network(DEFAULT_NETWORK)


def test_features_equal_those_of_the_cpu(network):
    for image in IMAGES[:4]:
        on_cpu, on_gpu = (network.describe(image, device=device) for device in ("cpu", "cuda"))
        again = network.describe(image, device="auto")
        for expected, found, same in zip(on_cpu, on_gpu, again, strict=True):
            scale = abs(expected.patches_PD).max()
            for name in ("patches_PD", "image_D"):
                values, right = getattr(found, name), getattr(expected, name)
                np.testing.assert_allclose(values / scale, right / scale, atol=2e-5)
                np.testing.assert_array_equal(values, getattr(same, name))


def test_a_scene_model_on_the_gpu(network):
    settings = {"features": network.name, "n_words": 30, "n_topics": 16, "max_epochs": 5}
    models = {
        device: scene_model(**settings, device=device, random_state=0).fit(IMAGES, LABELS)
        for device in ("cpu", "cuda")
    }
    found = models["cuda"].transform(IMAGES), models["cpu"].transform(IMAGES)
    assert all(np.isfinite(each).all() for each in found)
    agreement = (models["cuda"].predict(IMAGES) == models["cpu"].predict(IMAGES)).mean()
    assert agreement > 0.9


def test_the_libraries_are_found_without_torch(network):
    """`predict` does not import torch, which would load the libraries of CUDA."""
    code = (
        "import sys, numpy as np\n"
        "from supdocnade.images.network_library import DEFAULT_NETWORK, find_network\n"
        "image = np.zeros((64, 64, 3), np.uint8)\n"
        "find_network(DEFAULT_NETWORK).describe(image, device='cuda')\n"
        "print('torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "False"), done.stderr
