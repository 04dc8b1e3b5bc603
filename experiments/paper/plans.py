"""Recipes, methods and plans: the models that are tuned, trained and compared on a data set.

1. Accuracy against the number of topics: SupDocNADE, DocNADE, sLDA, MMLDA, Replicated
   Softmax, and LDA at 100 topics.
2. Variants: λ = 0, λ = 1, one region, a pyramid, a class term that sees tags while training.
3. The 45-topic configuration.
4. Annotation at 200 topics, with hyper-parameters chosen for the F-measure, for every tag set.
5. Words and tags of the classes, from the models of experiment 4 in the first split.

A recipe has every setting of words and training that is not chosen per split. `paper` is what the
paper says and nothing else; `wan` is its 45-topic configuration; `shrunk` is `paper` with shorter
descriptors for patches of little contrast, about which the paper says nothing; `ours` was chosen on
the development pool alone (`experiments/pool.py`), before any reported run.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from scipy import sparse

from experiments.paper.data_sets import DataSet
from experiments.paper.protocol import N_SPLITS
from experiments.paper.words import GRIDS, WordRecipe, Words
from supdocnade.corpus.tokens import damp_counts


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of words, training and prediction that are not chosen per split."""

    words: WordRecipe
    grid: str = "2×2"
    """A key of GRIDS."""
    damping: float | None = None
    """Scale of `DampCounts`; None if counts are not damped."""
    max_epochs: int = 60
    batch_size: int = 64
    members: int = 1
    """Number of models of different seeds, whose topics are concatenated and tags averaged."""
    apart: bool = False
    """Make an image and its mirror image two documents and average their predictions."""
    with_counts: bool = False
    """Give the SVM √counts besides topics."""
    class_tags: bool = False
    """Let the predicted classes contribute to the ranking of tags."""

    def counts(self, words: Words, grid: str) -> list[sparse.csr_array]:
        """Return the counts that a topic model learns from, one matrix per side."""
        sides = words.counts_of_sides(GRIDS[grid]) if self.apart else [words.counts(GRIDS[grid])]
        if self.damping is None:
            return sides
        return [damp_counts(side, self.damping) for side in sides]


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

TOPICS = (25, 50, 100, 200)
TUNED_AT = 100
"""Number of topics at which hyper-parameters are chosen for all numbers of topics."""

ACCURACY, F_MEASURE = "accuracy", "f_measure"

QUICK_SIDE = 128
"""Longest side of the photographs of a quick run, in pixels."""

SUP, DOC = "SupDocNADE", "DocNADE"
SLDA_NAME, MMLDA_NAME = "sLDA", "MMLDA"
SOFTMAX_SVM, LDA_SVM = "Replicated Softmax + SVM", "LDA + SVM"
TAGGING_BASELINES = (SLDA_NAME, MMLDA_NAME)
TOPIC_BASELINES = (*TAGGING_BASELINES, SOFTMAX_SVM, LDA_SVM)

SPACES: dict[str, dict[str, tuple[Any, ...]]] = {
    SUP: {
        "generative_weight": (1e-3, 1e-2, 1e-1),
        "learning_rate": (1e-4, 3e-4),
        "annotation_weight": (1.0, 30.0),
    },
    DOC: {"learning_rate": (1e-4, 3e-4), "annotation_weight": (1.0, 30.0)},
    SLDA_NAME: {
        "topic_prior": (0.1, 1.0),
        "penalty": (1e-3, 1e-2, 1e-1),
        "max_iter": (30, 90),
    },
    MMLDA_NAME: {
        "topic_prior": (0.1, 1.0),
        "cost": (0.03, 0.3, 3.0),
        "max_iter": (30, 90),
    },
    SOFTMAX_SVM: {"learning_rate": (1e-3, 3e-3), "max_epochs": (30, 150)},
    LDA_SVM: {"doc_topic_prior": (0.01, 0.1, 1.0), "max_iter": (10, 20)},
}
"""Values of every model's arguments among which each split chooses."""

