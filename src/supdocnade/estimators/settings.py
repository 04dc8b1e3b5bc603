"""Settings of the topic models: their fields are the arguments of the constructors.

This module imports neither torch nor numpy, so that stored models can be checked, and options of
the command line be made, without them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from supdocnade.checks import check_choice, check_settings, copy_settings, same_setting, setting
from supdocnade.errors import InvalidArgument
from supdocnade.likelihood import Activation
from supdocnade.model.config import DocNADEConfig, SupDocNADEConfig
from supdocnade.runs import DEVICES, EpochCallback, ProgressCallback, RunOptions, no_progress
from supdocnade.training.config import TrainerConfig

if TYPE_CHECKING:
    from supdocnade.corpus.documents import Documents

MAX_THREADS = 1024

ANNOTATION_WEIGHTS = {"words": 30.0, "sigmoid": 1.0}
"""`annotation_weight` of models of photographs, by `annotation_output`."""

_model = partial(same_setting, DocNADEConfig, group="model")
_training = partial(same_setting, TrainerConfig, group="training")
_stopping = partial(same_setting, TrainerConfig, group="stopping")


@dataclass(eq=False, repr=False)
class DocNADESettings:
    """Settings of `DocNADE`, also in a file; nothing is checked before `check`."""

    n_topics: int = _model("n_topics")
    _: KW_ONLY
    output: str | Callable[[int], Any] = same_setting(DocNADEConfig, "output", group="model")
    tree: str = same_setting(TrainerConfig, "tree", group="model")
    activation: Activation = same_setting(DocNADEConfig, "activation", group="model")
    annotation_output: str = _model("annotation_output")
    annotation_weight: float = _training("annotation_weight")
    global_dropout: float = _training("global_dropout")
    optimizer: str = _training("optimizer")
    learning_rate: float = _training("learning_rate")
    schedule: str = _training("schedule")
    batch_size: int | None = _training("batch_size")
    max_epochs: int = _training("max_epochs")
    clip_norm: float | None = _training("clip_norm")
    early_stopping: bool = _stopping("early_stopping")
    validation_fraction: float = _stopping("validation_fraction")
    n_epochs_no_change: int = _stopping("n_epochs_no_change")
    metric: str = _stopping("metric")
    checkpoint: str | Path | None = setting(
        None,
        "`fit` writes its state there after every epoch and resumes from it if settings and data "
        "are the same; otherwise it raises.",
        kind="path of a folder",
        group="run",
    )
    device: str = setting(
        "auto",
        'Where `fit` trains; "auto": on a GPU, if there is one and enough to do. The precision of '
        "products on a GPU follows `torch.set_float32_matmul_precision`. `partial_fit` and "
        "inference use the CPU.",
        choices=DEVICES,
        group="run",
    )
    n_jobs: int | None = setting(
        None,
        "Threads; by default, torch's setting. The result does not depend on it.",
        kind="int",
        group="run",
    )
    random_state: Any = setting(
        None, "An integer makes every result reproducible.", kind="int or RandomState", group="run"
    )
    verbose: int = setting(0, "Above 0: print a line per epoch.", group="run")

    @classmethod
    def for_photographs(cls, features: str = "sift", **settings: Any) -> Self:
        """Return settings, or a model that is not fitted, as `SceneModel` has them.

        Parameters
        ----------
        features : of the visual words: "sift", or the name of a network.
        settings : of the constructor, in place of those of the recipe.
        """
        sift = features == "sift"
        recipe = {
            "n_topics": 200 if sift else 512,
            "annotation_output": "words" if sift else "sigmoid",
            "batch_size": None,
            "max_epochs": 40,
            **settings,
        }
        weight = ANNOTATION_WEIGHTS.get(recipe["annotation_output"], 1.0)
        return cls(**{"annotation_weight": weight, **recipe})

    def check(self) -> None:
        """Raise `InvalidArgument` if a setting of a fit is invalid."""
        check_settings(self)
        check_n_jobs(self.n_jobs)
        self.trainer_config(seed=0)
        DocNADEConfig(**_shared_values(self, DocNADEConfig), n_visual_words=1)

    def trainer_config(self, seed: int, **changes: Any) -> TrainerConfig:
        """Return the settings of a training run, some of them changed."""
        values = _shared_values(self, TrainerConfig)
        values["early_stopping"] = bool(self.early_stopping)
        return TrainerConfig(**values | changes, seed=seed)

    def network_config(self, documents: "Documents") -> DocNADEConfig:
        """Return the architecture of a network of documents."""
        return DocNADEConfig(**_shared_values(self, DocNADEConfig), **documents.sizes)

    def class_weights(self, classes: Sequence[Any]) -> list[float] | str | None:
        """Return the factors of the class terms of documents, as `train_network` takes them."""
        return None

    def without_classes(self) -> "DocNADESettings":
        """Return the settings of a model of documents that have no classes."""
        return copy_settings(DocNADESettings, self)

    def run_options(
        self, on_epoch: EpochCallback | None = None, progress: ProgressCallback | None = None
    ) -> RunOptions:
        """Return the options of a run; it prints every epoch if `verbose` says so."""

        def watch(epoch: int, metrics: Mapping[str, float]) -> bool:
            if self.verbose and progress is None:
                print(f"epoch {epoch}/{self.max_epochs}: loss {metrics['loss']:.4f}", flush=True)
            return on_epoch is not None and bool(on_epoch(epoch, metrics))

        return RunOptions(
            n_jobs=self.n_jobs,
            device=self.device,
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
            progress=progress or no_progress,
            on_epoch=watch,
        )


def check_n_jobs(n_jobs: Any) -> None:
    """Raise `InvalidArgument` unless `n_jobs` is None or a number of threads."""
    whole = hasattr(n_jobs, "__index__") and not isinstance(n_jobs, bool)
    if n_jobs is not None and not (whole and 0 < abs(n_jobs) <= MAX_THREADS):
        raise InvalidArgument(
            f"n_jobs must be None or a whole number other than 0, at most {MAX_THREADS}, "
            f"got {n_jobs!r}."
        )


def _shared_values(settings: DocNADESettings, config: type[Any]) -> dict[str, Any]:
    """Return the values of the settings that a configuration has, too."""
    names = [each.name for each in fields(config) if hasattr(settings, each.name)]
    return {name: getattr(settings, name) for name in names}


@dataclass(kw_only=True, eq=False, repr=False)
class SupDocNADESettings(DocNADESettings):
    """Settings of `SupDocNADE`."""

    generative_weight: float = _training("generative_weight", default=1e-2)
    class_input: str = same_setting(SupDocNADEConfig, "class_input", group="model")
    class_weight: Mapping[Any, float] | str | None = setting(
        None,
        "Multiplies the class term of documents of each class; a class that a dict does not name "
        "has weight 1. With several labels per document it multiplies the terms of documents that "
        'have the label, and "balanced" is the number of documents without the label divided by '
        "the number with it.",
        kind='dict or "balanced"',
        group="training",
    )

    def network_config(self, documents: "Documents") -> SupDocNADEConfig:
        """Return the architecture of a network of documents."""
        values = _shared_values(self, SupDocNADEConfig)
        output = "softmax" if documents.label_BC is None else "sigmoid"
        return SupDocNADEConfig(
            **values, **documents.sizes, n_classes=documents.n_classes, class_output=output
        )

    def check(self) -> None:
        """Raise `InvalidArgument` if a setting of a fit is invalid."""
        super().check()
        values = _shared_values(self, SupDocNADEConfig)
        SupDocNADEConfig(**values, n_visual_words=1, n_classes=1)
        if not isinstance(self.class_weight, Mapping):
            self.class_weights([])

    def class_weights(self, classes: Sequence[Any]) -> list[float] | str | None:
        """Return the factors of the class terms of documents, as `train_network` takes them."""
        if not isinstance(self.class_weight, Mapping):
            if self.class_weight is not None:
                check_choice("class_weight", self.class_weight, ("balanced",))
            return self.class_weight
        if unknown := [each for each in self.class_weight if each not in classes]:
            raise InvalidArgument(
                f"class_weight must name classes among {[*classes]}, got {unknown[0]!r}."
            )
        return [self.class_weight.get(each, 1.0) for each in classes]


def settings_of(model: DocNADESettings, **changes: Any) -> DocNADESettings:
    """Return the settings of a topic model, some of them changed, as a file has them."""
    kind = SupDocNADESettings if isinstance(model, SupDocNADESettings) else DocNADESettings
    return copy_settings(kind, model, early_stopping=bool(model.early_stopping), **changes)
