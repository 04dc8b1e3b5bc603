import threading

import pytest
import torch

from supdocnade import devices
from supdocnade.devices import choose_device, full_float32
from supdocnade.errors import BackendUnavailable, InvalidArgument

GPU = torch.device("cuda", 0)


def test_without_a_gpu_the_cpu_is_chosen(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")
    with pytest.raises(BackendUnavailable, match="device 'cuda' is not available: torch finds no"):
        choose_device("cuda")


def test_a_gpu_is_chosen_unless_the_cpu_is_requested(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert choose_device("auto") == choose_device("cuda") == torch.device("cuda", 1)
    assert choose_device("cpu") == torch.device("cpu")


def test_unknown_devices_are_refused():
    with pytest.raises(InvalidArgument, match="device must be one of 'auto', 'cpu', 'cuda', got"):
        choose_device("cuda:1")


@pytest.fixture
def products():
    """Torch's precision setting for GPUs, restored after the test."""
    products = torch.backends.cuda.matmul
    if not hasattr(products, "fp32_precision"):
        pytest.skip("torch is older than 2.9")
    before = products.fp32_precision
    yield products
    products.fp32_precision = before


def test_tf32_is_disabled_and_restored(products):
    products.fp32_precision = "tf32"
    with full_float32(GPU):
        assert products.fp32_precision == "ieee"
        with full_float32(GPU):
            assert products.fp32_precision == "ieee"
        assert products.fp32_precision == "ieee"
    assert products.fp32_precision == "tf32"
    with pytest.raises(KeyboardInterrupt), full_float32(GPU):
        raise KeyboardInterrupt
    assert products.fp32_precision == "tf32"


@pytest.mark.filterwarnings("ignore:Please use the new API settings")
def test_tf32_allowed_by_the_older_setting_is_disabled_too(products):
    torch.backends.cuda.matmul.allow_tf32 = True
    with full_float32(GPU):
        assert products.fp32_precision == "ieee"
    assert torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False


def test_exact_settings_and_the_cpu_are_left_unchanged(products):
    products.fp32_precision = "ieee"
    with full_float32(GPU):
        assert products.fp32_precision == "ieee"
    assert products.fp32_precision == "ieee"
    products.fp32_precision = "tf32"
    with full_float32(torch.device("cpu")):
        assert products.fp32_precision == "tf32"


def test_older_torch_has_one_setting_for_all_devices(monkeypatch):
    history = ["medium"]
    monkeypatch.setattr(devices, "_HAS_GPU_SETTING", False)
    monkeypatch.setattr(devices, "_EXACT", "highest")
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: history[-1])
    monkeypatch.setattr(torch, "set_float32_matmul_precision", history.append)
    with full_float32(GPU):
        assert history[-1] == "highest"
    assert history == ["medium", "highest", "medium"]


def test_only_one_thread_at_a_time_changes_the_setting():
    # Otherwise one thread would restore the setting while another relies on it.
    def could_enter():
        acquired = []
        thread = threading.Thread(
            target=lambda: acquired.append(devices._precision_lock.acquire(blocking=False))
        )
        thread.start()
        thread.join()
        return acquired[0]

    with full_float32(GPU):
        assert not could_enter()
    assert could_enter()
