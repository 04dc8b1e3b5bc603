"""Write the tables of docs/experiments.md and of the README from stored results.

python -m experiments.page            # write the tables
python -m experiments.page --check    # fail if a page is not current
"""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.common import update_page

from experiments.common import RESULTS, markdown, mean_and_spread
from experiments.novelty import SCORES
from experiments.peers import MODELS, WEIGHTS
from supdocnade.metrics import NORMAL_95

README = Path(__file__).parents[1] / "README.md"
PAGE = README.parent / "docs" / "experiments.md"


def load(name: str) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return results


def class_slda() -> str:
    results = load("class_slda")
    published = results["splits"]["published"]
    others = [split for name, split in results["splits"].items() if name != "published"]
    blocks = []
    for kind, scale, unit in (("perplexity", 1, ""), ("accuracy", 100, " (%)")):
        rows = []
        for method, value in published[kind].items():
            mean = mean_and_spread([scale * split[kind][method] for split in others] or [0.0])
            spread = f"{mean['mean']:.1f} ({mean['standard_deviation']:.1f})" if others else "–"
            rows.append([method, f"{scale * value:.1f}", spread])
        if kind == "accuracy":
            for method, record in results["slda"].items():
                rows.append([method, f"{100 * record['accuracy']:.1f}", "–"])
        random = f"{len(others)} random splits: mean (standard deviation)"
        blocks.append(markdown([f"{kind}{unit}", "published split", random], rows))
    seconds = {**published["seconds"]}
    seconds |= {name: record["seconds"] for name, record in results["slda"].items()}
    rows = [[name, f"{value:.0f}"] for name, value in seconds.items()]
    blocks.append(markdown(["training on the published split, two threads", "s"], rows))
    return "\n\n".join(blocks)


def tmn() -> str:
    results = load("tmn")
    rows = []
    for name, record in results["models"].items():
        if name == "unigram":
            rows.append([name, f"{record['perplexity']:.0f}", *["–"] * 6])
            continue
        values = record["perplexity"]
        rows.append(
            [
                f"DocNADE, {name}",
                f"{values['1']['mean_log']:.0f}",
                *(
                    f"{values[count][combine]:.0f}" if count in values else "–"
                    for count in ("16", "256")
                    for combine in ("mean_log", "log_mean")
                ),
                f"{record['precision']:.3f}",
                f"{100 * record['accuracy']:.1f}",
            ]
        )
    for name, record in results["published"].items():
        rows.append(
            [
                f"published: {name}",
                str(record["perplexity"]),
                *["–"] * 4,
                f"{record['precision']:.2f}",
                "–",
            ]
        )
    return markdown(
        [
            "model", "perplexity, 1 order", "16, mean of log", "16, log of mean",
            "256, mean of log", "256, log of mean", "precision at 0.02", "accuracy (%)",
        ],
        rows,
    )  # fmt: skip


def newsgroups() -> str:
    models = load("newsgroups")["models"]
    rows = [
        [name, f"{record['perplexity']:.0f}", str(record.get("fit seconds", "–"))]
        for name, record in models.items()
    ]
    return markdown(["model", "perplexity", "fit (s)"], rows)


RECORDED = [
    "the authors' program, 10 topics, recorded before, not repeated",
    "1",
    "67.9",
    "–",
    "195 (elapsed)",
]
"""Multi-class sLDA of its authors on the published split."""


def baselines() -> str:
    program = load("slda_program")["runs"]
    runs = {f"the authors' program, {name}": record for name, record in program.items()}
    runs |= load("baselines")["classes"]
    groups: dict[str, list[dict[str, float]]] = {}
    for name, record in runs.items():
        groups.setdefault(name.rsplit(", ", 1)[0], []).append(record)
    rows = [RECORDED]
    for name, records in groups.items():
        accuracy = mean_and_spread([100 * each["accuracy"] for each in records])
        perplexity = f"{_mean(records, 'perplexity'):.1f}" if "perplexity" in records[0] else "–"
        seconds = f"{_mean(records, 'cpu_seconds'):.1f}"
        spread = f" ({accuracy['standard_deviation']:.1f})" if len(records) > 1 else ""
        rows.append(
            [name, str(len(records)), f"{accuracy['mean']:.1f}{spread}", perplexity, seconds]
        )
    header = ["model", "seeds", "accuracy (%)", "perplexity (bound)", "CPU time of a fit (s)"]
    return markdown(header, rows)


