"""The page of the experiments: tables and charts made from stored results alone."""

import json
import re
from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import escape

from experiments.common import markdown
from experiments.paper.claims import (
    HOLDS,
    REPORTED,
    Comparison,
    Interval,
    find_claims,
    find_targets,
    split_means,
)
from experiments.paper.data_sets import data_set
from experiments.paper.plans import (
    ACCURACY,
    ALL_WORDS,
    BASELINES,
    DOC,
    F_MEASURE,
    NO_WORDS,
    RBF_SVM,
    SEES_TAGS,
    SPACES,
    SPATIAL_PYRAMID,
    SUP,
    TAG_BASELINES,
    TAGGING_BASELINES,
    TITLES,
    TOPIC_BASELINES,
    baseline_grid,
)
from experiments.paper.results import OWN_SOFTMAX, QUALITATIVE, Results, Series, read_results
from supdocnade.storage import write_atomically

PAGE = "reproduction.md"

COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#5d3a9b", "#7f7f7f", "#56b4e9",
)  # fmt: skip
"""Colours of the lines of a chart, safe for colour-blind readers (Okabe and Ito)."""

MAX_TICKS = 7
LEGEND_WIDTH = 160
METHOD_OFFSET = 4
"""Pixels between the points of two methods at one number of topics, so that both stay visible."""

Methods = Sequence[tuple[str, str]]
"""Methods with their grids."""

VARIANTS = ((SUP, "2×2"), (NO_WORDS, "2×2"), (ALL_WORDS, "2×2"), (SUP, "1×1"), (SUP, "pyramid"))
POOL_COLUMNS = ["outside the pool", "paper's full test part"]

TITLE = "# The paper's experiments, repeated"

METHOD = """\
## How it was measured

`python -m experiments.paper` computes results and verdicts from stored predictions. Results are
means (standard deviations) over random splits. A claim *holds* if two 95 % intervals lie above 0:
one over photographs (paired bootstrap, 10,000 draws; near-duplicates are one unit) and one over
splits, which allows for their overlap (corrected resampled t, Nadeau and Bengio 2003).

Hyper-parameters are chosen in every split on a held-out fifth of the training part, at 100 topics
(the 45-topic configuration at 45), for accuracy or F-measure, whichever a table shows; then
everything is fitted again on the whole training part. Choices of method were made on a development
pool of 100 photographs per class of Scene15 and 60 of LabelMe. Claims rest on the test photographs
outside the pool; the paper's full test part is given beside them.

There are four recipes: *as in the paper*; *200 words, patches of 32, step 16*, its 45-topic
configuration; *patches of little contrast shortened*, the first with shorter descriptors for the
tenth of the patches with the least contrast; and *ours*, from the pool: 500 words, patches of 16
and of 32 pixels, shortened too, mirror images as documents of their own, √counts beside topics for
the SVM, and tags ranked by topics and predicted classes. LabelMe's tags are `tags_free`, the names
that people gave to objects, and `tags_33`, from labelled pixels."""

VERDICTS = {
    "classifies better than DocNADE": r"SupDocNADE above DocNADE, \d+ topics",
    "classifies better than sLDA": r"SupDocNADE above sLDA, \d+ topics",
    "classifies better than MMLDA": r"SupDocNADE above MMLDA, \d+ topics",
    "a tuned weight λ of the words is better than none (λ = 0)": r"tuned λ above λ = 0,.*",
    "a tuned λ is better than λ = 1": r"tuned λ above λ = 1,.*",
    "2 × 2 regions are better than none": r"2×2 above 1×1,.*",
    "45 topics: better than DocNADE": r"SupDocNADE above DocNADE, 45-topic configuration",
    "tags: better than DocNADE": r"as in the paper, \w+: SupDocNADE above DocNADE",
    "tags: better than sLDA": r"as in the paper, \w+: SupDocNADE above sLDA",
    "tags: better than MMLDA": r"as in the paper, \w+: SupDocNADE above MMLDA",
    "not in the paper: better than an SVM on √counts of the same words": (
        rf"as in the paper: SupDocNADE above {RBF_SVM}"
    ),
}
"""Claims of the paper about SupDocNADE, as patterns of the names of our comparisons."""

Claims = Sequence[tuple[str, Comparison]]


