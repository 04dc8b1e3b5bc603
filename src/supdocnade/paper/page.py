"""The page with all figures and tables, made from results alone."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from supdocnade.paper.baselines import METHOD as SLDA
from supdocnade.paper.claims import (
    REPORTED,
    Claim,
    Target,
    claims,
    most_topics,
    outside,
    split_means,
    targets,
)
from supdocnade.paper.data_sets import data_set
from supdocnade.paper.plans import (
    ACCURACY,
    ALL_WORDS,
    DOC,
    F_MEASURE,
    NO_WORDS,
    RBF_SVM,
    SEES_TAGS,
    SPATIAL_PYRAMID,
    SUP,
    TAG_YARDSTICKS,
    TITLES,
    YARDSTICKS,
    yardstick_grid,
)
from supdocnade.paper.qualitative import SHOWN
from supdocnade.paper.results import Kept, Series, read_results
from supdocnade.paper.statistics import Interval
from supdocnade.report.charts import topic_chart
from supdocnade.storage import write_atomically

# Tables of results in Markdown.

VARIANTS = ((SUP, "2×2"), (NO_WORDS, "2×2"), (ALL_WORDS, "2×2"), (SUP, "1×1"), (SUP, "pyramid"))


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def figure(kept: Kept, series: Series, *, full: bool = False) -> str:
    """Return mean (standard deviation) over splits in per cent; "–" where there is nothing."""
    if series not in kept.scores:
        return "–"
    means = 100 * split_means(kept.scores[series] if full else outside(kept, series))
    if len(means) < 2:
        return f"{means[0]:.1f}"
    return f"{means.mean():.1f} ({np.std(means, ddof=1):.1f})"


def both(kept: Kept, series: Series) -> list[str]:
    """Return a figure outside the pool and on the paper's full test part."""
    return [figure(kept, series), figure(kept, series, full=True)]


def topics_table(kept: Kept, methods: Sequence[tuple[str, str]]) -> str:
    """Return accuracy by the number of topics, methods and grids in rows."""
    series = [s for s in kept.scores if s.recipe == "paper" and s.metric == ACCURACY]
    topics = sorted({s.n_topics for s in series if s.n_topics})
    rows = []
    for method, grid in methods:
        chosen_for = None if method == SLDA else ACCURACY
        cells = [
            figure(kept, Series("paper", method, n, grid, ACCURACY, None, chosen_for))
            for n in topics
        ]
        rows.append([f"{method}, {grid}", *cells])
    return markdown(["accuracy (%)", *(f"{n} topics" for n in topics)], rows)


def accuracy_table(kept: Kept, recipe: str) -> str:
    """Return the accuracy of every method with one recipe, yardsticks last."""
    wanted = [
        s for s in kept.scores if (s.recipe, s.metric, s.chosen_for) == (recipe, ACCURACY, ACCURACY)
    ]
    most = max(s.n_topics or 0 for s in wanted)
    order = (SUP, DOC, NO_WORDS, ALL_WORDS, SEES_TAGS)
    models = sorted(
        (s for s in wanted if s.n_topics == most),
        key=lambda s: (order.index(s.method.removesuffix(", its own softmax")), s),
    )
    rows = [[f"{s.method}, {s.n_topics} topics, {s.grid}", *both(kept, s)] for s in models]
    found = {s.method: s for s in kept.scores if s.recipe == recipe}
    others = {name: found[name] for name in YARDSTICKS if name in found}
    rows += [[f"{name}, {s.grid}", *both(kept, s)] for name, s in others.items()]
    # On Scene15 all that the paper reports in numbers is its 45-topic configuration.
    if recipe == ("wan" if kept.dataset == "scene15" else "paper"):
        rows += _reported(kept.dataset, ACCURACY)
    return markdown(["accuracy (%)", "outside the pool", "paper's full test part"], rows)


def _reported(dataset: str, metric: str) -> list[list[str]]:
    """Return what the paper reports, as rows beside ours."""
    return [
        [f"reported: {each.method}", "–", f"{each.value:g}"]
        for each in REPORTED
        if (each.dataset, each.metric) == (dataset, metric)
    ]


