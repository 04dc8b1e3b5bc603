"""Settings of visual words."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from supdocnade.checks import check_count, check_flag, check_settings, setting
from supdocnade.errors import InvalidArgument
from supdocnade.images.decode import DecodeConfig
from supdocnade.images.dense_sift import DenseSIFTConfig
from supdocnade.images.feature_network import is_network_name
from supdocnade.images.regions import Grid, Regions
from supdocnade.runs import DEVICES
from supdocnade.visual_words.codebook import MAX_WORDS
from supdocnade.visual_words.describer import PatchFunction, SIFTDescriber


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