class Plot:
    """A plotting area, its two scales, and the SVG parts drawn so far.

    Parameters
    ----------
    margins : pixels on the left, right, top and bottom.
    padding : pixels between the sides of the area and the ends of the x scale.
    """

    def __init__(
        self,
        x_range: tuple[float, float],
        y_range: tuple[float, float],
        *,
        size: tuple[int, int] = (360, 250),
        margins: tuple[int, int, int, int] = (46, 14, 34, 44),
        padding: int = 0,
    ):
        self.x_range, self.y_range, self.padding = x_range, y_range, padding
        self.width, self.height = size
        self.left, right, self.top, bottom = margins
        self.right, self.bottom = self.width - right, self.height - bottom
        self.parts: list[str] = []

    def x(self, value: float) -> float:
        """Return the pixel of a number on the x scale."""
        low, high = self.x_range
        width = self.right - self.left - 2 * self.padding
        return self.left + self.padding + (value - low) / ((high - low) or 1) * width

    def y(self, value: float) -> float:
        """Return the pixel of a number on the y scale."""
        low, high = self.y_range
        return self.bottom - (value - low) / ((high - low) or 1) * (self.bottom - self.top)

    def path(self, d: str, style: str) -> None:
        """Draw an SVG path."""
        self.parts.append(f'<path d="{d}" {style}/>')

    def level(self, value: float, style: str) -> None:
        """Draw a horizontal line across the area."""
        self.path(f"M{self.left} {self.y(value):.1f}H{self.right}", style)

    def line(self, points: Sequence[tuple[float, float]], style: str) -> None:
        """Draw a line through pixels."""
        self.path("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), style)

    def bar(self, x: float, low: float, high: float, style: str) -> None:
        """Draw a vertical error bar at pixel x."""
        self.path(f"M{x:.1f} {self.y(low):.1f}V{self.y(high):.1f}", style)

    def dot(self, x: float, y: float, radius: float, style: str, title: str = "") -> None:
        """Draw a dot at a pixel."""
        tooltip = f"<title>{escape(title)}</title>" if title else ""
        self.parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" {style}>{tooltip}</circle>'
        )

    def text(self, x: float, y: float, text: str, anchor: str) -> None:
        """Write text at a pixel."""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def y_ticks(self, ticks: Mapping[float, str], style: str) -> None:
        """Draw a grid line with its label at every value."""
        for value, label in ticks.items():
            self.level(value, style)
            self.text(self.left - 6, self.y(value) + 4, label, "end")

    def x_tick(self, value: float, label: str, anchor: str = "middle") -> None:
        """Write a label below a number on the x scale."""
        self.text(self.x(value), self.bottom + 18, label, anchor)

    def svg(self, title: str, attributes: str, more: str = "") -> str:
        """Return the drawing as an SVG element."""
        return (
            f'<svg {attributes} viewBox="0 0 {self.width} {self.height}" role="img"{more}>'
            f"<title>{escape(title)}</title>{''.join(self.parts)}</svg>"
        )


def write_page(path: Path, folders: Sequence[Path]) -> None:
    """Write the page of some studies, and its charts into the same folder."""
    for name, content in make_page(folders).items():
        write_atomically(path.parent / name if name != PAGE else path, content.encode())


def make_page(folders: Sequence[Path], prefix: str = "", summary: str = "") -> dict[str, str]:
    """Return the page and its charts, by file name.

    Parameters
    ----------
    folders : of studies with results.
    prefix : folder of the charts, with a slash; "": that of the page.
    summary : text around the table of the paper's claims, which takes the place of `{claims}`.
    """
    sections = []
    files: dict[str, str] = {}
    claims: dict[str, Claims] = {}
    for folder in folders:
        results = read_results(folder)
        claims[results.dataset] = find_claims(results)
        section, figures = _section(results, claims[results.dataset], folder, prefix)
        sections.append(
            f"<!-- {folder.name}: begin -->\n\n{section}\n\n<!-- {folder.name}: end -->"
        )
        files |= {f"{prefix}{name}": text for name, text in figures.items()}
    head = (summary or "{claims}").replace("{claims}", verdicts_table(claims))
    return {PAGE: "\n\n".join([TITLE, head, METHOD, *sections]) + "\n", **files}