def without_topics(kept: Kept) -> str:
    """Return a sentence with the yardsticks, which have no topics, for the tables by topics."""
    parts = []
    for name in YARDSTICKS:
        series = Series("paper", name, None, yardstick_grid(name, "2×2"), ACCURACY)
        parts.append(f"{name} {figure(kept, series)}")
    return f"On the same words and splits, whatever the topics: {'; '.join(parts)}."


def tags_table(kept: Kept, tags: str) -> str:
    """Return the F-measure of every method on one set of tags."""
    rows = []
    for recipe in ("paper", "ours"):
        found = [
            s
            for s in kept.scores
            if (s.recipe, s.metric, s.tags, s.chosen_for) == (recipe, F_MEASURE, tags, F_MEASURE)
        ]
        for series in sorted(found, key=lambda s: s.method, reverse=True):
            name = f"{series.method}, {series.n_topics} topics ({TITLES[recipe]})"
            accuracy = series._replace(metric=ACCURACY)
            rows.append([name, *both(kept, series), figure(kept, accuracy)])
        for name in TAG_YARDSTICKS:
            matching = [
                s for s in kept.scores if (s.recipe, s.method, s.tags) == (recipe, name, tags)
            ]
            rows += [[f"{name} ({TITLES[recipe]})", *both(kept, s), "–"] for s in matching]
    rows += [
        [f"{name} (on its own tags)", *cells, "–"]
        for name, *cells in _reported(kept.dataset, F_MEASURE)
    ]
    header = ["F-measure (%)", "outside the pool", "paper's full test part", "accuracy (%)"]
    return markdown(header, rows)


def reported_table(dataset: str) -> str:
    """Return what the paper reports on a data set."""
    names = {ACCURACY: "accuracy", F_MEASURE: "F-measure"}
    rows = [
        [each.method, names[each.metric], f"{each.value:g}", each.whose, each.where]
        for each in REPORTED
        if each.dataset == dataset
    ]
    return markdown(["method", "", "reported (%)", "by", "where in the paper"], rows)


def claims_table(found: Sequence[Claim]) -> str:
    """Return every comparison with its intervals, in points."""
    rows = []
    for claim in found:
        result = claim.comparison
        differences = " ".join(f"{100 * each:+.1f}" for each in result.differences)
        corrected = "–" if result.corrected_t is None else _interval(result.corrected_t)
        mean = f"{100 * result.bootstrap.mean:+.2f}"
        rows.append(
            [claim.text, mean, differences, _interval(result.bootstrap), corrected, claim.verdict]
        )
    header = [
        "", "mean difference", "of every split", "95 %, over photographs",
        "95 %, over splits", "",
    ]  # fmt: skip
    return markdown(header, rows)


def _interval(given: Interval) -> str:
    return f"{100 * given.low:+.2f} to {100 * given.high:+.2f}"


def targets_table(found: Sequence[Target]) -> str:
    """Return every target with what was reached."""
    rows = [
        [
            each.text,
            f"{100 * each.value:g}",
            f"{100 * each.reached:.2f}",
            f"{100 * each.full:.2f}",
            "reached" if each.holds else "not reached",
        ]
        for each in found
    ]
    header = ["", "wanted (%)", "outside the pool", "paper's full test part", ""]
    return markdown(header, rows)


def choices_table(kept: Kept) -> str:
    """Return the hyper-parameters that every split chose for the main methods."""
    rows = []
    names = ("generative_weight", "learning_rate", "annotation_weight", "C", "gamma")
    for method in (SUP, DOC):
        for row in kept.rows:
            same = (row["recipe"], row["method"], row["grid"], row["metric"])
            if same != ("paper", method, "2×2", ACCURACY) or row["n_topics"] != most_topics(kept):
                continue
            if row["params"]["chosen_for"] == ACCURACY:
                cells = [f"{row['params'][n]:g}" if n in row["params"] else "–" for n in names]
                rows.append([method, str(row["split"]), *cells])
    return markdown(["", "split", "λ", "learning rate", "annotation weight", "C", "γ"], rows)


