"""SupDocNADE: a neural topic model of words, annotations and classes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from supdocnade.corpus import Corpus
    from supdocnade.estimators import (
        BagOfVisualWords,
        DampCounts,
        DocNADE,
        SkippedImagesWarning,
        SupDocNADE,
        fit_many,
        make_annotation_scorer,
    )
    from supdocnade.scene.model import SceneModel

__version__ = "0.1.0"

__all__ = [
    "BagOfVisualWords",
    "Corpus",
    "DampCounts",
    "DocNADE",
    "SceneModel",
    "SkippedImagesWarning",
    "SupDocNADE",
    "fit_many",
    "make_annotation_scorer",
]


def __getattr__(name: str) -> Any:
    """Load public names when they are first used, so that `import supdocnade` stays light."""
    if name in __all__:
        room = {"Corpus": "corpus", "SceneModel": "scene.model"}.get(name, "estimators")
        return getattr(import_module(f"supdocnade.{room}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