def replicated_softmax() -> str:
    rows = [
        [
            name,
            f"{min(each['validation']):.1f}",
            f"{each['perplexity']:.1f}",
            f"{each['standard_error']:.2f}" if each["standard_error"] else "–",
            ", ".join(f"{key} {value}" for key, value in each["settings"].items()),
        ]
        for name, each in load("replicated_softmax")["models"].items()
    ]
    header = ["corpus and model", "held-out documents", "test", "standard error", "settings"]
    return markdown(header, rows)


def topic_coherence() -> str:
    corpora = load("topic_coherence")["corpora"]
    rows = []
    for name in next(iter(corpora.values())):
        cells = []
        for models, each in product(corpora.values(), ("coherence", "diversity")):
            values = models.get(name, {}).get(each, [])
            spread = mean_and_spread(values)["standard_deviation"] if values else 0.0
            several = f" ({spread:.2f})" if len(values) > 1 else ""
            cells.append(f"{np.mean(values):.2f}{several}" if values else "–")
        rows.append([name, *cells])
    figures = [f"{name}: {each}" for name in corpora for each in ("coherence", "diversity")]
    return markdown(["topics and their words", *figures], rows)


def peers() -> str:
    tables = []
    for corpus, models in load("peers")["corpora"].items():
        rows = []
        for name in sorted(models, key=list(MODELS).index):
            runs = list(models[name]["runs"].values())
            cells = [
                _mean_and_interval(runs, each, scale, digits)
                for each, _, scale, digits in _PEER_COLUMNS
            ]
            chosen = ", ".join(
                f"{key} {value:.2g}" if isinstance(value, float) else f"{key} {value}"
                for key, value in runs[0]["settings"].items()
            )
            rows.append([name, *cells, str(len(runs)), chosen or "–"])
        titles = [title for _, title, _, _ in _PEER_COLUMNS]
        tables.append(markdown([corpus, *titles, "seeds", "chosen"], rows))
    curves = list(load("peers")["weights"].values())
    rows = []
    for weight in ("none", *map(str, WEIGHTS)):
        perplexity, accuracy = np.mean([curve[weight] for curve in curves], axis=0)
        right = "–" if np.isnan(accuracy) else f"{100 * accuracy:.1f}"
        rows.append(["DocNADE" if weight == "none" else weight, f"{perplexity:.0f}", right])
    tables.append(markdown(["λ", "perplexity", "own classes (%)"], rows))
    return "\n\n".join(tables)


_PEER_COLUMNS = (
    ("perplexity", "perplexity", 1, 0),
    ("NPMI", "NPMI", 1, 2),
    ("c_v", "c_v", 1, 2),
    ("diversity", "diversity", 1, 2),
    ("logistic accuracy", "logistic regression (%)", 100, 1),
    ("own accuracy", "own classes (%)", 100, 1),
    ("fit seconds", "fit (s)", 1, 0),
    ("inference seconds", "inference (s)", 1, 2),
)


def _mean_and_interval(runs: list[dict[str, Any]], name: str, scale: float, digits: int) -> str:
    """Return the mean over runs, and the mean of the halves of their intervals, if any."""
    values = [run[name] for run in runs if name in run]
    if not values:
        return "–"
    if not isinstance(values[0], list):
        return f"{scale * np.mean(values):.{digits}f}"
    mean, half = scale * np.mean(values, axis=0)
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def topic_tags() -> str:
    rows = [
        [
            name,
            str(record["topics"]),
            f"{100 * record['share_right']:.0f}",
            f"{100 * record['mean_excess']:.0f}",
            f"{record['diversity']:.2f}",
        ]
        for name, record in load("topic_tags")["topics"].items()
    ]
    header = ["topics and their tags", "topics", "right (%)", "more frequent by (%)", "diversity"]
    return markdown(header, rows)


def novelty() -> str:
    rows = []
    runs = list(load("novelty")["runs"].values())
    for features in dict.fromkeys(run["features"] for run in runs):
        same = [run for run in runs if run["features"] == features]
        cells = []
        for name in SCORES:
            area = mean_and_spread([run["area"][name] for run in same])
            cells.append(f"{area['mean']:.2f} ({area['standard_deviation']:.2f})")
        for name, part in product(("unfamiliar", "unsure"), ("known", "unknown")):
            cells.append(f"{100 * _mean([run['flagged'][name] for run in same], part):.0f}")
        rows.append([features, *cells])
    header = [
        "features", "AUROC, likelihood", "nearest photographs", "classes", "logit",
        "probability of the class",
        "unlike, known classes (%)", "left out (%)", "unsure, known classes (%)", "left out (%)",
    ]  # fmt: skip
    return markdown(header, rows)