def verdicts_table(claims: Mapping[str, Claims]) -> str:
    """Return the paper's claims with our differences and verdicts, one column per data set."""
    rows = []
    for claim, pattern in VERDICTS.items():
        cells = [
            _verdict([each for text, each in found if re.fullmatch(pattern, text)])
            for found in claims.values()
        ]
        rows.append([claim, *cells])
    titles = [data_set(name).title for name in claims]
    return markdown(["SupDocNADE: difference in percentage points", *titles], rows)


def _verdict(comparisons: Sequence[Comparison]) -> str:
    """Return the range of some differences, and what they show."""
    if not comparisons:
        return "–"
    means = sorted(f"{100 * each.bootstrap.mean:+.1f}" for each in comparisons)
    means.sort(key=float)
    span = means[0] if means[0] == means[-1] else f"{means[0]} to {means[-1]}"
    verdicts = [each.verdict for each in comparisons]
    if len(set(verdicts)) == 1:
        return f"{span}: {verdicts[0]}"
    return f"{span}: holds in {verdicts.count(HOLDS)} of {len(verdicts)}"


def _section(
    results: Results, claims: Claims, folder: Path, prefix: str
) -> tuple[str, dict[str, str]]:
    """Return the section of one data set, most of it folded, and its charts."""
    spec = data_set(results.dataset)
    name, variants = f"{results.dataset}-topics.svg", f"{results.dataset}-variants.svg"
    others = {s.method for s in results.scores}
    methods = [(SUP, "2×2"), (DOC, "2×2")]
    methods += [(name, "2×2") for name in TOPIC_BASELINES if name in others]
    figures = {
        name: _chart(results, methods, f"{spec.title}: accuracy against the number of topics"),
        variants: _chart(results, VARIANTS, f"{spec.title}: variants of SupDocNADE"),
    }
    blocks = [
        f"## {spec.title}",
        _provenance(results),
        f"![Accuracy on {spec.title} against the number of topics]({prefix}{name})",
        _topics_table(results, methods),
        _baselines_sentence(results),
        _fold("all claims", [claims_table(claims)]),
    ]
    targets = find_targets(results) if not results.provenance["quick"] else []
    if targets:
        blocks.append(_fold("targets", [targets_table(targets)]))
    picture = f"![Variants on {spec.title} against the number of topics]({prefix}{variants})"
    blocks.append(_fold("variants", [picture, _topics_table(results, VARIANTS)]))
    for recipe in TITLES:
        if any(s.recipe == recipe for s in results.scores):
            title = "the 45-topic configuration" if recipe == "wan" else "all methods"
            blocks.append(_fold(f"{title}, {TITLES[recipe]}", [_accuracy_table(results, recipe)]))
    tag_sets = {s.tags for s in results.scores if s.tags and s.metric == F_MEASURE}
    blocks += [
        _fold(f"annotation, {tags}", [_tags_table(results, tags)]) for tags in sorted(tag_sets)
    ]
    if (folder / QUALITATIVE).is_file():
        qualitative = _qualitative(json.loads((folder / QUALITATIVE).read_text()))
        blocks.append(_fold("words and tags of the classes", qualitative))
    omissions = "\n".join(f"- {each}" for each in results.provenance["cuts"])
    blocks += [
        _fold("chosen hyper-parameters", [_chosen_table(results)]),
        _fold("numbers in the paper", [_reported_table(results.dataset)]),
        _fold("omissions", [omissions]),
    ]
    return "\n\n".join(blocks), figures


def _fold(title: str, blocks: Sequence[str]) -> str:
    """Return blocks that a reader opens by a click, on code hosts and on the site."""
    summary = f"<summary>{title[0].upper()}{title[1:]}</summary>"
    return "\n\n".join([f'<details markdown="1">\n{summary}', *blocks, "</details>"])


