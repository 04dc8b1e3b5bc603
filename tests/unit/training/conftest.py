import sys

import pytest
import torch


@pytest.fixture
def one_process_on_a_cpu(monkeypatch):
    """Training without the code for GPUs and for several processes: imports of it fail."""
    if torch.cuda.is_available():
        return
    unneeded = ("supdocnade.cuda", "supdocnade.training.distributed")
    for name in {*unneeded, *(name for name in sys.modules if name.startswith(unneeded))}:
        monkeypatch.setitem(sys.modules, name, None)
