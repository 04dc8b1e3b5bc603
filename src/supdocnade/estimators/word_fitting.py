"""Learning of visual words with the settings of `BagOfVisualWords`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from supdocnade.estimators.settings import VisualWordSettings
from supdocnade.runs import RunOptions
from supdocnade.visual_words.describer import Describer, FunctionDescriber, NetworkDescriber
from supdocnade.visual_words.learn import FittedWords, fit_sift_words, fit_words


def learn_words(
    images: Sequence[Any],
    settings: VisualWordSettings,
    seed: int,
    options: RunOptions = RunOptions(),
    *,
    min_words: int | None = None,
) -> FittedWords:
    """Learn the visual words of images.

    Parameters
    ----------
    settings : those of a run, such as `n_jobs`, have no effect: they are in `options`.
    min_words : as for `BagOfVisualWords.fit`.
    """
    sift, regions = settings.check()
    describer: Describer = sift
    if isinstance(settings.features, str) and settings.features != "sift":
        describer = NetworkDescriber.find(settings.features)
    elif callable(settings.features):
        decoding = replace(sift.decoding, color=True)
        describer = FunctionDescriber(function=settings.features, decoding=decoding)
    shared: dict[str, Any] = {
        "seed": seed,
        "contrast_percentile": settings.contrast_percentile,
        "sample_size": settings.sample_size,
        "n_examples": settings.n_examples,
    }
    fitted = fit_words(
        images,
        describer,
        regions,
        options,
        n_words=settings.n_words,
        min_words=min_words,
        n_nearest=settings.n_nearest,
        mirror=settings.mirror,
        **shared,
    )
    if settings.n_sift_words:
        n_words = settings.n_sift_words
        fitted = fit_sift_words(fitted, images, sift, options, n_words=n_words, **shared)
    return fitted
