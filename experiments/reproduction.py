"""Write docs/reproduction.md, and a table of docs/baselines.md, from stored results.

python -m experiments.reproduction            # write page and charts
python -m experiments.reproduction --check    # fail if they are not current

Results of `python -m experiments.paper` are read from experiments/scene15, experiments/labelme and
experiments/uiuc, if they exist:

python -m experiments.paper scene15 --data DIR --out experiments/scene15

or in stages. The second may run on another machine: copy `words`, `photographs.json` and
`protocol.json` there, and `predictions` and `seconds.json` back.

python -m experiments.paper scene15 --data DIR --out experiments/scene15 --stage words
python -m experiments.paper scene15 --out experiments/scene15 --stage models --device cuda
python -m experiments.paper scene15 --out experiments/scene15 --stage others
python -m experiments.paper scene15 --out experiments/scene15 --stage svms
python -m experiments.paper scene15 --out experiments/scene15 --stage page

Only results.json, predictions.safetensors, provenance.json and qualitative.json are committed. The
stage page keeps their results of methods whose predictions are not in the folder. All methods must
see the same words: those of the committed results were learned at commit 7b229052, which has
another k-means.
"""

import json
import sys
from pathlib import Path

from experiments.common import markdown
from experiments.paper.data_sets import DATA_SETS
from experiments.paper.page import PAGE, figure, make_page
from experiments.paper.plans import (
    ACCURACY,
    DOC,
    F_MEASURE,
    MMLDA_NAME,
    SLDA_NAME,
    SOFTMAX_SVM,
    SUP,
)
from experiments.paper.results import RESULTS, Series, read_results
from experiments.pool import LOG, pool_section

SUMMARY = """\
**Does the paper hold?** Every difference that it claims has its sign on both data sets that were
run. On Scene15 the advantage over sLDA holds; that over MMLDA is larger, but differs too much
between splits (6 to 15 points), as the settings chosen for MMLDA do. On LabelMe neither is shown:
three to five points for classes, less than one for tags. Over DocNADE it is one point, too little
for five splits to prove. An SVM on the counts of the same visual words, without topics, is one
point better than SupDocNADE.

**Not known:** UIUC-Sports, whose photographs were not available; the hybrid model that the paper
cites (70.1 % on Scene15), which is not described completely; F-measures on the paper's rawer tags.

**Reservations:** *The splits overlap:* training parts of two share a third to a half of their
photographs. *The development pool* comes from the same photographs; it does not count in tests,
but choices of method fit these data sets. *Settings of the baselines* are chosen like ours, among
up to 90 (sLDA, MMLDA: 12; SupDocNADE: up to 180). Chance has a part, with 160 (LabelMe) or 300
held-out photographs: default arguments, in earlier results, gave sLDA and MMLDA up to two points
more for classes, and two fewer for tags.

{claims}

Ranges are over 25 to 200 topics, or two sets of tags. *Not shown* means that one of two 95 %
intervals includes 0, not that the claim is false. The paper's 73.36 % on Scene15 with 45 topics are
reached (73.5 %). With 200 topics our MMLDA has 80.9 % on LabelMe (with default arguments 82.7 %,
published 81.47 %)."""

OURS = """\
## Our own recipe

It gains three points on LabelMe and five on Scene15, from mirror images and larger patches. SVMs on
counts gain nearly as much, since they see the same words: topics beside counts are level with
counts alone on Scene15 and half a point below on LabelMe. Ranking tags with classes, too, puts
SupDocNADE nearly two points of F above DocNADE, and level with one logistic regression per tag."""

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
FIGURES = "figures/"


def files() -> dict[Path, str]:
    """Return the page and its charts, by path."""
    folders = [HERE / name for name in DATA_SETS if (HERE / name / RESULTS).is_file()]
    figures = make_page(folders, FIGURES, SUMMARY if folders else "")
    text = figures.pop(PAGE)
    for name, spec in DATA_SETS.items():
        if HERE / name not in folders:
            text += f"\n## {spec.title}\n\nNot run yet.\n"
    if LOG.is_file():
        text += f"\n{OURS}\n\n{pool_section()}\n"
    pages = {DOCS / PAGE: text, **{DOCS / name: content for name, content in figures.items()}}
    if {"labelme", "scene15"} <= {each.name for each in folders}:
        baselines = DOCS / "baselines.md"
        before, begin, rest = baselines.read_text().partition("<!-- systems: begin -->\n")
        _, end, after = rest.partition("<!-- systems: end -->")
        pages[baselines] = f"{before}{begin}{systems_table(folders)}\n{end}{after}"
    return pages


def systems_table(folders: list[Path]) -> str:
    """Return the results of the paper's topic models on both data sets and on published corpora."""
    results = {each.name: read_results(each) for each in folders}
    perplexities = json.loads((HERE / "results/replicated_softmax.json").read_text())["models"]
    names = {
        SLDA_NAME: "SLDA",
        MMLDA_NAME: "MMLDA",
        SOFTMAX_SVM: "ReplicatedSoftmax",
        DOC: "DocNADE, tree",
        SUP: "SupDocNADE",
    }
    rows = []
    for method, model in names.items():
        cells = [
            figure(results[name], Series("paper", method, 200, "2×2", ACCURACY, None, ACCURACY))
            for name in ("labelme", "scene15")
        ]
        tags = Series("paper", method, 200, "2×2", F_MEASURE, "tags_free", F_MEASURE)
        cells.insert(1, figure(results["labelme"], tags))
        key = "Replicated Softmax" if method == SOFTMAX_SVM else model
        for corpus in ("LabelMe bags", "20 Newsgroups"):
            found = perplexities.get(f"{corpus}, {key}")
            cells.append(f"{found['perplexity']:.1f}" if found else "–")
        rows.append([f"`{model.partition(',')[0]}`", *cells])
    header = [
        "200 topics; perplexities: 50", "LabelMe, accuracy (%)", "LabelMe, F-measure (%)",
        "Scene15, accuracy (%)", "perplexity, LabelMe bags", "perplexity, 20 Newsgroups",
    ]  # fmt: skip
    return markdown(header, rows)


def main() -> None:
    for path, content in files().items():
        if "--check" not in sys.argv:
            path.parent.mkdir(exist_ok=True)
            path.write_text(content)
        elif not path.is_file() or path.read_text() != content:
            sys.exit(f"{path.name} is not current: run make reproduction-page.")


if __name__ == "__main__":
    main()
