"""Settings of a scene model: the arguments of `SceneModel` that determine what it learns."""

from dataclasses import dataclass, field, fields
from typing import Any

from supdocnade.checks import check_choice, check_settings, setting, setting_rules
from supdocnade.errors import InvalidArgument

MIN_UPDATES, MIN_BATCH, MAX_BATCH = 12, 4, 64
"""Smallest number of updates per epoch, within these batch sizes."""

RECIPES: dict[str, dict[str, Any]] = {
    "sift": {
        "n_topics": 200, "n_words": 500, "n_nearest": 1, "n_sift_words": 0, "grid": (2, 2),
        "mirror": True, "annotation_output": "words",
    },
    "network": {
        "n_topics": 512, "n_words": 1000, "n_nearest": 4, "n_sift_words": 200, "grid": (1, 1),
        "mirror": False, "annotation_output": "sigmoid",
    },
}  # fmt: skip
"""Settings that are None, by the kind of features."""

ANNOTATION_WEIGHTS = {"words": 30.0, "sigmoid": 1.0}
"""`annotation_weight` if it is None, by `annotation_output`."""

TAG_PRECISION = 0.8
"""Precision, on held-out photographs, of the tags that are written to sidecars."""

WORD_SETTINGS = (
    "features", "n_words", "n_nearest", "n_sift_words", "grid", "step",
    "patch_size", "max_side", "contrast_percentile", "mirror",
)  # fmt: skip
"""Settings that determine the words stored for every photograph."""

SIFT_SETTINGS = ("step", "patch_size", "max_side", "contrast_percentile")
"""Those that have no effect with a network alone."""


@dataclass(kw_only=True, eq=False)
class SceneSettings:
    """Settings of a scene model, which `SceneModel` documents; `check` validates them."""

    n_topics: int | None = field(
        default=None,
        kw_only=False,
        metadata=setting_rules("Number of topics; by default 200, or 512 with a network.", least=1),
    )
    classifier: str = field(
        default="auto",
        kw_only=False,
        metadata=setting_rules(
            "The paper's SVM on topics, the softmax of the model, or the better one."
        ),
    )
    features: str = "sift"
    n_words: int | None = setting(
        None,
        "Number of visual words; by default 500, or 1000 with a network, and fewer for few "
        "photographs.",
        least=2,
    )
    n_nearest: int | None = setting(None, least=1)
    n_sift_words: int | None = setting(
        None,
        "Number of SIFT words beside those of a network; by default 200, 0 for none.",
        least=0,
    )
    grid: Any = None
    step: int = 8
    patch_size: Any = (16, 32)
    max_side: int | None = 300
    contrast_percentile: float = 10.0
    damping: float | None = setting(1.0, above=0)
    mirror: bool | None = setting(
        None,
        "Also use the words of mirror images; only with sift, where it is the default.",
    )
    min_tag_count: int = setting(3, "Ignore tags of fewer photographs.", least=1)
    generative_weight: float = 1e-2
    annotation_output: str | None = setting(None, choices=tuple(ANNOTATION_WEIGHTS))
    annotation_weight: float | None = None
    learning_rate: float = setting(3e-4, "Learning rate of the topic model.", above=0)
    max_epochs: int = setting(40, "Maximum number of epochs.", least=1)
    batch_size: int | None = setting(None, least=1)
    activation: str = "relu"
    held_out: float = setting(0.15, least=0, most=0.9)

    def check(self) -> "SceneSettings":
        """Return the settings, complete and with tuples for lists, or raise `InvalidArgument`."""
        # Imported here: the command line needs only the defaults.
        from supdocnade.estimators.settings import VisualWordSettings
        from supdocnade.images.feature_network import is_network_name
        from supdocnade.likelihood import ACTIVATIONS
        from supdocnade.scene.class_heads import CLASS_HEADS
        from supdocnade.training.config import TrainerConfig

        values = {name: getattr(self, name) for name in self.names()}
        if not isinstance(self.features, str) or not is_network_name(self.features):
            raise InvalidArgument(
                "features must be 'sift' or the name of a network, which "
                f"supdocnade features --import FILE imports, got {self.features!r}."
            )
        recipe = RECIPES["sift" if self.features == "sift" else "network"]
        values |= {name: value for name, value in recipe.items() if values[name] is None}
        for name in ("grid", "patch_size"):
            if isinstance(values[name], list | tuple):
                values[name] = tuple(
                    tuple(each) if isinstance(each, list) else each for each in values[name]
                )
        checked = SceneSettings(**values)
        check_settings(checked)
        if checked.annotation_weight is None:
            checked.annotation_weight = ANNOTATION_WEIGHTS[str(checked.annotation_output)]
        check_choice("classifier", self.classifier, ("auto", *CLASS_HEADS))
        VisualWordSettings(**{name: getattr(checked, name) for name in WORD_SETTINGS}).check()
        check_choice("activation", self.activation, ACTIVATIONS)
        TrainerConfig(
            generative_weight=self.generative_weight,
            annotation_weight=checked.annotation_weight,
            learning_rate=self.learning_rate,
        )
        return checked

    def batch_of(self, n_images: int) -> int:
        """Return the number of photographs per update.

        >>> [SceneSettings().batch_of(n) for n in (20, 240, 5000)]
        [4, 20, 64]
        """
        if self.batch_size is not None:
            return self.batch_size
        return min(max(n_images // MIN_UPDATES, MIN_BATCH), MAX_BATCH)

    def used(self) -> dict[str, Any]:
        """Return the settings that have an effect with these features."""
        has_sift = self.features == "sift" or self.n_sift_words
        unused = () if has_sift else SIFT_SETTINGS
        return {name: getattr(self, name) for name in self.names() if name not in unused}

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all settings."""
        return [each.name for each in fields(SceneSettings)]
