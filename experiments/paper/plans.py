"""Recipes, methods and plans: the models that are tuned, trained and compared on a data set.

1. Accuracy against the number of topics: SupDocNADE, DocNADE, sLDA, MMLDA, Replicated Softmax.
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
from dataclasses import dataclass, replace

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

LAMBDAS = (1e-3, 1e-2, 1e-1)
LEARNING_RATES = (1e-4, 3e-4)
ANNOTATION_WEIGHTS = (1.0, 30.0)

ACCURACY, F_MEASURE = "accuracy", "f_measure"

QUICK_SIDE = 128
"""Longest side of the photographs of a quick run, in pixels."""

SUP, DOC = "SupDocNADE", "DocNADE"
NO_WORDS, ALL_WORDS = "SupDocNADE, λ = 0", "SupDocNADE, λ = 1"
SEES_TAGS = "SupDocNADE, class from words and tags"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Everything that determines a topic model, except for the photographs and the seed."""

    supervised: bool
    recipe: str
    grid: str
    n_topics: int
    generative_weight: float
    learning_rate: float
    annotation_weight: float
    tags: str | None
    class_input: str = "visual"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A method: its search space, its criterion, and the numbers of topics that are reported."""

    method: str
    recipe: str = "paper"
    grid: str = "2×2"
    supervised: bool = True
    tags: str | None = None
    """The tag set that is learned, if any."""
    class_input: str = "visual"
    lambdas: tuple[float, ...] = LAMBDAS
    learning_rates: tuple[float, ...] = LEARNING_RATES
    annotation_weights: tuple[float, ...] = ANNOTATION_WEIGHTS
    chosen_for: str = ACCURACY
    tuned_at: int = TUNED_AT
    topics: tuple[int, ...] = TOPICS

    def candidates(self) -> Iterator[Setting]:
        """Yield all settings that are tried, at the number of topics for tuning."""
        # A weight without its term in the objective is not searched.
        lambdas = self.lambdas if self.supervised else (1.0,)
        weights = self.annotation_weights if self.tags else (1.0,)
        for weight, rate, tag_weight in itertools.product(lambdas, self.learning_rates, weights):
            yield Setting(
                supervised=self.supervised,
                recipe=self.recipe,
                grid=self.grid,
                n_topics=self.tuned_at,
                generative_weight=weight,
                learning_rate=rate,
                annotation_weight=tag_weight,
                tags=self.tags,
                class_input=self.class_input,
            )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All experiments on one data set."""

    recipes: dict[str, Recipe]
    variants: tuple[Variant, ...]
    baselines: tuple[tuple[str, str], ...]
    """Name and recipe of the baselines that classify."""
    tag_baselines: tuple[tuple[str, str, str], ...]
    """Name, recipe and tag set of the baselines that annotate."""
    topic_baselines: tuple[tuple[str, int, str | None], ...]
    """Name, number of topics and tag set of the other topic models."""
    max_side: int | None
    """Longest side of the photographs in pixels; None keeps their size."""
    n_splits: int
    lda_topics: int
    lda_passes: int
    cuts: tuple[str, ...]
    """Omissions that the page lists."""
    quick: bool = False


RBF_SVM, CHI2_SVM = "RBF SVM on √counts", "χ² SVM on counts"
INTERSECTION_SVM, SPATIAL_PYRAMID = "intersection SVM on counts", "spatial pyramid matching"
LDA_SVM = "LDA + SVM"
BASELINES = (RBF_SVM, CHI2_SVM, INTERSECTION_SVM, SPATIAL_PYRAMID, LDA_SVM)

SLDA_NAME, MMLDA_NAME, SOFTMAX_SVM = "sLDA", "MMLDA", "Replicated Softmax + SVM"
TAGGING_BASELINES = (SLDA_NAME, MMLDA_NAME)
TOPIC_BASELINES = (*TAGGING_BASELINES, SOFTMAX_SVM)

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
    doc = Variant(method=DOC, supervised=False, tags=first)
    variants = [
        main,
        doc,
        Variant(method=NO_WORDS, lambdas=(0.0,)),
        Variant(method=ALL_WORDS, lambdas=(1.0,), tags=first),
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
        variants.append(replace(main, method=SEES_TAGS, class_input="all", topics=(200,)))
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
    return Plan(
        recipes={name: RECIPES[name] for name in recipes},
        variants=tuple(variants),
        baselines=tuple((name, which) for which in recipes for name in BASELINES),
        tag_baselines=tuple(
            (name, which, tags)
            for which in recipes
            if which in ("paper", "ours")
            for tags in tag_sets
            for name in TAG_BASELINES
        ),
        topic_baselines=(
            *((name, n_topics, first) for n_topics in TOPICS for name in TAGGING_BASELINES),
            *((SOFTMAX_SVM, n_topics, None) for n_topics in TOPICS),
            *((name, TOPICS[-1], tags) for tags in tag_sets[1:] for name in TAGGING_BASELINES),
        ),
        max_side=spec.max_side,
        n_splits=N_SPLITS,
        lda_topics=100,
        lda_passes=20,
        cuts=(
            "sLDA and MMLDA: default arguments, and the first tag set alone below 200 topics",
            "Replicated Softmax: one setting; only its SVM is chosen per split",
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
        searched = (each.recipe, each.grid, each.chosen_for) == ("paper", "2×2", ACCURACY)
        return replace(
            each,
            lambdas=each.lambdas[-2:] if searched else each.lambdas[-1:],
            learning_rates=(3e-3,),
            annotation_weights=each.annotation_weights[-1:],
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
        topic_baselines=tuple(
            (name, 5, tags) for name, n, tags in plan.topic_baselines if n == TOPICS[-1]
        ),
        max_side=QUICK_SIDE,
        n_splits=2,
        lda_topics=8,
        lda_passes=3,
        cuts=("a quick run: few photographs, words, topics and epochs, two splits",),
        quick=True,
    )