NO_WORDS, ALL_WORDS = "SupDocNADE, λ = 0", "SupDocNADE, λ = 1"
SEES_TAGS = "SupDocNADE, class from words and tags"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Everything that determines a topic model, except for the photographs and the seed."""

    model: str
    """A key of SPACES."""
    recipe: str
    grid: str
    n_topics: int
    tags: str | None
    values: dict[str, Any]
    """Arguments of the model."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A method: its search space, its criterion, and the numbers of topics that are reported."""

    method: str
    model: str = SUP
    """A key of SPACES."""
    recipe: str = "paper"
    grid: str = "2×2"
    tags: str | None = None
    """The tag set that is learned, if any."""
    special: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """Values in place of those of SPACES."""
    chosen_for: str = ACCURACY
    tuned_at: int = TUNED_AT
    topics: tuple[int, ...] = TOPICS

    def space(self) -> dict[str, tuple[Any, ...]]:
        """Return the values of every argument that are tried."""
        space = {**SPACES[self.model], **self.special}
        if self.tags is None:  # A weight without its term in the objective is not searched.
            space.pop("annotation_weight", None)
        return space

    def candidates(self) -> Iterator[Setting]:
        """Yield all settings that are tried, at the number of topics for tuning."""
        space = self.space()
        for values in itertools.product(*space.values()):
            yield Setting(
                model=self.model,
                recipe=self.recipe,
                grid=self.grid,
                n_topics=self.tuned_at,
                tags=self.tags,
                values=dict(zip(space, values, strict=True)),
            )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All experiments on one data set."""

    recipes: dict[str, Recipe]
    variants: tuple[Variant, ...]
    """Of SupDocNADE and DocNADE."""
    others: tuple[Variant, ...]
    """The other topic models."""
    baselines: tuple[tuple[str, str], ...]
    """Name and recipe of the baselines that classify."""
    tag_baselines: tuple[tuple[str, str, str], ...]
    """Name, recipe and tag set of the baselines that annotate."""
    max_side: int | None
    """Longest side of the photographs in pixels; None keeps their size."""
    n_splits: int
    cuts: tuple[str, ...]
    """Omissions that the page lists."""
    quick: bool = False


RBF_SVM, CHI2_SVM = "RBF SVM on √counts", "χ² SVM on counts"
INTERSECTION_SVM, SPATIAL_PYRAMID = "intersection SVM on counts", "spatial pyramid matching"
BASELINES = (RBF_SVM, CHI2_SVM, INTERSECTION_SVM, SPATIAL_PYRAMID)

FREQUENT = "most frequent tags"
FREQUENT_OF_CLASS = "most frequent tags of the predicted class"
LOGISTIC, NEIGHBOURS = "logistic regression on √counts", "k nearest neighbours"
TAG_BASELINES = (FREQUENT, FREQUENT_OF_CLASS, LOGISTIC, NEIGHBOURS)


def baseline_grid(name: str, grid: str) -> str:
    """Return the grid of a baseline, given that of the recipe; pyramid matching has its own."""
    return "pyramid" if name == SPATIAL_PYRAMID else grid


def full_plan(spec: DataSet) -> Plan:
    """Return the experiments on a data set."""
    tag_sets = tuple(spec.tag_files)
    first = tag_sets[0] if tag_sets else None
    main = Variant(method=SUP, tags=first)
    doc = Variant(method=DOC, model=DOC, tags=first)
    variants = [
        main,
        doc,
        Variant(method=NO_WORDS, special={"generative_weight": (0.0,)}),
        Variant(method=ALL_WORDS, special={"generative_weight": (1.0,)}, tags=first),
        replace(main, grid="1×1"),
        replace(main, grid="pyramid"),
    ]
    recipes = ["paper"]
    if spec.name == "scene15":
        recipes.append("wan")
        variants += [
            replace(each, recipe="wan", grid="1×1", tuned_at=45, topics=(45,))
            for each in (main, doc)
        ]
    if spec.name == "labelme":
        sees_tags = replace(main, method=SEES_TAGS, special={"class_input": ("all",)})
        variants.append(replace(sees_tags, topics=(200,)))
    for tags in tag_sets:
        variants += [
            replace(each, tags=tags, chosen_for=F_MEASURE, topics=(200,)) for each in (main, doc)
        ]
    recipes += ["shrunk", "ours"]
    variants += [replace(each, recipe="shrunk", topics=(200,)) for each in (main, doc)]
    ours_grid = RECIPES["ours"].grid
    ours = [replace(each, recipe="ours", grid=ours_grid, topics=(200,)) for each in (main, doc)]
    variants += ours
    for tags in tag_sets:
        variants += [replace(each, tags=tags, chosen_for=F_MEASURE, topics=(200,)) for each in ours]
    others = [Variant(method=name, model=name, tags=first) for name in TAGGING_BASELINES]
    others += [
        Variant(method=SOFTMAX_SVM, model=SOFTMAX_SVM),
        Variant(method=LDA_SVM, model=LDA_SVM, topics=(TUNED_AT,)),
    ]
    others += [
        Variant(method=name, model=name, tags=tags, chosen_for=F_MEASURE, topics=(200,))
        for tags in tag_sets
        for name in TAGGING_BASELINES
    ]
    return Plan(
        recipes={name: RECIPES[name] for name in recipes},
        variants=tuple(variants),
        others=tuple(others),
        baselines=tuple((name, which) for which in recipes for name in BASELINES),
        tag_baselines=tuple(
            (name, which, tags)
            for which in recipes
            if which in ("paper", "ours")
            for tags in tag_sets
            for name in TAG_BASELINES
        ),
        max_side=spec.max_side,
        n_splits=N_SPLITS,
        cuts=(
            "other topic models: the recipe of the paper alone; LDA: 100 topics alone",
            "experiments 2 (class from words and tags) and 4, and all recipes but the paper's: 200 "
            "topics alone",
        ),
    )


def with_splits(plan: Plan, n_splits: int) -> Plan:
    """Return a plan for the first splits only, which lists the others as cut."""
    if n_splits >= plan.n_splits:
        return plan
    return replace(
        plan,
        n_splits=n_splits,
        cuts=(*plan.cuts, f"splits: the first {n_splits} of {plan.n_splits}"),
    )


def quick_plan(spec: DataSet) -> Plan:
    """Return a small version of the experiments, for minutes on a few photographs."""
    plan = full_plan(spec)

    def shrink(each: Variant) -> Variant:
        special = {name: values[-1:] for name, values in each.space().items()}
        if (each.recipe, each.grid, each.chosen_for) == ("paper", "2×2", ACCURACY):
            first, values = next(iter(each.space().items()))
            special[first] = values[-2:]
        if "learning_rate" in special:
            special["learning_rate"] = (3e-3,)
        return replace(
            each,
            special=special,
            tuned_at=min(each.tuned_at, 10),
            topics=(5, 10) if each.topics == TOPICS else (10,),
        )

    def shrink_recipe(each: Recipe) -> Recipe:
        words = replace(each.words, n_words=min(each.words.n_words, 40))
        return replace(each, words=words, max_epochs=10, batch_size=16)

    return replace(
        plan,
        recipes={name: shrink_recipe(each) for name, each in plan.recipes.items()},
        variants=tuple(shrink(each) for each in plan.variants),
        others=tuple(shrink(each) for each in plan.others),
        max_side=QUICK_SIDE,
        n_splits=2,
        cuts=("a quick run: few photographs, words, topics and epochs, two splits",),
        quick=True,
    )
