"""The recipes that `experiments.pool` tries."""

from dataclasses import dataclass, field, replace
from typing import Any

from supdocnade.paper.plans import Recipe
from supdocnade.paper.words import WordRecipe


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A recipe and the settings it is tried with."""

    recipe: Recipe
    setting: dict[str, Any] = field(default_factory=dict)


PLAIN = WordRecipe()
SHRUNK = replace(PLAIN, contrast_percentile=10)
FINE = replace(SHRUNK, n_words=500, patch_size=(16, 32))
BASE = Recipe(words=SHRUNK, damping=2.0)
BOTH = replace(BASE, words=FINE)
THOUSAND = replace(BASE, words=replace(FINE, n_words=1000))
MIRRORED = replace(BASE, words=replace(THOUSAND.words, mirrored=True))
TWICE = replace(BASE, words=replace(FINE, mirrored=True))
APART = replace(TWICE, damping=None, apart=True)

TRIED: dict[str, Tried] = {
    "paper": Tried(recipe=Recipe(words=PLAIN)),
    "contrast 10": Tried(recipe=Recipe(words=SHRUNK)),
    "damped": Tried(recipe=Recipe(words=PLAIN, damping=2.0)),
    "base: contrast 10, damped": Tried(recipe=BASE),
    "base, damped by 1.5": Tried(recipe=replace(BASE, damping=1.5)),
    "base, contrast 20": Tried(recipe=replace(BASE, words=replace(PLAIN, contrast_percentile=20))),
    "base, root-SIFT": Tried(recipe=replace(BASE, words=replace(SHRUNK, root_sift=True))),
    "base, 1000 words": Tried(recipe=replace(BASE, words=replace(SHRUNK, n_words=1000))),
    "base, pyramid": Tried(recipe=replace(BASE, grid="pyramid")),
    "base, 1×1 and 2×2": Tried(recipe=replace(BASE, grid="1×1 and 2×2")),
    "base, patches 16 and 32": Tried(recipe=replace(BOTH, words=replace(FINE, n_words=240))),
    "500 words, patches 16 and 32": Tried(recipe=BOTH),
    "1000 words, patches 16 and 32": Tried(recipe=THOUSAND),
    "500 words, patches 16, 24 and 32": Tried(
        recipe=replace(BASE, words=replace(FINE, patch_size=(16, 24, 32)))
    ),
    "500 words, patches 16 and 32, colour": Tried(
        recipe=replace(BASE, words=replace(FINE, color=True))
    ),
    "500 words, patches 16 and 32, pyramid": Tried(recipe=replace(BOTH, grid="pyramid")),
    "500 words, patches 16 and 32, step 6": Tried(
        recipe=replace(BASE, words=replace(FINE, step=6))
    ),
    "500 words, 16 and 32, 30 epochs": Tried(recipe=replace(BOTH, max_epochs=30)),
    "500 words, 16 and 32, 120 epochs, rate 1e-4": Tried(
        recipe=replace(BOTH, max_epochs=120), setting={"learning_rate": 1e-4}
    ),
    "500 words, 16 and 32, λ = 0.001": Tried(recipe=BOTH, setting={"generative_weight": 1e-3}),
    "500 words, 16 and 32, λ = 0.1": Tried(recipe=BOTH, setting={"generative_weight": 1e-1}),
    "500 words, 16 and 32, annotation weight 100": Tried(
        recipe=BOTH, setting={"annotation_weight": 100.0}
    ),
    "500 words, 16 and 32, 4 models": Tried(recipe=replace(BOTH, members=4)),
    "500 words, 16 and 32, mirrored": Tried(recipe=TWICE),
    "1000 words, 16 and 32, mirrored": Tried(recipe=MIRRORED),
    "1000 words, 16 and 32, not damped": Tried(recipe=replace(THOUSAND, damping=None)),
    "1000 words, 16 and 32, 1×1 and 2×2": Tried(recipe=replace(THOUSAND, grid="1×1 and 2×2")),
    "1000 words, 16 and 32, 120 epochs, rate 1e-4": Tried(
        recipe=replace(THOUSAND, max_epochs=120), setting={"learning_rate": 1e-4}
    ),
    "1000 words, 16 and 32, λ = 0.1": Tried(recipe=THOUSAND, setting={"generative_weight": 1e-1}),
    "1000 words, 16 and 32, λ = 0.001": Tried(recipe=THOUSAND, setting={"generative_weight": 1e-3}),
    "1000 words, 16 and 32, contrast 20": Tried(
        recipe=replace(THOUSAND, words=replace(THOUSAND.words, contrast_percentile=20))
    ),
    "1000 words, 16, 24 and 32": Tried(
        recipe=replace(BASE, words=replace(THOUSAND.words, patch_size=(16, 24, 32)))
    ),
    "1000 words, 16, 24, 32 and 48": Tried(
        recipe=replace(BASE, words=replace(THOUSAND.words, patch_size=(16, 24, 32, 48)))
    ),
    "2000 words, 16 and 32": Tried(
        recipe=replace(BASE, words=replace(THOUSAND.words, n_words=2000))
    ),
    "1000 words, 16 and 32, colour": Tried(
        recipe=replace(THOUSAND, words=replace(THOUSAND.words, color=True))
    ),
    "1000 words, 16 and 32, 4 models": Tried(recipe=replace(THOUSAND, members=4)),
    "1000 words, 16 and 32, mirrored, 4 models": Tried(recipe=replace(MIRRORED, members=4)),
    "500 words, mirrored, not damped": Tried(recipe=replace(TWICE, damping=None)),
    "500 words, mirrored, damped by 1": Tried(recipe=replace(TWICE, damping=1.0)),
    "500 words, mirrored, apart": Tried(recipe=replace(TWICE, apart=True)),
    "500 words, mirrored, apart, not damped": Tried(recipe=APART),
    "500 words, mirrored, apart, not damped, 400 topics": Tried(
        recipe=APART, setting={"n_topics": 400}
    ),
    "500 words, mirrored, apart, not damped, 120 epochs, rate 1e-4": Tried(
        recipe=replace(APART, max_epochs=120), setting={"learning_rate": 1e-4}
    ),
    "500 words, mirrored, apart, not damped, 4 models": Tried(recipe=replace(APART, members=4)),
    "500 words, mirrored, apart, not damped, 1×1 and 2×2": Tried(
        recipe=replace(APART, grid="1×1 and 2×2")
    ),
    "500 words, mirrored, apart, not damped, pyramid": Tried(recipe=replace(APART, grid="pyramid")),
    "1000 words, mirrored, not damped": Tried(recipe=replace(MIRRORED, damping=None)),
    "1000 words, mirrored, apart, not damped": Tried(
        recipe=replace(MIRRORED, damping=None, apart=True)
    ),
}  # fmt: skip
