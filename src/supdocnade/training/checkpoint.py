"""Checkpoints: everything that a training run needs to resume with the same bits."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from supdocnade.checks import check_count, check_flag
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.storage import Arrays, load_arrays, save_arrays
from supdocnade.training.history import History

FORMAT = 2

GROUPS = {"parameter", "best", "buffer", "optimizer"}
"""First parts of the names of arrays."""

MOMENTS = {"step", "exp_avg", "exp_avg_sq"}
"""State of Adam per parameter; SGD has none."""

FINGERPRINTS = {"data", "validation data", "tree"}
"""Settings that are digests, whose values an error message need not show."""

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
    """Position and results of a run, apart from the parameters and the optimizers' moments."""

    epoch: int = 0
    """Epochs completed."""
    epochs_without_gain: int = 0
    finished: bool = False
    history: History = field(default_factory=History)
    best: Tensors | None = None
    """Parameters of the best epoch."""

    def to_json(self) -> dict[str, Any]:
        """Return everything but the tensors, as plain values."""
        names = ("epoch", "epochs_without_gain", "finished")
        return {**{name: getattr(self, name) for name in names}, "history": self.history.to_json()}


def save_checkpoint(
    path: Path,
    settings: dict[str, Any],
    state: TrainingState,
    network: nn.Module,
    optimizers: list[torch.optim.Optimizer],
) -> None:
    """Write a run to one file, atomically."""
    groups = {
        "parameter": copy_parameters(network),
        "best": state.best or {},
        "buffer": dict(network.named_buffers()),
        "optimizer": dict(_named_moments(optimizers)),
    }
    arrays: Arrays = {
        f"{group}/{name}": tensor.cpu().numpy()
        for group, tensors in groups.items()
        for name, tensor in tensors.items()
    }
    save_arrays(path, arrays, {"format": FORMAT, "settings": settings, "state": state.to_json()})


def _named_moments(optimizers: list[torch.optim.Optimizer]) -> Iterator[tuple[str, Tensor]]:
    """Yield the moments of all optimizers, named "optimizer/parameter/moment"."""
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
    """Load a run into a network and its optimizers; refuse one of other settings or data.

    Everything is checked before anything is changed.
    """
    arrays, description = load_arrays(path)
    if description.get("format") != FORMAT:
        raise StorageError(
            f"{path} has checkpoint format {description.get('format')!r}, expected {FORMAT}."
        )
    _check_settings(path, description.get("settings"), settings)
    try:
        state = _read_state(description["state"])
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise StorageError(f"{path} is damaged: its state cannot be read ({error!r}).") from error
    groups: dict[str, Tensors] = {}
    for key, array in arrays.items():
        group, _, name = key.partition("/")
        groups.setdefault(group, {})[name] = torch.from_numpy(array)
    if unknown := groups.keys() - GROUPS:
        raise StorageError(f"{path} is damaged: it holds {sorted(unknown)}.")
    parameters = dict(network.named_parameters())
    _check_tensors(path, "parameter", groups.get("parameter", {}), parameters)
    _check_tensors(path, "buffer", groups.get("buffer", {}), dict(network.named_buffers()))
    if "best" in groups:
        _check_tensors(path, "best", groups["best"], parameters)
    moments_by_optimizer = _group_moments(path, groups.get("optimizer", {}), optimizers)

    set_parameters(network, groups["parameter"])
    if "best" in groups:
        state.best = {name: t.to(parameters[name].device) for name, t in groups["best"].items()}
    load_moments(optimizers, moments_by_optimizer)
    return state


def _read_state(values: Any) -> TrainingState:
    """Return the state that `TrainingState.to_json` described, checked."""
    state = TrainingState(**{**values, "history": History.from_json(values["history"])})
    for name in ("epoch", "epochs_without_gain"):
        check_count(name, getattr(state, name))
    check_flag("finished", state.finished)
    if state.epoch != len(state.history.epochs):
        raise InvalidArgument(f"{state.epoch} epochs have {len(state.history.epochs)} records")
    if state.best is not None:
        raise InvalidArgument("the parameters of its best epoch must be arrays")
    return state


def load_moments(
    optimizers: list[torch.optim.Optimizer], moments_by_optimizer: list[dict[int, Tensors]]
) -> None:
    """Set the moments of every optimizer, given by the numbers of its parameters."""
    for optimizer, moments in zip(optimizers, moments_by_optimizer, strict=True):
        param_groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": moments, "param_groups": param_groups})


def load_seed(path: Path) -> int | None:
    """Return the seed of the run in a checkpoint, or None if the file names none."""
    settings = load_arrays(path)[1].get("settings")
    seed = settings.get("seed") if isinstance(settings, dict) else None
    return seed if type(seed) is int else None


def _check_tensors(
    path: Path, group: str, stored: Mapping[str, Tensor], expected: Mapping[str, Tensor]
) -> None:
    if stored.keys() != expected.keys():
        raise StorageError(
            f"{path} is damaged: its {group} arrays are {sorted(stored)}, "
            f"expected {sorted(expected)}."
        )
    for name, tensor in expected.items():
        if stored[name].shape != tensor.shape or stored[name].dtype != tensor.dtype:
            raise StorageError(
                f"{path} is damaged: {group} {name} has shape {tuple(stored[name].shape)} of "
                f"{stored[name].dtype}, expected {tuple(tensor.shape)} of {tensor.dtype}."
            )


def _group_moments(
    path: Path, stored: Mapping[str, Tensor], optimizers: list[torch.optim.Optimizer]
) -> list[dict[int, Tensors]]:
    """Return the moments by optimizer and parameter, after a check of names and shapes."""
    grouped: list[dict[int, Tensors]] = [{} for _ in optimizers]
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
        grouped[int(number)].setdefault(int(index), {})[name] = tensor
    for moments in (moments for by_index in grouped for moments in by_index.values()):
        if moments.keys() != MOMENTS:
            raise StorageError(
                f"{path} is damaged: it holds moments {sorted(moments)}, "
                f"expected {sorted(MOMENTS)}."
            )
    return grouped


def _check_settings(path: Path, stored: object, settings: dict[str, Any]) -> None:
    if not isinstance(stored, dict):
        raise StorageError(f"{path} is damaged: it names no settings.")
    for name in sorted(stored.keys() | settings.keys()):
        before, now = (each.get(name) for each in (stored, settings))
        if before != now and name in FINGERPRINTS:
            raise StorageError(
                f"checkpoint {path} was made from other {name}; use the same or another checkpoint."
            )
        if before != now:
            raise StorageError(
                f"checkpoint {path} was made with {name} = {before!r}, this run has {now!r}; "
                "use the same settings and data, or another checkpoint."
            )