def _provenance(results: Results) -> str:
    """Return a paragraph on photographs, protocol, machines and times."""
    provenance = results.provenance
    n_test = sorted({int(row.sum()) for row in results.test_SB})
    seconds = provenance.get("seconds", {})
    spent = ", ".join(f"{stage} {_time(value)}" for stage, value in seconds.items())
    where = ", ".join(
        f"{stage} on {_device(each)} ({each['cpu']}, torch {each['torch']})"
        for stage, machines in provenance.get("machines", {}).items()
        for each in machines
    )
    stored = provenance["stored_protocol"]
    protocol = "the stored pool and splits" if stored else "new pool and splits"
    tested = f"{n_test[0]}" if len(n_test) == 1 else f"{n_test[0]} to {n_test[-1]}"
    added = ", ".join(provenance.get("added", []))
    later = f" Added later, on words that were learned again with the same settings: {added}."
    quick = "**A quick run, to see that everything works: its results mean nothing.** "
    return (
        f"{quick if provenance['quick'] else ''}{provenance['n_images']} photographs; "
        f"{len(results.test_SB)} splits, {provenance['n_train']} for training and {tested} for "
        f"testing; {protocol}. Made on: {where}. Time: {spent}.{later if added else ''}"
    )


def _device(machine: dict[str, Any]) -> str:
    products = f" with products in {machine['products']}" if "products" in machine else ""
    return f"{machine['device']}{products}"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _chart(results: Results, methods: Methods, title: str) -> str:
    lines = {}
    for method, grid in methods:
        points = []
        for n_topics in _topics(results):
            series = _by_topics(method, n_topics, grid)
            if series in results.scores:
                means = 100 * split_means(results, series)
                spread = float(np.std(means, ddof=1)) if len(means) > 1 else 0.0
                points.append((n_topics, float(means.mean()), spread))
        short = method.removesuffix(" + SVM")  # The legend is narrow.
        name = short if grid == "2×2" else f"{short}, {grid}"
        if points:
            lines[name] = points
    levels = {}
    for name, grid in ((RBF_SVM, "2×2"), (SPATIAL_PYRAMID, "pyramid")):
        series = Series("paper", name, None, grid, ACCURACY)
        if series in results.scores:
            levels[name] = float(100 * split_means(results, series).mean())
    return topic_chart(lines, levels, title=title, y_label="accuracy (%), outside the pool")


def _topics(results: Results) -> list[int]:
    """Return the numbers of topics that were tried with the recipe of the paper."""
    series = [s for s in results.scores if s.recipe == "paper" and s.metric == ACCURACY]
    return sorted({s.n_topics for s in series if s.n_topics})


def _by_topics(method: str, n_topics: int, grid: str) -> Series:
    return Series("paper", method, n_topics, grid, ACCURACY, None, ACCURACY)


def _qualitative(content: dict[str, Any]) -> list[str]:
    """Return the words and tags of classes, and some predictions."""
    classes = [
        [label, ", ".join(map(str, found["words"])), ", ".join(found["tags"])]
        for label, found in content["classes"].items()
    ]
    examples = [
        [
            each["photograph"],
            each["predicted"] + ("" if each["predicted"] == each["class"] else " (wrong)"),
            ", ".join(each["predicted_tags"]),
            ", ".join(each["tags"]),
        ]
        for each in content["examples"]
    ]
    return [
        "The three topics with the largest weight for a class, averaged: the visual words and "
        f"the tags ({content['tags']}) that excite them most, as in the paper. Pictures of the "
        "words are made of the photographs and stay in the folder of the run (`pictures`).",
        markdown(["class", "visual words", "tags"], classes),
        "Some test photographs of the first split, classified correctly and wrongly:",
        markdown(["photograph", "predicted class", "predicted tags", "tags"], examples),
    ]


def figure(results: Results, series: Series, *, full: bool = False) -> str:
    """Return mean (standard deviation) over splits in per cent; "–" if there are no scores."""
    if series not in results.scores:
        return "–"
    means = 100 * split_means(results, series, full=full)
    if len(means) < 2:
        return f"{means[0]:.1f}"
    return f"{means.mean():.1f} ({np.std(means, ddof=1):.1f})"


def _both(results: Results, series: Series) -> list[str]:
    """Return the results for POOL_COLUMNS."""
    return [figure(results, series), figure(results, series, full=True)]


def _topics_table(results: Results, methods: Methods) -> str:
    """Return the accuracy of methods by the number of topics."""
    topics = _topics(results)
    rows = [
        [f"{method}, {grid}", *(figure(results, _by_topics(method, n, grid)) for n in topics)]
        for method, grid in methods
    ]
    return markdown(["accuracy (%)", *(f"{n} topics" for n in topics)], rows)