PAGE = "reproduction.md"

INTRODUCTION = """\
# The paper's experiments, repeated

Made by `supdocnade reproduce` from photographs, beside what the paper reports; every figure and
every verdict in the tables is computed from `results.json`. Figures are means over random
splits, with the standard deviation between splits in brackets. Hyper-parameters are chosen in every
split on a fifth of the training part that neither topic model nor SVM has seen, at 100 topics (the
45-topic configuration at 45), and kept for other numbers of topics; then everything is fitted again
on the whole training part. They are chosen for accuracy in tables of accuracy, and for the
F-measure in tables of annotation. All choices of method were made on a development pool; "outside
the pool" is the test part without its photographs, and claims rest on that alone. The paper had no
such pool: its full test part is given beside it.

A claim *holds* if two 95 % intervals lie above 0: one over photographs (paired bootstrap, 10,000
draws, all copies of a picture and all its appearances being one unit), one over splits (corrected
resampled t, Nadeau and Bengio 2003). Otherwise it is *not shown*, or *the reverse holds*.

Four recipes: *as in the paper*, its settings and nothing else; *200 words, patches of 32, step 16*,
its 45-topic configuration; *patches of little contrast shortened*, the first with shorter
descriptors for the tenth of the patches with the least contrast; and *ours*, from the pool: 500
words, patches of 16 and of 32 pixels, such descriptors shortened too, a photograph and its mirror
image as two documents whose answers are averaged, √counts beside topics for the SVM, and tags
ranked with what the classes say of them. The pool has 100 photographs of every class of Scene15 and
60 of LabelMe. LabelMe's tags are `tags_free`, the names people gave to objects, and `tags_33`, from
labelled pixels."""


def write_page(path: Path, folders: Sequence[Path]) -> None:
    """Write the page of some studies, with its figures beside it."""
    for name, content in make_page(folders).items():
        write_atomically(path.parent / name if name != PAGE else path, content.encode())


def make_page(folders: Sequence[Path], pictures: str = "") -> dict[str, str]:
    """Return the page and its figures, by their names.

    Parameters
    ----------
    folders : of studies with results.
    pictures : put before the names of figures, where they lie in a folder of their own.
    """
    sections = [INTRODUCTION]
    files: dict[str, str] = {}
    for folder in folders:
        kept = read_results(folder)
        section, figures = _section(kept, folder, pictures)
        sections.append(section)
        files |= {f"{pictures}{name}": text for name, text in figures.items()}
    return {PAGE: "\n\n".join(sections) + "\n", **files}


def _section(kept: Kept, folder: Path, pictures: str) -> tuple[str, dict[str, str]]:
    """Return everything about one data set."""
    spec = data_set(kept.dataset)
    blocks = [f"## {spec.title}", _made(kept)]
    found = targets(kept) if not kept.made["quick"] else []
    if found:
        blocks += ["### What was wanted", targets_table(found)]
    blocks += ["### What holds and what does not", claims_table(claims(kept))]
    name = f"{kept.dataset}-topics.svg"
    variants = f"{kept.dataset}-variants.svg"
    methods = [(SUP, "2×2"), (DOC, "2×2")]
    slda = [(SLDA, "2×2")] if any(s.method == SLDA for s in kept.scores) else []
    blocks += [
        "### 1. Accuracy against the number of topics",
        f"![Accuracy on {spec.title} against the number of topics]({pictures}{name})",
        topics_table(kept, [*methods, *slda]),
        without_topics(kept),
        "### 2. Variants",
        f"![Variants on {spec.title} against the number of topics]({pictures}{variants})",
        topics_table(kept, VARIANTS),
        without_topics(kept),
    ]
    figures = {
        name: _chart(
            kept, [*methods, *slda], f"{spec.title}: accuracy against the number of topics"
        ),
        variants: _chart(kept, VARIANTS, f"{spec.title}: variants of SupDocNADE"),
    }
    for recipe in TITLES:
        if any(s.recipe == recipe for s in kept.scores):
            title = "3. The 45-topic configuration" if recipe == "wan" else "All methods"
            blocks += [f"### {title}, {TITLES[recipe]}", accuracy_table(kept, recipe)]
    for tags in sorted({s.tags for s in kept.scores if s.tags and s.metric == F_MEASURE}):
        blocks += [f"### 4. Annotation: {tags}", tags_table(kept, tags)]
    if (folder / SHOWN).is_file():
        blocks.append(_shown(json.loads((folder / SHOWN).read_text())))
    blocks += [
        "### What was chosen",
        choices_table(kept),
        "### What the paper reports",
        reported_table(kept.dataset),
        "### What was left out",
        "\n".join(f"- {each}" for each in kept.made["cuts"]),
    ]
    return "\n\n".join(blocks), figures


