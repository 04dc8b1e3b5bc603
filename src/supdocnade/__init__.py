"""SupDocNADE: a neural topic model of words, annotations and classes."""

from importlib import import_module

TYPE_CHECKING = False  # Without an import, since Ctrl-C cannot be caught before `__main__` runs.
if TYPE_CHECKING:
    from supdocnade.corpus import Corpus as Corpus
    from supdocnade.estimators.bag_of_visual_words import BagOfVisualWords as BagOfVisualWords
    from supdocnade.estimators.bag_of_visual_words import DampCounts as DampCounts
    from supdocnade.estimators.bag_of_visual_words import (
        SkippedImagesWarning as SkippedImagesWarning,
    )
    from supdocnade.estimators.scoring import make_annotation_scorer as make_annotation_scorer
    from supdocnade.estimators.supdocnade import SupDocNADE as SupDocNADE
    from supdocnade.estimators.text_model import TextModel as TextModel
    from supdocnade.estimators.topic_model import DocNADE as DocNADE
    from supdocnade.model.network import WordOutput as WordOutput
    from supdocnade.scene.model import SceneModel as SceneModel
    from supdocnade.training.distributed import training_processes as training_processes

__version__ = "0.1.0"

_MODULES = {
    "BagOfVisualWords": "estimators.bag_of_visual_words",
    "Corpus": "corpus",
    "DampCounts": "estimators.bag_of_visual_words",
    "DocNADE": "estimators.topic_model",
    "SceneModel": "scene.model",
    "SkippedImagesWarning": "estimators.bag_of_visual_words",
    "SupDocNADE": "estimators.supdocnade",
    "TextModel": "estimators.text_model",
    "WordOutput": "model.network",
    "make_annotation_scorer": "estimators.scoring",
    "training_processes": "training.distributed",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that `import supdocnade` stays fast."""
    if name in _MODULES:
        return getattr(import_module(f"supdocnade.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