def suggestions() -> str:
    results = load("suggestions")
    rows = []
    for pool, found in results["pools"].items():
        for name, rounds in found["choices"].items():
            for figure, title in (("accuracy", "accuracy"), ("f_measure", "F-measure")):
                cells = [
                    f"{100 * each[figure]['mean']:.1f} "
                    f"({100 * each[figure]['standard_deviation']:.1f})"
                    for each in rounds
                ]
                rows.append([pool, name, title, *cells])
    header = ["pool", "chosen", "%", *(f"{number} labels" for number in results["labels"])]
    return markdown(header, rows)


def visual_words() -> str:
    results = load("visual_words")["results"]
    rows = []
    for name in ("Scene15", "LabelMe"):
        for n_words in (240, 1000):
            for percentile, text in ((0, "no"), (15, "below the 15th percentile")):
                runs = [
                    record
                    for key, record in results.items()
                    if key.startswith(f"{name}, ")
                    and key.endswith(f", {n_words} words, percentile {percentile}")
                ]
                if not runs:
                    continue
                cells = []
                for grid in ("1×1", "2×2", "pyramid"):
                    mean = mean_and_spread([100 * run[grid]["accuracy"] for run in runs])
                    cells.append(f"{mean['mean']:.1f} ({mean['standard_deviation']:.1f})")
                rows.append([name, str(n_words), text, str(len(runs)), *cells])
    header = ["images", "words", "patches shortened", "splits", "1×1", "2×2", "pyramid 1, 2, 4"]
    return markdown(header, rows)


def labelme_product() -> str:
    rows, stages = [], []
    for features, runs in load("labelme_product")["runs"].items():
        measured = {name: {**run["evaluated"], **run} for name, run in runs.items()}
        names = [name for name, *_ in _PRODUCT_COLUMNS]
        found = list(measured.values())
        measured["mean"] = {name: _mean(found, name) for name in names}
        for label, record in measured.items():
            cells = [
                f"{scale * record[name]:.{digits}f}" for name, _, scale, digits in _PRODUCT_COLUMNS
            ]
            rows.append([f"{features}, {label}", *cells])
        for stage in next(iter(runs.values()))["trained"]["seconds"]:
            seconds = [run["trained"]["seconds"][stage] for run in runs.values()]
            stages.append([features, stage, *(f"{each:.1f}" for each in seconds)])
    header = ["", *(title for _, title, _, _ in _PRODUCT_COLUMNS)]
    return markdown(header, rows) + "\n\n" + markdown(["features", "stage (s)", *runs], stages)


_PRODUCT_COLUMNS = (
    ("accuracy", "accuracy (%)", 100, 1),
    ("f_measure", "F, five tags", 1, 3),
    ("f_measure_of_given", "F, tags given", 1, 3),
    ("class_calibration_error", "calibration error, class (%)", 100, 1),
    ("tag_calibration_error", "tags (%)", 100, 1),
    ("train_seconds", "training (s)", 1, 0),
)


def network_splits() -> str:
    columns = [
        ("labelme", "right", "LabelMe (%)"),
        ("labelme", "tags_free", "F, free tags (%)"),
        ("labelme", "tags_33", "F, 33 tags (%)"),
        ("scene15", "right", "Scene15 (%)"),
    ]
    found = load("network_splits")["data_sets"]
    tables = []
    for title, describe in (
        ("outside the pool", _with_difference),
        ("all test photographs", lambda record: f"{100 * record['mean']:.1f}"),
    ):
        rows = []
        for method in found["labelme"]["compared"]["right"]:
            records = (found[name]["compared"][figure].get(method) for name, figure, _ in columns)
            rows.append([method, *("–" if each is None else describe(each) for each in records)])
        tables.append(markdown([title, *(column for _, _, column in columns)], rows))
    return "\n\n".join(tables)


def _with_difference(record: dict[str, Any]) -> str:
    """Return a mean, and the interval of how far the model is above it."""
    mean = f"{100 * record['outside']:.1f}"
    if "photographs" not in record:
        return f"**{mean}**"
    difference, low, high = (100 * value for value in record["photographs"])
    return f"{mean} ({difference:+.1f}: {low:+.1f} to {high:+.1f})"


_ALTERNATIVES = {
    "last depth, logistic regression": "the network's last map, logistic regression",
    "three depths, logistic regression": "three maps, logistic regression",
    "three depths, RBF SVM": "three maps, RBF SVM",
    "√counts and three depths, RBF SVM": "our words and three maps, RBF SVM",
}
"""Methods of `network_splits` beside ours that the README shows, with their names there."""


