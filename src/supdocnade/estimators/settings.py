"""Settings of the estimators: their fields are the arguments of the constructors.

This module imports neither torch nor scikit-learn, so that stored models can be checked without
them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from supdocnade.checks import check_count, check_flag, check_settings, setting
from supdocnade.corpus.documents import Documents
from supdocnade.errors import InvalidArgument
from supdocnade.images.decode import DecodeConfig
from supdocnade.images.dense_sift import DenseSIFTConfig
from supdocnade.images.feature_network import is_network_name
from supdocnade.images.regions import Grid, Regions
from supdocnade.likelihood import Activation
from supdocnade.model.config import DocNADEConfig, SupDocNADEConfig
from supdocnade.runs import DEVICES, EpochCallback, ProgressCallback, RunOptions, no_progress
from supdocnade.training.config import TrainerConfig
from supdocnade.visual_words.codebook import MAX_WORDS
from supdocnade.visual_words.describer import PatchFunction, SIFTDescriber

MAX_THREADS = 1024


@dataclass(eq=False, repr=False)
class DocNADESettings:
    """Settings of `DocNADE`, which documents them; nothing is checked before `check`."""

    n_topics: int = DocNADEConfig.n_topics
    _: KW_ONLY
    output: str | Callable[[int], Any] = DocNADEConfig.output
    tree: str = TrainerConfig.tree
    activation: Activation = DocNADEConfig.activation
    annotation_output: str = DocNADEConfig.annotation_output
    annotation_weight: float = TrainerConfig.annotation_weight
    global_dropout: float = TrainerConfig.global_dropout
    optimizer: str = TrainerConfig.optimizer
    learning_rate: float = TrainerConfig.learning_rate
    schedule: str = TrainerConfig.schedule
    batch_size: int = TrainerConfig.batch_size
    max_epochs: int = TrainerConfig.max_epochs
    clip_norm: float | None = TrainerConfig.clip_norm
    early_stopping: bool = TrainerConfig.early_stopping
    validation_fraction: float = TrainerConfig.validation_fraction
    n_epochs_no_change: int = TrainerConfig.n_epochs_no_change
    metric: str = TrainerConfig.metric
    checkpoint: str | Path | None = None
    backend: str = "auto"
    device: str = setting("auto", choices=DEVICES)
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    def check(self) -> None:
        """Raise `InvalidArgument` if a setting of a fit is invalid."""
        check_settings(self)
        check_n_jobs(self.n_jobs)
        self.trainer_config(seed=0)

    def trainer_config(self, seed: int, **changes: Any) -> TrainerConfig:
        """Return the settings of a training run, some of them changed."""
        values = _shared_values(self, TrainerConfig)
        values["early_stopping"] = bool(self.early_stopping)
        return TrainerConfig(**values | changes, seed=seed)

    def network_config(self, documents: Documents) -> DocNADEConfig:
        """Return the architecture of a network of documents."""
        return DocNADEConfig(**_shared_values(self, DocNADEConfig), **documents.sizes)

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
            backend=self.backend,
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
    """Settings of `SupDocNADE`, which documents them."""

    generative_weight: float = 1e-2
    class_input: str = SupDocNADEConfig.class_input
    class_weight: Mapping[Any, float] | str | None = None

    def network_config(self, documents: Documents) -> SupDocNADEConfig:
        """Return the architecture of a network of documents."""
        values = _shared_values(self, SupDocNADEConfig)
        output = "softmax" if documents.label_BC is None else "sigmoid"
        return SupDocNADEConfig(
            **values, **documents.sizes, n_classes=documents.n_classes, class_output=output
        )


@dataclass(eq=False, repr=False)
class VisualWordSettings:
    """Settings of `BagOfVisualWords`, which documents them; nothing is checked before `check`."""

    n_words: int = setting(240, least=2)
    grid: Grid | Sequence[Grid] = (2, 2)
    step: int = 8
    patch_size: int | Sequence[int] = 16
    max_side: int | None = None
    n_jobs: int | None = None
    random_state: Any = None
    _: KW_ONLY
    features: str | PatchFunction = "sift"
    n_nearest: int = setting(1, least=1)
    mirror: bool = False
    contrast_percentile: float = setting(0.0, least=0, most=100)
    n_sift_words: int = setting(0, least=0)
    upscale: bool = True
    sample_size: int | None = None
    n_examples: int = setting(16, least=0)
    on_error: str = setting("raise", choices=("raise", "skip"))
    cache: str | Path | None = None
    device: str = setting("auto", choices=DEVICES)
    verbose: int = 0

    def check(self) -> tuple[SIFTDescriber, Regions]:
        """Return how images are described by SIFT, and divided, or raise `InvalidArgument`."""
        check_settings(self)
        if self.n_sift_words > MAX_WORDS or self.n_sift_words == 1:
            raise InvalidArgument(
                f"n_sift_words must be 0, or 2 to {MAX_WORDS}, got {self.n_sift_words}."
            )
        is_name = isinstance(self.features, str) and is_network_name(self.features)
        if not is_name and not callable(self.features):
            raise InvalidArgument(
                "features must be 'sift', a function or the name of a network, which "
                f"supdocnade features --import FILE imports, got {self.features!r}."
            )
        if self.features == "sift" and self.n_sift_words:
            raise InvalidArgument(
                "n_sift_words must be 0 with features 'sift', whose number of words is n_words, "
                f"got {self.n_sift_words}."
            )
        if self.n_nearest > self.n_words:
            raise InvalidArgument(
                f"n_nearest must be at most n_words, {self.n_words}, got {self.n_nearest}."
            )
        if check_flag("mirror", self.mirror) and self.features != "sift":
            raise InvalidArgument(
                "mirror must be False with a network or function: only SIFT descriptors can be "
                "mirrored."
            )
        if self.sample_size is not None:
            least = max(self.n_words, self.n_sift_words)
            check_count("sample_size", self.sample_size, least=least)
        patch_size = self.patch_size
        if isinstance(patch_size, Sequence | np.ndarray):
            patch_size = tuple(patch_size)
        sift = DenseSIFTConfig(step=self.step, patch_size=patch_size)
        decoding = DecodeConfig(max_side=self.max_side, upscale=bool(self.upscale))
        return SIFTDescriber(decoding=decoding, sift=sift), Regions.of(self.grid)
