"""How the work of fitting is done, and what is refused before any of it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from supdocnade.encoding.many import OnStage
from supdocnade.errors import InvalidArgument
from supdocnade.imaging.decode import DecodeConfig
from supdocnade.imaging.dense_sift import DenseSIFTConfig
from supdocnade.imaging.regions import Regions
from supdocnade.ops.contract import ACTIVATIONS
from supdocnade.scene.photographs import Photographs
from supdocnade.scene.settings import SceneSettings
from supdocnade.shapes import check_choice, check_count, check_range
from supdocnade.training import TrainerConfig

MAX_SVM = 30_000
"""Labelled photographs, mirror images counted: 24 bytes for every pair, 22 GB."""


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """How the work is done; none of it changes the result, but the device its last bits."""

    seed: int
    n_jobs: int | None = None
    device: str = "auto"
    on_error: str = "raise"
    cache: Path | None = None
    checkpoint: Path | None = None
    on_stage: OnStage | None = None

    def progress(self, stage: str) -> Callable[[int, int], None] | None:
        """Return what reports the progress of a stage."""
        if self.on_stage is None:
            return None
        report = self.on_stage
        return lambda done, total: report(stage, done, total)


def check_settings(settings: SceneSettings) -> None:
    """Refuse settings that some later step would refuse, before any work is done."""
    DenseSIFTConfig(step=settings.step, patch_size=settings.patch_size)
    DecodeConfig(max_side=settings.max_side)
    Regions.of(settings.grid)
    check_count("n_words", settings.n_words, least=2)
    check_range("contrast_percentile", settings.contrast_percentile, least=0, most=100)
    check_choice("activation", settings.activation, ACTIVATIONS)
    TrainerConfig(
        generative_weight=settings.generative_weight,
        annotation_weight=settings.annotation_weight,
        learning_rate=settings.learning_rate,
    )


def check_size(photographs: Photographs, settings: SceneSettings) -> None:
    """Refuse what would need more memory than there is, before any work is done."""
    n_labelled = len(photographs) - photographs.labels.count(None)
    most, also = (MAX_SVM // 2, ", or mirror=False") if settings.mirror else (MAX_SVM, "")
    if settings.classifier == "svm" and n_labelled > most:
        raise InvalidArgument(
            f"classifier 'svm' takes at most {most} labelled photographs, since its memory "
            f"grows with their square, got {n_labelled}; use classifier 'softmax'{also}."
        )
