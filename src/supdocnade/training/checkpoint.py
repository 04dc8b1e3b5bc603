"""Everything a training run must remember to go on as if it had never stopped."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from supdocnade.errors import StorageError
from supdocnade.storage import Arrays, load_arrays, save_arrays
from supdocnade.training.config import History

FORMAT = 2

MOMENTS = {"step", "exp_avg", "exp_avg_sq"}
"""What Adam remembers of a parameter; SGD remembers nothing."""

FINGERPRINTS = {"data", "validation data", "tree"}
"""Settings that are digests, which tell a reader nothing."""

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
        "buffer": dict(network.named_buffers()),
        "optimizer": dict(_moments(optimizers)),
    }
    for group, tensors in groups.items():
        for name, tensor in tensors.items():
            arrays[f"{group}/{name}"] = tensor.cpu().numpy()
    description = {"format": FORMAT, "settings": settings, "state": state.describe()}
    save_arrays(path, arrays, description)


def _moments(optimizers: list[torch.optim.Optimizer]) -> Iterator[tuple[str, Tensor]]:
    """Yield what the optimisers remember, as "optimiser/parameter/name"."""
    for number, optimizer in enumerate(optimizers):
        for index, moments in optimizer.state_dict()["state"].items():
            for name, value in moments.items():
                if isinstance(value, Tensor):
                    yield f"{number}/{index}/{name}", value


def load_checkpoint(
    path: Path,
    settings: dict[str, Any],
    network: nn.Module,
    optimizers: list[torch.optim.Optimizer],
) -> TrainingState:
    """Read a run back into a network and its optimisers; refuse one of other settings or data.

    Everything is checked before anything is changed.
    """
    arrays, description = load_arrays(path)
    if description.get("format") != FORMAT:
        raise StorageError(
            f"{path} has checkpoint format {description.get('format')!r}, expected {FORMAT}."
        )
    _check_settings(path, description.get("settings"), settings)
    try:
        values = dict(description["state"])
        state = TrainingState(**{**values, "history": History.from_json(values["history"])})
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise StorageError(f"{path} is damaged: its state cannot be read ({error!r}).") from error
    groups: dict[str, Tensors] = {}
    for key, array in arrays.items():
        group, _, name = key.partition("/")
        groups.setdefault(group, {})[name] = torch.from_numpy(array)
    unknown = groups.keys() - {"parameter", "average", "best", "buffer", "optimizer"}
    if unknown:
        raise StorageError(f"{path} is damaged: it holds {sorted(unknown)}.")
    parameters = dict(network.named_parameters())
    _check_tensors(path, "parameter", groups.get("parameter", {}), parameters)
    _check_tensors(path, "buffer", groups.get("buffer", {}), dict(network.named_buffers()))
    for group in ("average", "best"):
        if group in groups:
            _check_tensors(path, group, groups[group], parameters)
    remembered = _sort_moments(path, groups.get("optimizer", {}), optimizers)

    set_parameters(network, groups["parameter"])
    for group in ("average", "best"):
        if group in groups:
            there = {name: t.to(parameters[name].device) for name, t in groups[group].items()}
            setattr(state, group, there)
    for optimizer, moments in zip(optimizers, remembered, strict=True):
        param_groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": moments, "param_groups": param_groups})
    return state


def stored_seed(path: Path) -> int | None:
    """Return the seed of the run that a checkpoint holds, if it is one."""
    settings = load_arrays(path)[1].get("settings")
    seed = settings.get("seed") if isinstance(settings, dict) else None
    return seed if type(seed) is int else None


def _check_tensors(
    path: Path, group: str, stored: Mapping[str, Tensor], ours: Mapping[str, Tensor]
) -> None:
    if stored.keys() != ours.keys():
        raise StorageError(
            f"{path} is damaged: its {group} arrays are {sorted(stored)}, expected {sorted(ours)}."
        )
    for name, tensor in ours.items():
        if stored[name].shape != tensor.shape or stored[name].dtype != tensor.dtype:
            raise StorageError(
                f"{path} is damaged: {group} {name} has shape {tuple(stored[name].shape)} of "
                f"{stored[name].dtype}, expected {tuple(tensor.shape)} of {tensor.dtype}."
            )


def _sort_moments(
    path: Path, stored: Mapping[str, Tensor], optimizers: list[torch.optim.Optimizer]
) -> list[dict[int, Tensors]]:
    """Return the moments by optimiser and parameter, each of the shape of its parameter."""
    remembered: list[dict[int, Tensors]] = [{} for _ in optimizers]
    parameters = [
        [p for group in optimizer.param_groups for p in group["params"]] for optimizer in optimizers
    ]
    for key, tensor in stored.items():
        try:
            number, index, name = key.split("/")
            parameter = parameters[int(number)][int(index)]
        except (ValueError, IndexError) as error:
            raise StorageError(f"{path} is damaged: it holds optimizer/{key}.") from error
        expected = torch.Size() if name == "step" else parameter.shape
        if name not in MOMENTS or tensor.shape != expected:
            raise StorageError(
                f"{path} is damaged: optimizer/{key} has shape {tuple(tensor.shape)}, "
                f"expected {tuple(expected)}."
            )
        remembered[int(number)].setdefault(int(index), {})[name] = tensor
    for moments in (each for one in remembered for each in one.values()):
        if moments.keys() != MOMENTS:
            raise StorageError(f"{path} is damaged: it holds moments {sorted(moments)} alone.")
    return remembered


def _check_settings(path: Path, stored: object, ours: dict[str, Any]) -> None:
    if not isinstance(stored, dict):
        raise StorageError(f"{path} is damaged: it names no settings.")
    for name in sorted(stored.keys() | ours.keys()):
        before, now = stored.get(name), ours.get(name)
        if before != now and name in FINGERPRINTS:
            raise StorageError(
                f"checkpoint {path} was made from other {name}; use the same or another checkpoint."
            )
        if before != now:
            raise StorageError(
                f"checkpoint {path} was made with {name} = {before!r}, this run has {now!r}; "
                "use the same settings and data, or another checkpoint."
            )
