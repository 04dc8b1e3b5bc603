"""Settings of a scene model: the arguments of `SceneModel` that determine what it learns."""

from dataclasses import KW_ONLY, dataclass, fields
from typing import Any

from supdocnade.checks import check_settings, same_setting, setting
from supdocnade.errors import InvalidArgument
from supdocnade.likelihood import ACTIVATIONS
from supdocnade.training.config import TrainerConfig

RECIPES: dict[str, dict[str, Any]] = {
    "sift": {
        "n_topics": 200, "n_words": 500, "n_nearest": 1, "grid": (2, 2),
        "mirror": True, "annotation_output": "words",
    },
    "network": {
        "n_topics": 512, "n_words": 1000, "n_nearest": 4, "grid": (1, 1),
        "mirror": False, "annotation_output": "sigmoid",
    },
}  # fmt: skip
"""Settings that are None, by the kind of features."""

ANNOTATION_WEIGHTS = {"words": 30.0, "sigmoid": 1.0}
"""`annotation_weight` if it is None, by `annotation_output`."""

WORD_SETTINGS = (
    "features", "n_words", "n_nearest", "grid", "step",
    "patch_size", "max_side", "contrast_percentile", "mirror",
)  # fmt: skip
"""Settings that determine the words stored for every photograph."""

SIFT_SETTINGS = ("step", "patch_size", "max_side", "contrast_percentile")
"""Those that have no effect with a network."""


@dataclass(eq=False)
class SceneSettings:
    """Settings of a scene model; `check` validates them.

    A field is an argument of `SceneModel`, with its documentation, and an entry of a stored model.
    `supdocnade train --set NAME=VALUE` changes one.
    """

    n_topics: int | None = setting(
        None,
        "Number of topics; by default 200, or 512 with a network.",
        least=1,
    )
    _: KW_ONLY
    features: str = setting(
        "sift",
        'Description of patches: "sift", or the name of a network; `supdocnade features` lists and '
        "imports networks. The features of whole photographs by a network enter the topic model, "
        "too.",
    )
    n_words: int | None = setting(
        None,
        "Number of visual words; by default 500, or 1000 with a network, and fewer for few "
        "photographs. Those with fewer different patches than that have a quarter of their number.",
        least=2,
    )
    n_nearest: int | None = setting(
        None,
        "Number of nearest visual words assigned to each patch; by default 1, or 4 with a network.",
        least=1,
    )
    grid: Any = setting(
        None,
        "Regions of the photograph; by default (2, 2), or one region with a network.",
        kind="(rows, columns), or a list of them",
    )
    step: int = setting(8, "Distance between patches in pixels.")
    patch_size: Any = setting((16, 32), "Size of patches in pixels.", kind="int, or several")
    max_side: int | None = setting(
        300, "Larger photographs are scaled down to this longest side in pixels."
    )
    contrast_percentile: float = setting(
        10.0, "Patches with less contrast than this percentile have shorter descriptors."
    )
    damping: float | None = setting(
        1.0,
        "A word that occurs n times counts round(damping · √n) times; with None, n times.",
        above=0,
    )
    mirror: bool | None = setting(
        None,
        "Also use the words of mirror images; only with sift, where it is the default. A "
        "photograph has these words in training and prediction.",
    )
    min_tag_count: int = setting(3, "Ignore tags of fewer photographs.", least=1)
    generative_weight: float = same_setting(TrainerConfig, "generative_weight", 1e-2)
    annotation_output: str | None = setting(
        None,
        "Tags as words of the topic model, as in the paper, or one logistic output for each; by "
        "default words, or logistic outputs with a network.",
        choices=tuple(ANNOTATION_WEIGHTS),
    )
    annotation_weight: float | None = setting(
        None,
        "Weight of the tags in training, see `SupDocNADE`; by default 30 for words, 1 for logistic "
        "outputs.",
        least=0,
    )
    learning_rate: float = setting(3e-4, "Learning rate of the topic model.", above=0)
    max_epochs: int = setting(40, "Number of epochs.", least=1)
    batch_size: int | None = same_setting(TrainerConfig, "batch_size", None)
    activation: str = setting("relu", "g, the activation of the topics.", choices=ACTIVATIONS)
    held_out: float = setting(
        0.15,
        "Share of the photographs on which the settings of the SVM, the temperature of "
        "probabilities and the threshold of tags are chosen. Then the model is fitted on all.",
        least=0,
        most=0.9,
    )

    def check(self) -> "SceneSettings":
        """Return the settings, complete and with tuples for lists, or raise `InvalidArgument`."""
        # These import numpy, and the help of the command line needs the fields alone.
        from supdocnade.images.feature_network import is_network_name
        from supdocnade.visual_words.settings import VisualWordSettings

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
        VisualWordSettings(**{name: getattr(checked, name) for name in WORD_SETTINGS}).check()
        return checked

    def used(self) -> dict[str, Any]:
        """Return the settings that have an effect with these features."""
        unused = () if self.features == "sift" else SIFT_SETTINGS
        return {name: getattr(self, name) for name in self.names() if name not in unused}

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all settings."""
        return [each.name for each in fields(SceneSettings)]
