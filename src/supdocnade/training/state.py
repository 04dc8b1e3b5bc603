"""Everything a training run must remember to go on as if it had never stopped."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from supdocnade.errors import StorageError
from supdocnade.storage import Arrays, load_arrays, save_arrays
from supdocnade.training.history import History

FORMAT = 1

Tensors = dict[str, Tensor]


def copy_parameters(network: nn.Module) -> Tensors:
    """Return copies of all parameters by name."""
    return {name: p.detach().clone() for name, p in network.named_parameters()}


@torch.no_grad()
def set_parameters(network: nn.Module, values: Tensors) -> None:
    """Overwrite all parameters."""
    for name, parameter in network.named_parameters():
        parameter.copy_(values[name])


@dataclass
class TrainingState:
    """Where a run stands, apart from the parameters and the optimisers' moments."""

    epoch: int = 0
    """Epochs completed."""
    update: int = 0
    """Updates completed in the current epoch."""
    loss_sum: float = 0.0
    """Sum of the objective over the documents of the current epoch so far."""
    n_seen: int = 0
    """Documents of the current epoch so far."""
    epochs_without_gain: int = 0
    finished: bool = False
    history: History = field(default_factory=History)
    average: Tensors | None = None
    best: Tensors | None = None

    def describe(self) -> dict[str, Any]:
        """Return what is not an array, as plain values."""
        plain = ("epoch", "update", "loss_sum", "n_seen", "epochs_without_gain", "finished")
        return {**{name: getattr(self, name) for name in plain}, "history": self.history.to_json()}


def save_checkpoint(
    path: Path,
    settings: dict[str, Any],
    state: TrainingState,
    network: nn.Module,
    optimizers: list[torch.optim.Optimizer],
) -> None:
    """Write a run to one file, atomically."""
    arrays: Arrays = {}
    groups = {
        "parameter": copy_parameters(network),
        "average": state.average or {},
        "best": state.best or {},
    }
    for group, tensors in groups.items():
        for name, tensor in tensors.items():
            arrays[f"{group}/{name}"] = tensor.cpu().numpy()
    for number, optimizer in enumerate(optimizers):
        for index, moments in optimizer.state_dict()["state"].items():
            for name, value in moments.items():
                if isinstance(value, Tensor):
                    arrays[f"optimizer/{number}/{index}/{name}"] = value.cpu().numpy()
    description = {"format": FORMAT, "settings": settings, "state": state.describe()}
    save_arrays(path, arrays, description)


def load_checkpoint(
    path: Path,
    settings: dict[str, Any],
    network: nn.Module,
    optimizers: list[torch.optim.Optimizer],
) -> TrainingState:
    """Read a run back into a network and its optimisers; refuse one of other settings or data."""
    arrays, description = load_arrays(path)
    if description.get("format") != FORMAT:
        raise StorageError(
            f"{path} has checkpoint format {description.get('format')!r}, expected {FORMAT}."
        )
    _check_settings(path, description.get("settings", {}), settings)
    values = dict(description["state"])
    state = TrainingState(**{**values, "history": History.from_json(values["history"])})
    groups: dict[str, Tensors] = {"parameter": {}, "average": {}, "best": {}}
    moments: list[dict[int, Tensors]] = [{} for _ in optimizers]
    for key, array in arrays.items():
        kind, *rest = key.split("/")
        if kind == "optimizer":
            number, index, name = int(rest[0]), int(rest[1]), rest[2]
            moments[number].setdefault(index, {})[name] = torch.from_numpy(array)
        else:
            groups[kind][rest[0]] = torch.from_numpy(array)
    set_parameters(network, groups["parameter"])
    state.average, state.best = groups["average"] or None, groups["best"] or None
    for optimizer, state_of in zip(optimizers, moments, strict=True):
        param_groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state_of, "param_groups": param_groups})
    return state


def _check_settings(path: Path, stored: dict[str, Any], ours: dict[str, Any]) -> None:
    for name in sorted(stored.keys() | ours.keys()):
        before, now = stored.get(name), ours.get(name)
        if before != now:
            raise StorageError(
                f"checkpoint {path} was made with {name} = {before!r}, this run has {now!r}; "
                "use the same settings and data, or another checkpoint."
            )
