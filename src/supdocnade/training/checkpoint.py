"""Checkpoints: everything that a training run needs to resume with the same bits."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from supdocnade.corpus.documents import Documents
from supdocnade.errors import InvalidArgument, StorageError
from supdocnade.model.network import DocNADENetwork, TreeOutput
from supdocnade.schema import Arrays, array, damage_errors, load, save
from supdocnade.training.config import History, TrainerConfig

KIND = "Checkpoint"

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


@dataclass(kw_only=True)
class StoredRun:
    """A training run in a file; its network determines the shapes of arrays."""

    settings: dict[str, Any]
    history: History
    parameter: Arrays = array(dtype=None)
    best: Arrays = array(dtype=None)
    """Empty if no epoch was the best one so far."""
    optimizer: Arrays = array(dtype=None)
    """Moments, named `parameter/moment` by the number of the parameter."""

    def __post_init__(self) -> None:
        best, n_epochs = self.history.best_epoch, len(self.history.epochs)
        if best is not None and not 1 <= best <= n_epochs:
            raise InvalidArgument(f"best_epoch must be among {n_epochs} epochs, got {best}")


def describe_run(
    network: DocNADENetwork,
    config: TrainerConfig,
    class_weight_C: Tensor | None,
    documents: Documents,
    validation: Documents | None,
) -> dict[str, Any]:
    """Return everything that determines the result, to compare with a checkpoint."""
    output = network.output
    tree = output.tree.leaf_of_word_K.tobytes() if isinstance(output, TreeOutput) else b""
    settings = {**asdict(network.config), **asdict(config)}
    # Functions are compared by their names.
    for name in ("output", "activation"):
        if callable(settings[name]):
            settings[name] = getattr(settings[name], "__qualname__", repr(settings[name]))
    return {
        **settings,
        "backend": network.backend,
        "type": str(network.word_embedding.dtype),
        "class_weight": None if class_weight_C is None else class_weight_C.tolist(),
        "tree": hashlib.blake2b(tree, digest_size=16).hexdigest(),
        "data": documents.fingerprint(),
        "validation data": None if validation is None else validation.fingerprint(),
    }


def save_checkpoint(
    path: Path,
    settings: dict[str, Any],
    history: History,
    best: Tensors | None,
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
) -> None:
    """Write a run to one file, atomically.

    Parameters
    ----------
    best : parameters of the best epoch.
    """
    run = StoredRun(
        settings=settings,
        history=history,
        parameter=_to_arrays(copy_parameters(network)),
        best=_to_arrays(best or {}),
        optimizer=_to_arrays(dict(_named_moments(optimizer))),
    )
    save(path, KIND, run)


def _to_arrays(tensors: Tensors) -> Arrays:
    return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}


def _to_tensors(arrays: Arrays) -> Tensors:
    return {name: torch.from_numpy(each) for name, each in arrays.items()}


def _named_moments(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor]]:
    """Yield the moments of all parameters, named "parameter/moment"."""
    for index, moments in optimizer.state_dict()["state"].items():
        for name, value in moments.items():
            if isinstance(value, Tensor):
                yield f"{index}/{name}", value


def load_checkpoint(
    path: Path,
    settings: dict[str, Any],
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
) -> tuple[History, Tensors | None]:
    """Load a run into a network and its optimizer; return its history and best parameters.

    A run of other settings or data is refused.

    Everything is checked before anything is changed.
    """
    run = load(path, KIND, StoredRun)
    _check_settings(path, run.settings, settings)
    parameters = dict(network.named_parameters())
    stored_parameters, best = _to_tensors(run.parameter), _to_tensors(run.best)
    with damage_errors(str(path)):
        _check_tensors("parameter", stored_parameters, parameters)
        if best:
            _check_tensors("best", best, parameters)
        moments = _group_moments(_to_tensors(run.optimizer), optimizer)

    set_parameters(network, stored_parameters)
    load_moments(optimizer, moments)
    best = {name: tensor.to(parameters[name].device) for name, tensor in best.items()}
    return run.history, best or None


def load_moments(optimizer: torch.optim.Optimizer, moments: dict[int, Tensors]) -> None:
    """Set the moments of an optimizer, given by the numbers of its parameters."""
    param_groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": moments, "param_groups": param_groups})


def load_seed(path: Path) -> int | None:
    """Return the seed of the run in a checkpoint, or None if it names none."""
    seed = load(path, KIND, StoredRun).settings.get("seed")
    return seed if type(seed) is int else None


def _check_tensors(
    group: str, stored: Mapping[str, Tensor], expected: Mapping[str, Tensor]
) -> None:
    if stored.keys() != expected.keys():
        raise InvalidArgument(
            f"its {group} arrays are {sorted(stored)}, expected {sorted(expected)}"
        )
    for name, tensor in expected.items():
        if stored[name].shape != tensor.shape or stored[name].dtype != tensor.dtype:
            raise InvalidArgument(
                f"{group} {name} has shape {tuple(stored[name].shape)} of {stored[name].dtype}, "
                f"expected {tuple(tensor.shape)} of {tensor.dtype}"
            )


def _group_moments(
    stored: Mapping[str, Tensor], optimizer: torch.optim.Optimizer
) -> dict[int, Tensors]:
    """Return the moments by parameter, after a check of names, types and shapes."""
    grouped: dict[int, Tensors] = {}
    rest = dict(stored)
    for index, parameter in enumerate(p for g in optimizer.param_groups for p in g["params"]):
        prefix = f"{index}/"
        names = [name for name in rest if name.startswith(prefix)]
        if names:
            moments = {name.removeprefix(prefix): rest.pop(name) for name in names}
            shapes = {"step": torch.empty(()), "exp_avg": parameter, "exp_avg_sq": parameter}
            _check_tensors(f"optimizer/{index}", moments, shapes)
            grouped[index] = moments
    if rest:
        raise InvalidArgument(f"it holds optimizer/{min(rest)}")
    return grouped


def _check_settings(path: Path, stored: dict[str, Any], settings: dict[str, Any]) -> None:
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
