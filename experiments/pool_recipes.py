"""Recipes that `experiments.pool` tries."""

from dataclasses import replace
from typing import Any

from experiments.paper.plans import Recipe
from experiments.paper.words import WordRecipe

PLAIN = WordRecipe()
SHRUNK = replace(PLAIN, contrast_percentile=10)
FINE = replace(SHRUNK, n_words=500, patch_size=(16, 32))
BASE = Recipe(words=SHRUNK, damping=2.0)
BOTH = replace(BASE, words=FINE)
THOUSAND = replace(BASE, words=replace(FINE, n_words=1000))
MIRRORED = replace(BASE, words=replace(THOUSAND.words, mirrored=True))
TWICE = replace(BASE, words=replace(FINE, mirrored=True))
APART = replace(TWICE, damping=None, apart=True)

TRIED: dict[str, Recipe] = {
    "paper": Recipe(words=PLAIN),
    "contrast 10": Recipe(words=SHRUNK),
    "damped": Recipe(words=PLAIN, damping=2.0),
    "base: contrast 10, damped": BASE,
    "base, damped by 1.5": replace(BASE, damping=1.5),
    "base, contrast 20": replace(BASE, words=replace(PLAIN, contrast_percentile=20)),
    "base, 1000 words": replace(BASE, words=replace(SHRUNK, n_words=1000)),
    "base, pyramid": replace(BASE, grid="pyramid"),
    "base, 1×1 and 2×2": replace(BASE, grid="1×1 and 2×2"),
    "base, patches 16 and 32": replace(BOTH, words=replace(FINE, n_words=240)),
    "500 words, patches 16 and 32": BOTH,
    "1000 words, patches 16 and 32": THOUSAND,
    "500 words, patches 16, 24 and 32": replace(BASE, words=replace(FINE, patch_size=(16, 24, 32))),
    "500 words, patches 16 and 32, pyramid": replace(BOTH, grid="pyramid"),
    "500 words, patches 16 and 32, step 6": replace(BASE, words=replace(FINE, step=6)),
    "500 words, 16 and 32, 30 epochs": replace(BOTH, max_epochs=30),
    "500 words, 16 and 32, 120 epochs, rate 1e-4": replace(BOTH, max_epochs=120),
    "500 words, 16 and 32, λ = 0.001": BOTH,
    "500 words, 16 and 32, λ = 0.1": BOTH,
    "500 words, 16 and 32, annotation weight 100": BOTH,
    "500 words, 16 and 32, 4 models": replace(BOTH, members=4),
    "500 words, 16 and 32, mirrored": TWICE,
    "1000 words, 16 and 32, mirrored": MIRRORED,
    "1000 words, 16 and 32, not damped": replace(THOUSAND, damping=None),
    "1000 words, 16 and 32, 1×1 and 2×2": replace(THOUSAND, grid="1×1 and 2×2"),
    "1000 words, 16 and 32, 120 epochs, rate 1e-4": replace(THOUSAND, max_epochs=120),
    "1000 words, 16 and 32, λ = 0.1": THOUSAND,
    "1000 words, 16 and 32, λ = 0.001": THOUSAND,
    "1000 words, 16 and 32, contrast 20": replace(
        THOUSAND, words=replace(THOUSAND.words, contrast_percentile=20)
    ),
    "1000 words, 16, 24 and 32": replace(
        BASE, words=replace(THOUSAND.words, patch_size=(16, 24, 32))
    ),
    "1000 words, 16, 24, 32 and 48": replace(
        BASE, words=replace(THOUSAND.words, patch_size=(16, 24, 32, 48))
    ),
    "2000 words, 16 and 32": replace(BASE, words=replace(THOUSAND.words, n_words=2000)),
    "1000 words, 16 and 32, 4 models": replace(THOUSAND, members=4),
    "1000 words, 16 and 32, mirrored, 4 models": replace(MIRRORED, members=4),
    "500 words, mirrored, not damped": replace(TWICE, damping=None),
    "500 words, mirrored, damped by 1": replace(TWICE, damping=1.0),
    "500 words, mirrored, apart": replace(TWICE, apart=True),
    "500 words, mirrored, apart, not damped": APART,
    "500 words, mirrored, apart, not damped, 400 topics": APART,
    "500 words, mirrored, apart, not damped, 120 epochs, rate 1e-4": replace(APART, max_epochs=120),
    "500 words, mirrored, apart, not damped, 4 models": replace(APART, members=4),
    "500 words, mirrored, apart, not damped, 1×1 and 2×2": replace(APART, grid="1×1 and 2×2"),
    "500 words, mirrored, apart, not damped, pyramid": replace(APART, grid="pyramid"),
    "1000 words, mirrored, not damped": replace(MIRRORED, damping=None),
    "1000 words, mirrored, apart, not damped": replace(MIRRORED, damping=None, apart=True),
}

SETTINGS: dict[str, dict[str, Any]] = {
    "500 words, 16 and 32, 120 epochs, rate 1e-4": {"learning_rate": 0.0001},
    "500 words, 16 and 32, λ = 0.001": {"generative_weight": 0.001},
    "500 words, 16 and 32, λ = 0.1": {"generative_weight": 0.1},
    "500 words, 16 and 32, annotation weight 100": {"annotation_weight": 100.0},
    "1000 words, 16 and 32, 120 epochs, rate 1e-4": {"learning_rate": 0.0001},
    "1000 words, 16 and 32, λ = 0.1": {"generative_weight": 0.1},
    "1000 words, 16 and 32, λ = 0.001": {"generative_weight": 0.001},
    "500 words, mirrored, apart, not damped, 400 topics": {"n_topics": 400},
    "500 words, mirrored, apart, not damped, 120 epochs, rate 1e-4": {"learning_rate": 0.0001},
}
"""Settings other than those of `experiments.pool.setting_of`."""