def _accuracy_table(results: Results, recipe: str) -> str:
    """Return the accuracy of every method with one recipe, baselines last."""
    series = [
        s
        for s in results.scores
        if (s.recipe, s.metric, s.chosen_for) == (recipe, ACCURACY, ACCURACY)
    ]
    n_topics = max(s.n_topics or 0 for s in series)
    order = (SUP, DOC, NO_WORDS, ALL_WORDS, SEES_TAGS, *TOPIC_BASELINES)
    models = sorted(
        (s for s in series if s.n_topics == n_topics),
        key=lambda s: (order.index(s.method.removesuffix(OWN_SOFTMAX)), s),
    )
    rows = [[f"{s.method}, {s.n_topics} topics, {s.grid}", *_both(results, s)] for s in models]
    found = {s.method: s for s in results.scores if s.recipe == recipe}
    others = {name: found[name] for name in BASELINES if name in found}
    rows += [[f"{name}, {s.grid}", *_both(results, s)] for name, s in others.items()]
    # On Scene15 all that the paper reports in numbers is its 45-topic configuration.
    if recipe == ("wan" if results.dataset == "scene15" else "paper"):
        rows += _reported(results.dataset, ACCURACY)
    return markdown(["accuracy (%)", *POOL_COLUMNS], rows)


def _reported(dataset: str, metric: str) -> list[list[str]]:
    """Return the numbers that the paper reports, as rows of our tables."""
    return [
        [f"reported: {method}", "–", f"{value:g}"]
        for method, of_metric, value, _, _ in REPORTED[dataset]
        if of_metric == metric
    ]


def _baselines_sentence(results: Results) -> str:
    """Return the accuracy of the baselines, which have no topics, for the tables by topics."""
    parts = []
    for name in BASELINES:
        series = Series("paper", name, None, baseline_grid(name, "2×2"), ACCURACY)
        parts.append(f"{name} {figure(results, series)}")
    return f"Baselines without our topics, on the same words and splits: {'; '.join(parts)}."


def _tags_table(results: Results, tags: str) -> str:
    """Return the F-measure of every method on one tag set."""
    rows = []
    for recipe in ("paper", "ours"):
        found = [
            s
            for s in results.scores
            if (s.recipe, s.metric, s.tags, s.chosen_for) == (recipe, F_MEASURE, tags, F_MEASURE)
        ]
        order = (SUP, DOC, *TAGGING_BASELINES)
        for series in sorted(found, key=lambda s: order.index(s.method)):
            name = f"{series.method}, {series.n_topics} topics ({TITLES[recipe]})"
            accuracy = series._replace(metric=ACCURACY)
            rows.append([name, *_both(results, series), figure(results, accuracy)])
        rows += [
            [f"{name} ({TITLES[recipe]})", *_both(results, series), "–"]
            for name in TAG_BASELINES
            for series in results.scores
            if (series.recipe, series.method, series.tags) == (recipe, name, tags)
        ]
    rows += [
        [f"{name} (on its own tags)", *cells, "–"]
        for name, *cells in _reported(results.dataset, F_MEASURE)
    ]
    return markdown(["F-measure (%)", *POOL_COLUMNS, "accuracy (%)"], rows)


def _reported_table(dataset: str) -> str:
    names = {ACCURACY: "accuracy", F_MEASURE: "F-measure"}
    rows = [
        [method, names[metric], f"{value:g}", by, where]
        for method, metric, value, by, where in REPORTED[dataset]
    ]
    return markdown(["method", "", "reported (%)", "by", "where in the paper"], rows)


def claims_table(claims: Sequence[tuple[str, Comparison]]) -> str:
    """Return every claim with its differences and intervals, in percentage points."""
    rows = [
        [
            text,
            f"{100 * each.bootstrap.mean:+.2f}",
            " ".join(f"{100 * difference:+.1f}" for difference in each.differences),
            _interval(each.bootstrap),
            _interval(each.corrected_t),
            each.verdict,
        ]
        for text, each in claims
    ]
    header = [
        "", "mean difference", "per split", "95 %, over photographs", "95 %, over splits", "",
    ]  # fmt: skip
    return markdown(header, rows)


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return "–"
    return f"{100 * interval.low:+.2f} to {100 * interval.high:+.2f}"


