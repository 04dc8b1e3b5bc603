"""Named recipes: everything about words and training that is not chosen per split.

`paper` is what the paper says and nothing else; `wan` is its 45-topic configuration; `shrunk` is
`paper` with shorter descriptors for patches of little contrast, about which the paper says nothing;
`ours` is chosen on the development pool alone (`experiments/pool.py`), before any reported run.
"""

from dataclasses import dataclass

from scipy import sparse

from supdocnade.reproduction.words import GRID_NAMES, WordRecipe, Words
from supdocnade.scene.fitted import damped


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a topic model is made from photographs."""

    words: WordRecipe
    grid: str = "2×2"
    """One of GRID_NAMES."""
    damping: float | None = None
    """Scale of `DampCounts`; None: counts stay."""
    max_epochs: int = 60
    batch_size: int = 64
    members: int = 1
    """Models of different seeds whose topics are put side by side and whose tags are averaged."""
    apart: bool = False
    """Whether an image and its mirror image are documents of their own to a topic model, which then
    answers with the mean of both."""
    with_counts: bool = False
    """Whether the SVM sees √counts beside topics."""
    class_tags: bool = False
    """Whether tags are ranked with what the classes' posterior says of them, too."""

    def counts(self, words: Words, grid: str) -> list[sparse.csr_array]:
        """Return the counts that a topic model learns from: one matrix, or one a side."""
        grids = GRID_NAMES[grid]
        found = words.counts_of_sides(grids) if self.apart else [words.counts(grids)]
        return [damped(each, self.damping) for each in found]


RECIPES: dict[str, Recipe] = {
    "paper": Recipe(words=WordRecipe()),
    "wan": Recipe(words=WordRecipe(n_words=200, step=16, patch_size=32), grid="1×1"),
    "shrunk": Recipe(words=WordRecipe(contrast_percentile=10)),
    "ours": Recipe(
        words=WordRecipe(n_words=500, patch_size=(16, 32), contrast_percentile=10, mirrored=True),
        apart=True,
        with_counts=True,
        class_tags=True,
    ),
}

TITLES = {
    "paper": "as in the paper",
    "wan": "200 words, patches of 32, step 16",
    "shrunk": "as in the paper, patches of little contrast shortened",
    "ours": "ours",
}