def _made(kept: Kept) -> str:
    made, machines = kept.made, kept.made.get("machines", {})
    splits = [int(row.sum()) for row in kept.test_SB]
    seconds = made.get("seconds", {})
    spent = ", ".join(f"{stage} {_time(value)}" for stage, value in seconds.items())
    where = ", ".join(
        f"{stage} on {_device(each)} ({each['cpu']}, torch {each['torch']})"
        for stage, used in machines.items()
        for each in used
    )
    protocol = (
        "the stored pool and splits"
        if made["stored_protocol"]
        else "pool and splits drawn for these photographs"
    )
    tested = f"{min(splits)}" if min(splits) == max(splits) else f"{min(splits)} to {max(splits)}"
    quick = "**A quick run, to see that everything works: its figures mean nothing.** "
    return (
        f"{quick if made['quick'] else ''}{made['n_images']} photographs; {len(splits)} splits, "
        f"{kept.n_train} to learn from and {tested} to test; {protocol}. Made on: {where}. "
        f"Time: {spent}."
    )


def _device(machine: dict[str, Any]) -> str:
    exactly = f" with products in {machine['products']}" if "products" in machine else ""
    return f"{machine['device']}{exactly}"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _chart(kept: Kept, methods: Sequence[tuple[str, str]], title: str) -> str:
    lines = {}
    for method, grid in methods:
        points = []
        for series in sorted(kept.scores, key=lambda s: s.n_topics or 0):
            chosen_for = None if method == SLDA else ACCURACY
            wanted = Series("paper", method, series.n_topics, grid, ACCURACY, None, chosen_for)
            if series == wanted:
                means = 100 * split_means(outside(kept, series))
                spread = float(np.std(means, ddof=1)) if len(means) > 1 else 0.0
                points.append((int(series.n_topics or 0), float(means.mean()), spread))
        short = "sLDA, binary" if method == SLDA else method
        name = short if grid == "2×2" else f"{short}, {grid}"
        if points:
            lines[name] = points
    levels = {}
    for name, grid in ((RBF_SVM, "2×2"), (SPATIAL_PYRAMID, "pyramid")):
        series = Series("paper", name, None, grid, ACCURACY)
        if series in kept.scores:
            levels[name] = float(100 * split_means(outside(kept, series)).mean())
    return topic_chart(lines, levels, title=title, y_label="accuracy (%), outside the pool")


def _shown(shown: dict[str, Any]) -> str:
    """Return classes with their words and tags, and some predictions."""
    classes = [
        [label, ", ".join(map(str, found["words"])), ", ".join(found["tags"])]
        for label, found in shown["classes"].items()
    ]
    examples = [
        [
            each["photograph"],
            each["predicted"] + ("" if each["predicted"] == each["class"] else " (wrong)"),
            ", ".join(each["predicted_tags"]),
            ", ".join(each["tags"]),
        ]
        for each in shown["examples"]
    ]
    return "\n\n".join(
        [
            "### 5. Classes and their words",
            "The three topics with the largest weight for a class, averaged: the visual words and "
            f"the tags ({shown['tags']}) that excite them most, as in the paper. Pictures of the "
            "words are made of the photographs and stay in the folder of the run (`pictures`).",
            markdown(["class", "visual words", "tags"], classes),
            "Some test photographs of the first split, right and wrong:",
            markdown(["photograph", "class said", "tags said", "tags given"], examples),
        ]
    )
