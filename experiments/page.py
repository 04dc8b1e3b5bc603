"""Put the results of experiments/results/ into docs/experiments.md.

python -m experiments.page            # write them
python -m experiments.page --check    # fail if the page is not current
"""

import json
import sys
from pathlib import Path
from typing import Any

from experiments.common import RESULTS

PAGE = Path(__file__).parents[1] / "docs" / "experiments.md"


def load(name: str) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return results


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def class_slda() -> str:
    results = load("class_slda")
    published, summary = results["splits"]["published"], results["summary"]
    blocks = []
    for kind, scale, digits in (("perplexity", 1, 1), ("accuracy", 100, 1)):
        rows = []
        for method, mean in summary[kind].items():
            rows.append(
                [
                    method,
                    f"{scale * published[kind][method]:.{digits}f}",
                    f"{scale * mean['mean']:.{digits}f} ± {scale * mean['standard_error']:.1f}",
                ]
            )
        if kind == "accuracy":
            for method, record in results["slda"].items():
                rows.append([method, f"{100 * record['accuracy']:.1f}", "–"])
        unit = " (%)" if kind == "accuracy" else ""
        blocks.append(
            table([f"{kind}{unit}", "published split", f"mean of {len(results['splits'])}"], rows)
        )
    seconds = {**published["seconds"]}
    seconds |= {name: record["seconds"] for name, record in results["slda"].items()}
    blocks.append(
        table(["time on the published split", "s"], [[k, f"{v:.0f}"] for k, v in seconds.items()])
    )
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
                    f"{values[count][combine]:.0f}"
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
    return table(
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
    return table(["model", "perplexity", "fit (s)"], rows)


SECTIONS = {"class_slda": class_slda, "tmn": tmn, "newsgroups": newsgroups}


def main() -> None:
    text = current = PAGE.read_text()
    for name, make in SECTIONS.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, rest = current.split(begin)
        _, after = rest.split(end)
        body = make() if (RESULTS / f"{name}.json").exists() else "Not measured yet."
        current = f"{before}{begin}\n{body}\n{end}{after}"
    if "--check" not in sys.argv:
        PAGE.write_text(current)
    elif current != text:
        sys.exit(f"{PAGE.name} is not current: run python -m experiments.page")


if __name__ == "__main__":
    main()
