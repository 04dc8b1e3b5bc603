"""Settings of visual words.

This module imports numpy only to check them: the command line makes options from the fields.
"""

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from supdocnade.checks import check_count, check_flag, check_settings, plain_settings, setting
from supdocnade.errors import InvalidArgument
from supdocnade.runs import DEVICES

if TYPE_CHECKING:
    from supdocnade.visual_words.describer import SIFTDescriber
    from supdocnade.visual_words.encoder import Regions

SIFT_SETTINGS = ("step", "patch_size", "max_side", "contrast_percentile", "upscale")
"""Those that have no effect with a network."""


@dataclass(eq=False, repr=False)
class VisualWordSettings:
    """Settings of `BagOfVisualWords`, also in a file; nothing is checked before `check`."""

    n_words: int = setting(240, "Number of visual words, 2 to 100,000.", least=2, group="model")
    grid: tuple[int, int] | tuple[tuple[int, int], ...] = setting(
        (2, 2),
        "Regions of the image; with a list (a pyramid) each patch is counted once per grid.",
        kind="(rows, columns), or a list of them",
        group="model",
    )
    step: int = setting(8, "Pixels from one patch to the next.", group="model")
    patch_size: int | tuple[int, ...] = setting(
        16,
        "Pixels along a side of a patch, a multiple of four.",
        kind="int, or a tuple of several",
        group="model",
    )
    max_side: int | None = setting(
        None,
        "Length in pixels to which the longest side of images is resized; by default, they keep "
        "their size.",
        group="model",
    )
    n_jobs: int | None = setting(
        None, "Number of workers as in joblib. The result does not depend on it.", group="run"
    )
    random_state: Any = setting(
        None, "An integer makes every result reproducible.", kind="int or RandomState", group="run"
    )
    _: KW_ONLY
    features: str | Callable[[Any], Any] = setting(
        "sift",
        'Description of patches: "sift", the name of a network (`supdocnade features` lists and '
        "imports networks), or a function. With a network, `step`, `patch_size`, `max_side`, "
        "`contrast_percentile` and `upscale` have no effect, and `encode` also returns features of "
        "the whole images (`global_features`). A function gets the pixels of an image, (height, "
        "width, 3) uint8, and returns the descriptors of its patches, (patches, D), their centres, "
        "(patches, 2), y and x in pixels, and their sides in pixels, (patches,) or one number. It "
        "is called from several threads if `n_jobs` is not 1; of these settings `max_side` and "
        "`upscale` determine its image, and the words cannot be saved.",
        kind="str or callable",
        group="model",
    )
    n_nearest: int = setting(
        1, "Number of nearest visual words assigned to each patch.", least=1, group="model"
    )
    mirror: bool = setting(
        False,
        'Whether the words of the mirror image are counted, too, which needs `features="sift"`. An '
        "image and its mirror image then have almost the same counts.",
        group="model",
    )
    contrast_percentile: float = setting(
        0.0,
        "Patches with less contrast than this percentile of all patches get shorter descriptors.",
        least=0,
        most=100,
        group="model",
    )
    upscale: bool = setting(
        True, "Whether images smaller than `max_side` are enlarged.", group="model"
    )
    sample_size: int | None = setting(
        None,
        "Number of patches from which words are learned; by default 100,000, or 20 per word if "
        "that is more.",
        group="training",
    )
    on_error: str = setting(
        "raise",
        'Treatment of images that cannot be read. With "skip" the row is empty, a '
        "`SkippedImagesWarning` names the image, and `encode` lists it.",
        choices=("raise", "skip"),
        group="run",
    )
    cache: str | Path | None = setting(
        None,
        "Stores the words of images by content, so that a killed run resumes.",
        kind="path of a folder",
        group="run",
    )
    device: str = setting(
        "auto",
        'Where a network runs; "auto" uses a GPU if onnxruntime supports it. SIFT runs on the CPU.',
        choices=DEVICES,
        group="run",
    )

    @classmethod
    def for_photographs(cls, features: str = "sift", **settings: Any) -> Self:
        """Return settings, or a transformer that is not fitted, as `SceneModel` has them.

        Parameters
        ----------
        features : "sift", or the name of a network.
        settings : of the constructor, in place of those of the recipe.
        """
        sift = features == "sift"
        recipe = {
            "n_words": 500 if sift else 1000,
            "n_nearest": 1 if sift else 4,
            "grid": (2, 2) if sift else (1, 1),
            "mirror": sift,
            "patch_size": (16, 32),
            "max_side": 300,
            "contrast_percentile": 10.0,
            "upscale": False,
        }
        return cls(features=features, **{**recipe, **settings})

    def check(self) -> None:
        """Raise `InvalidArgument` if a setting is invalid."""
        from supdocnade.images.feature_network import is_network_name

        check_settings(self)
        is_name = isinstance(self.features, str) and is_network_name(self.features)
        if not is_name and not callable(self.features):
            raise InvalidArgument(
                "features must be 'sift', a function or the name of a network, which "
                f"supdocnade features --import FILE imports, got {self.features!r}."
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
            check_count("sample_size", self.sample_size, least=self.n_words)
        if not is_name or self.features == "sift":
            self.sift()
        self.regions()

    def sift(self) -> "SIFTDescriber":
        """Return how SIFT describes images, before anything is learned."""
        from supdocnade.images.decode import DecodeConfig
        from supdocnade.images.dense_sift import DenseSIFTConfig
        from supdocnade.visual_words.describer import SIFTDescriber

        sizes = self.patch_size
        sizes = tuple(sizes) if isinstance(sizes, Iterable) else sizes
        decoding = DecodeConfig(max_side=self.max_side, upscale=bool(self.upscale))
        return SIFTDescriber(
            decoding=decoding, sift=DenseSIFTConfig(step=self.step, patch_size=sizes)
        )

    def regions(self) -> "Regions":
        """Return how images are divided."""
        from supdocnade.visual_words.encoder import Regions

        return Regions.of(self.grid)

    def used(self) -> dict[str, Any]:
        """Return the settings that have an effect on the words with these features."""
        unused = () if self.features == "sift" else SIFT_SETTINGS
        return {name: value for name, value in plain_settings(self).items() if name not in unused}