def photographs() -> str:
    found = load("network_splits")["data_sets"]
    ours = next(iter(found["labelme"]["compared"]["right"]))
    columns = (("labelme", "right"), ("scene15", "right"), ("labelme", "tags_free"))
    rows = []
    for method, title in {ours: "**supdocnade**", **_ALTERNATIVES}.items():
        records = [found[name]["compared"][figure].get(method) for name, figure in columns]
        cells = ["–" if each is None else f"{100 * each['outside']:.1f}" for each in records]
        rows.append([title, *cells])
    header = ["%", "LabelMe, accuracy", "Scene15, accuracy", "LabelMe, F-measure of five tags"]
    return markdown(header, rows)


_TEXT_MODELS = {
    "**supdocnade**": ("DocNADE.for_texts", "SupDocNADE.for_texts"),
    **{
        name: (name, name)
        for name in (
            "NMF of tf-idf, scikit-learn", "LDA, scikit-learn", "LDA, tomotopy", "LDA, gensim",
            "ProdLDA",
        )
    },
}  # fmt: skip
"""Rows of the table of texts, with the models of 20 Newsgroups and of TagMyNews."""


def texts() -> str:
    corpora = load("peers")["corpora"]
    rows, fastest = [], 0.0
    for title, (of_news, of_classes) in _TEXT_MODELS.items():
        news = list(corpora["20 Newsgroups"][of_news]["runs"].values())
        classes = list(corpora["TagMyNews"][of_classes]["runs"].values())
        seconds = np.mean([run["inference seconds"] for run in news])
        fastest = fastest or seconds
        rows.append(
            [
                title,
                _mean_and_interval(news, "perplexity", 1, 0),
                _mean_and_interval(news, "NPMI", 1, 2),
                _mean_and_interval(classes, "logistic accuracy", 100, 1),
                f"{seconds / fastest:.0f}",
            ]
        )
    header = [
        "", "20 Newsgroups, perplexity", "NPMI", "TagMyNews, accuracy (%)",
        "time for a new document, ratio",
    ]  # fmt: skip
    return markdown(header, rows)


def explanations() -> str:
    rows = [
        [
            name,
            f"{record['fall_supporting']:.2f}",
            f"{record['fall_random']:.2f}",
            f"{record['difference']:.2f} ± {NORMAL_95 * record['standard_error']:.2f}",
            f"{100 * record['share_larger']:.0f}",
        ]
        for name, record in load("explanations")["features"].items()
    ]
    return markdown(
        ["features", "most supporting", "random", "difference", "larger (% of photographs)"], rows
    )


def batch_size() -> str:
    results = load("batch_size")
    rows = [
        [
            name,
            f"{record['learning_rate']:.2g}",
            str(record["updates"]),
            f"{record['perplexity']:.0f}",
            f"{100 * record['accuracy']:.1f}",
        ]
        for name, record in sorted(results["tmn"].items(), key=_batch_and_rate)
    ]
    texts = markdown(["TagMyNews: batch", "rate", "updates", "perplexity", "accuracy (%)"], rows)
    rows = [
        [
            name,
            f"{record['learning_rate']:.2g}",
            str(record["updates"]),
            f"{record['perplexity']['mean']:.0f}",
            *(
                f"{100 * record[each]['mean']:.1f} ({100 * record[each]['standard_deviation']:.1f})"
                for each in ("softmax", "svm")
            ),
        ]
        for name, record in sorted(results["labelme"].items(), key=_batch_and_rate)
    ]
    header = ["LabelMe: batch", "rate", "updates", "perplexity", "softmax (%)", "SVM (%)"]
    return texts + "\n\n" + markdown(header, rows)


def _batch_and_rate(trial: tuple[str, dict[str, Any]]) -> tuple[int, float]:
    return trial[1]["batch_size"], trial[1]["learning_rate"]


def _mean(records: list[dict[str, Any]], name: str) -> float:
    return mean_and_spread([record[name] for record in records])["mean"]


SECTIONS = {
    "peers": peers,
    "labelme_product": labelme_product,
    "novelty": novelty,
    "suggestions": suggestions,
    "class_slda": class_slda,
    "baselines": baselines,
    "replicated_softmax": replicated_softmax,
    "tmn": tmn,
    "newsgroups": newsgroups,
    "topic_coherence": topic_coherence,
    "topic_tags": topic_tags,
    "visual_words": visual_words,
    "network_splits": network_splits,
    "explanations": explanations,
    "batch_size": batch_size,
}


README_SECTIONS = {"photographs": photographs, "texts": texts}


def main() -> None:
    for page, sections in ((PAGE, SECTIONS), (README, README_SECTIONS)):
        update_page(page, {name: make() for name, make in sections.items()})


if __name__ == "__main__":
    main()