def targets_table(targets: Sequence[tuple[str, float, float, float]]) -> str:
    """Return every target with the means that were reached."""
    rows = []
    for text, value, outside, full in targets:
        verdict = "reached" if outside >= value else "not reached"
        rows.append(
            [text, f"{100 * value:g}", f"{100 * outside:.2f}", f"{100 * full:.2f}", verdict]
        )
    return markdown(["", "target (%)", *POOL_COLUMNS, ""], rows)


def _chosen_table(results: Results) -> str:
    """Return what every split chose for accuracy, for all numbers of topics."""
    rows = {}
    names = {argument: argument for space in SPACES.values() for argument in space}
    names |= {"generative_weight": "λ", "C": "C", "gamma": "γ"}
    for method in (SUP, DOC, *TOPIC_BASELINES):
        for row in results.rows:
            same = (row["recipe"], row["method"], row["grid"], row["metric"])
            params = row["params"]
            if same == ("paper", method, "2×2", ACCURACY) and params["chosen_for"] == ACCURACY:
                chosen = ", ".join(f"{names[n]} {params[n]:g}" for n in names if n in params)
                rows[method, row["split"]] = [method, str(row["split"]), chosen]
    return markdown(["", "split", "chosen"], list(rows.values()))


def topic_chart(
    lines: Mapping[str, Sequence[tuple[int, float, float]]],
    levels: Mapping[str, float],
    *,
    title: str,
    y_label: str,
) -> str:
    """Return a chart of methods against the number of topics, as an SVG file of its own.

    Parameters
    ----------
    lines : the number of topics, mean and standard deviation of every point, per method; numbers
        of topics are evenly spaced.
    levels : methods without topics, drawn as dashed horizontal lines.
    """
    xs = sorted({x for points in lines.values() for x, _, _ in points})
    values = [mean + sign * sd for ps in lines.values() for _, mean, sd in ps for sign in (-1, 1)]
    values += list(levels.values())
    low, high = min(values), max(values)
    room = 0.05 * (high - low) or 1.0
    low, high = low - room, high + room
    margins = (56, 16 + LEGEND_WIDTH, 28, 46)
    plot = Plot((0, len(xs) - 1), (low, high), size=(640, 380), margins=margins, padding=20)
    plot.y_ticks(
        {tick: f"{tick:g}" for tick in _round_ticks(low, high)}, 'stroke="#8884" fill="none"'
    )
    for number, n_topics in enumerate(xs):
        plot.x_tick(number, str(n_topics))
    for number, name in enumerate([*lines, *levels]):
        colour = COLOURS[number % len(COLOURS)]
        stroke = f'stroke="{colour}"'
        dash = ' stroke-dasharray="5 4"' if name in levels else ""
        legend = plot.top + 10 + 19 * number
        plot.path(f"M{plot.right + 12} {legend}h18", f'{stroke} stroke-width="2"{dash}')
        plot.text(plot.right + 35, legend + 4, name, "start")
        if name in levels:
            plot.level(levels[name], f'{stroke} fill="none"{dash}')
            continue
        offset = METHOD_OFFSET * (number - (len(lines) - 1) / 2)
        places = [(plot.x(xs.index(x)) + offset, plot.y(mean)) for x, mean, _ in lines[name]]
        plot.line(places, f'{stroke} stroke-width="2" fill="none"')
        for (x, y), (n_topics, mean, sd) in zip(places, lines[name], strict=True):
            plot.bar(x, mean - sd, mean + sd, stroke)
            tooltip = f"{name}, {n_topics} topics: {mean:.1f} ± {sd:.1f}"
            plot.dot(x, y, 3.5, f'fill="{colour}"', tooltip)
    plot.text(plot.right, plot.height - 8, "topics", "end")
    plot.text(4, 14, y_label, "start")
    font = ' font-family="sans-serif" font-size="12" fill="#777"'
    return plot.svg(title, 'xmlns="http://www.w3.org/2000/svg"', font) + "\n"


def _round_ticks(low: float, high: float) -> list[float]:
    """Return at most MAX_TICKS round numbers between two others.

    >>> _round_ticks(71.3, 80.2)
    [72.0, 74.0, 76.0, 78.0, 80.0]
    """
    power = 10.0 ** floor(log10((high - low) / MAX_TICKS))
    for step in (power, 2 * power, 5 * power, 10 * power):
        first, last = ceil(low / step), floor(high / step)
        if last - first < MAX_TICKS:
            break
    return [round(number * step, 10) for number in range(first, last + 1)]
