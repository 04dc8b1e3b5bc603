import pytest
import torch

from supdocnade.devices import choose_device
from supdocnade.errors import BackendUnavailable, InvalidArgument


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
