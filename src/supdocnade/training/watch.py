"""Watching a training in TensorBoard or MLflow.

A watch has the methods of `progress.TrainingWatch`, and can be called with a model and an epoch, so
that it is also an `on_epoch` callback of the estimators. One of your own needs only these methods.
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from supdocnade.errors import BackendUnavailable, InvalidArgument, StorageError, install_command
from supdocnade.progress import TrainingWatch

KINDS = ("tensorboard", "mlflow")


def open_watch(target: str) -> "TensorBoardWatch | MLflowWatch":
    """Return the watch that `train --log-to` names.

    Parameters
    ----------
    target : "tensorboard:FOLDER", or "mlflow:ADDRESS" with the address of a server.
    """
    kind, colon, place = target.partition(":")
    if kind not in KINDS or not colon or not place:
        raise InvalidArgument(
            f"--log-to must be tensorboard:FOLDER or mlflow:ADDRESS, got {target}."
        )
    return TensorBoardWatch(place) if kind == "tensorboard" else MLflowWatch(place)


class EpochWatch:
    """The part that all watches share: they are callbacks of estimators."""

    def __call__(self: TrainingWatch, model: Any, epoch: int) -> None:
        """Record the settings of an estimator after its first epoch, and the figures of each."""
        if epoch == 1:
            self.log_settings(model.get_params())
        self.log_epoch("learning", epoch, epoch_figures(model))


class TensorBoardWatch(EpochWatch):
    """Writes a training to a folder that TensorBoard shows (extra `tensorboard`).

    Parameters
    ----------
    folder : created if it is missing; one per run.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise _missing("TensorBoard", "tensorboard") from error
        self.folder = Path(folder)
        self._writer: Any = SummaryWriter(os.fspath(folder))

    def log_settings(self, settings: Mapping[str, Any]) -> None:
        """Write the settings as a text."""
        text = json.dumps(dict(settings), indent=1, default=str)
        self._writer.add_text("settings", f"```\n{text}\n```")

    def log_epoch(self, stage: str, epoch: int, figures: Mapping[str, float]) -> None:
        """Write the figures of an epoch as curves, one per figure and stage."""
        for name, value in figures.items():
            self._writer.add_scalar(f"{stage}/{name}", value, epoch)

    def log_results(self, figures: Mapping[str, float]) -> None:
        """Write the figures of the model on held-out photographs."""
        for name, value in figures.items():
            self._writer.add_scalar(f"held out/{name}", value)

    def log_file(self, path: Path) -> None:
        """Copy a file, such as the report, into the folder, since TensorBoard has no files."""
        shutil.copy(path, self.folder)

    def close(self) -> None:
        """Write everything to the disk."""
        self._writer.close()


class MLflowWatch(EpochWatch):
    """Records a training as a run of MLflow (extra `mlflow`), without MLflow's telemetry.

    Parameters
    ----------
    address : tracking URI: the address of a server, or a database such as sqlite:///mlflow.db,
        which needs the whole of MLflow.
    """

    def __init__(self, address: str):
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        # Otherwise a server's address is printed among the results.
        os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
        try:
            import mlflow
        except ImportError as error:
            raise _missing("MLflow", "mlflow") from error
        self._mlflow: Any = mlflow
        self._address = address
        self._call("set_tracking_uri", address)
        self._call("set_experiment", "supdocnade")
        self._run_id: str = self._call("start_run").info.run_id

    def _call(self, function: str, *arguments: Any, **options: Any) -> Any:
        """Call a function of MLflow; its errors become a `StorageError`."""
        try:
            return getattr(self._mlflow, function)(*arguments, **options)
        except self._mlflow.exceptions.MlflowException as error:
            reason = str(error).partition("\n")[0].rstrip(".")
            raise StorageError(f"{self._address} cannot be used by MLflow: {reason}.") from error

    def log_settings(self, settings: Mapping[str, Any]) -> None:
        """Record the settings as parameters."""
        self._call("log_params", dict(settings), run_id=self._run_id)

    def log_epoch(self, stage: str, epoch: int, figures: Mapping[str, float]) -> None:
        """Record the figures of an epoch as metrics, one per figure and stage."""
        named = {f"{stage}/{name}": value for name, value in figures.items()}
        self._call("log_metrics", named, step=epoch, run_id=self._run_id)

    def log_results(self, figures: Mapping[str, float]) -> None:
        """Record the figures of the model on held-out photographs."""
        named = {f"held out/{name}": value for name, value in figures.items()}
        self._call("log_metrics", named, run_id=self._run_id)

    def log_file(self, path: Path) -> None:
        """Record a file, such as the report, as an artefact."""
        self._call("log_artifact", os.fspath(path), run_id=self._run_id)

    def close(self) -> None:
        """End the run."""
        self._call("end_run")


def epoch_figures(model: Any) -> dict[str, float]:
    """Return loss, learning rate and validation metrics of the last epoch of an estimator."""
    record = model.history_.epochs[-1]
    figures = {"loss": record.loss, "learning_rate": record.learning_rate}
    return {**figures, **{f"validation_{name}": value for name, value in record.validation.items()}}


def watch_epochs(watch: TrainingWatch | None, stage: str, on_epoch: Any = None) -> Any:
    """Return an `on_epoch` callback that also tells a watch; the given one if there is none."""
    if watch is None:
        return on_epoch

    def tell(model: Any, epoch: int) -> bool | None:
        watch.log_epoch(stage, epoch, epoch_figures(model))
        return None if on_epoch is None else on_epoch(model, epoch)

    return tell


def _missing(name: str, extra: str) -> BackendUnavailable:
    return BackendUnavailable(
        f"{name} needs an extra that is not installed: {install_command(extra)}."
    )
