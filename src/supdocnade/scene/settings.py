"""Everything that a scene model can be told, checked once."""

from dataclasses import dataclass, fields, replace
from typing import Any

from supdocnade.checks import check_choice, check_count, check_range
from supdocnade.errors import InvalidArgument

CLASSIFIERS = ("svm", "softmax")

UPDATES, LEAST_BATCH, MOST_BATCH = 12, 4, 64
"""Updates an epoch has at least, whatever the number of photographs, within these sizes."""


WORD_SETTINGS = (
    "n_words", "grid", "step", "patch_size", "max_side", "contrast_percentile", "mirror"
)  # fmt: skip
"""Those that decide what is kept of photographs: visual words, and those of mirror images."""


@dataclass(frozen=True, kw_only=True)
class SceneSettings:
    """Settings of a scene model; `SceneModel` says what they mean."""

    n_topics: int = 200
    classifier: str = "svm"
    n_words: int = 500
    grid: tuple[Any, ...] = (2, 2)
    step: int = 8
    patch_size: int | tuple[int, ...] = (16, 32)
    max_side: int | None = 300
    contrast_percentile: float = 10.0
    damping: float | None = 1.0
    mirror: bool = True
    min_tag_count: int = 3
    generative_weight: float = 1e-2
    annotation_weight: float = 30.0
    learning_rate: float = 3e-4
    max_epochs: int = 40
    batch_size: int | None = None
    activation: str = "relu"
    held_out: float = 0.15
    tune: bool = False
    tune_trials: int = 8

    def __post_init__(self) -> None:
        # Lists are as good as tuples, and what JSON makes of them.
        for name in ("grid", "patch_size"):
            given = getattr(self, name)
            if isinstance(given, list | tuple):
                inner = [tuple(each) if isinstance(each, list) else each for each in given]
                object.__setattr__(self, name, tuple(inner))
        check_count("n_topics", self.n_topics, least=1)
        check_choice("classifier", self.classifier, CLASSIFIERS)
        if self.damping is not None:
            check_range("damping", self.damping, above=0)
        if type(self.mirror) is not bool:
            raise InvalidArgument(f"mirror must be True or False, got {self.mirror!r}.")
        check_count("min_tag_count", self.min_tag_count, least=1)
        check_count("max_epochs", self.max_epochs, least=1)
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size, least=1)
        check_range("held_out", self.held_out, least=0, most=0.9)
        check_count("tune_trials", self.tune_trials, least=1)

    def batch_of(self, n_images: int) -> int:
        """Return the number of photographs of an update.

        >>> [SceneSettings().batch_of(n) for n in (20, 240, 5000)]
        [4, 20, 64]
        """
        if self.batch_size is not None:
            return self.batch_size
        return min(max(n_images // UPDATES, LEAST_BATCH), MOST_BATCH)

    @property
    def n_passes(self) -> int:
        """Passes over all documents at most: one over both sides shows every photograph twice.

        >>> SceneSettings(max_epochs=40).n_passes, SceneSettings(mirror=False).n_passes
        (20, 40)
        """
        return max(self.max_epochs // 2, 1) if self.mirror else self.max_epochs

    def tuned(self, found: dict[str, Any]) -> "SceneSettings":
        """Return the settings with those that tuning found."""
        return replace(self, **found)

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all settings."""
        return [each.name for each in fields(cls)]
