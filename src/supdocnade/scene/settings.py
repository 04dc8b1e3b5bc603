"""Settings of a scene model beside those of its visual words, as they are in its file."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from supdocnade.checks import check_settings, plain_settings, setting
from supdocnade.estimators.settings import DocNADESettings, SupDocNADESettings
from supdocnade.visual_words.settings import VisualWordSettings

WORD_SETTINGS, TOPIC_SETTINGS = (
    {each.name for each in fields(kind) if each.metadata["group"] != "run"}
    - {"features", "n_topics"}
    for kind in (VisualWordSettings, SupDocNADESettings)
)
"""Names of the settings of visual words and of topics that `SceneModel` does not have itself."""


@dataclass(eq=False, kw_only=True)
class SceneSettings:
    """What a `SceneModel` learns from words, and how."""

    topics: DocNADESettings | SupDocNADESettings
    damping: float | None = setting(
        1.0,
        "A word that occurs n times counts round(damping · √n) times; with None, n times.",
        above=0,
    )
    min_tag_count: int = setting(3, "Ignore tags of fewer photographs.", least=1)
    held_out: float = setting(
        0.15,
        "Share of the photographs on which the settings of the SVM, the temperature of "
        "probabilities and the threshold of tags are chosen. Then the model is fitted on all.",
        least=0,
        most=0.9,
    )
    random_state: int | None = setting(None, least=0)

    def check(self) -> None:
        """Raise `InvalidArgument` if a setting is invalid."""
        check_settings(self)
        self.topics.check()

    def named(self) -> dict[str, Any]:
        """Return the settings by their names alone."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**plain_settings(own.pop("topics")), **own}


def place_settings(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return settings with names like n_words by what has them: "words", "topics" or "scene".

    >>> place_settings({"n_words": 3, "n_topics": 2, "learning_rate": 0.1, "damping": 1.0})
    {'words': {'n_words': 3}, 'topics': {'learning_rate': 0.1}, 'scene': {'n_topics': 2, \
'damping': 1.0}}
    """
    placed: dict[str, dict[str, Any]] = {"words": {}, "topics": {}, "scene": {}}
    for name, value in settings.items():
        owner = "scene"
        if name in WORD_SETTINGS:
            owner = "words"
        elif name in TOPIC_SETTINGS:
            owner = "topics"
        placed[owner][name] = value
    return placed
