"""Write docs/reproduction.md, and a table of docs/baselines.md, from stored results.

python -m experiments.reproduction            # write page and figures
python -m experiments.reproduction --check    # fail if they are not current

Results of `python -m experiments.paper` are read from experiments/scene15, experiments/labelme and
experiments/uiuc, if they exist:

python -m experiments.paper scene15 --data DIR --out experiments/scene15

or in stages, of which the second may run on another machine: copy `words`, `photographs.json` and
`protocol.json` there, and `predictions` and `seconds.json` back.

python -m experiments.paper scene15 --data DIR --out experiments/scene15 --stage words
python -m experiments.paper scene15 --out experiments/scene15 --stage models --device cuda
python -m experiments.paper scene15 --out experiments/scene15 --stage others
python -m experiments.paper scene15 --out experiments/scene15 --stage page

Only results.json, predictions.safetensors, provenance.json and qualitative.json are committed. The
stage page keeps their results of methods whose predictions are not in the folder.
"""

import json
import sys
from pathlib import Path

from experiments.common import markdown
from experiments.paper.data_sets import DATA_SETS
from experiments.paper.page import PAGE, figure, make_page
from experiments.paper.plans import ACCURACY, DOC, F_MEASURE, SOFTMAX_SVM, SUP, TOPIC_BASELINES
from experiments.paper.results import RESULTS, Series, read_results
from experiments.pool import LOG, pool_section

DISCUSSION = """\
## Discussion

This section is written by hand. The means of both data sets have the paper's order: SupDocNADE
above DocNADE at every number of topics; a tuned λ above λ = 0 and above λ = 1 at 200 topics; 2×2
above 1×1; for SupDocNADE with 2×2, more topics above fewer. Except for the regions, the differences
are about one point, and the training parts of two splits overlap by a third to a half: by the
interval over splits only 2×2 above 1×1 on Scene15 is beyond doubt. The 45-topic configuration
reaches the paper's figure.

The other topic models of the paper are below SupDocNADE in every mean. On Scene15 all of these
differences are beyond doubt: seven to eight points to sLDA and MMLDA, nine to nineteen to
Replicated Softmax with an SVM. On LabelMe sLDA and MMLDA are one to three points below, which the
interval over photographs shows and that over splits mostly does not; tags are ranked 2.6 to 2.8
points better, which both show. MMLDA with 200 topics has 82.7 %, more than the reported 81.47 %.
sLDA and MMLDA have default arguments, whereas those of SupDocNADE are chosen in every split.

Baselines that the paper did not compare with do better than its model: on the same words an RBF SVM
on the square roots of the counts, without any topics, is one point above SupDocNADE on both data
sets, and spatial pyramid matching one and a half to two; LDA with an SVM is three to six points
below. The search may explain a part: settings are chosen on 160 or 300 photographs, for topic
models among up to 180 combinations of model and SVM, for an SVM on counts among fifteen, and the
choice differs between splits (see below).

Our own recipe gains three points on LabelMe and five on Scene15, from mirror images and larger
patches; its baselines gain nearly as much, since they see the same words. Topics besides counts are
level with counts alone on Scene15 and half a point below on LabelMe: "above every baseline" does
not hold. Ranking tags with classes puts SupDocNADE nearly two points above DocNADE, and level with
one logistic regression per tag. The target of 0.58 for the F-measure was not reached; counts are
not damped here, for the sake of accuracy, although damped counts alone ranked tags better on the
pool. The paper's own F-measures are on other, rawer tags and cannot be compared.
"""

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
FIGURES = "figures/"


def files() -> dict[Path, str]:
    """Return the page and its figures, by path."""
    folders = [HERE / name for name in DATA_SETS if (HERE / name / RESULTS).is_file()]
    figures = make_page(folders, FIGURES)
    text = figures.pop(PAGE)
    if folders:
        introduction, first, others = text.partition("\n## ")
        text = f"{introduction}\n{DISCUSSION}{first}{others}"
    for name, spec in DATA_SETS.items():
        if HERE / name not in folders:
            text += f"\n## {spec.title}\n\nNot run yet.\n"
    if LOG.is_file():
        text += f"\n{pool_section()}\n"
    pages = {DOCS / PAGE: text, **{DOCS / name: content for name, content in figures.items()}}
    if {"labelme", "scene15"} <= {each.name for each in folders}:
        baselines = DOCS / "baselines.md"
        before, begin, rest = baselines.read_text().partition("<!-- systems: begin -->\n")
        _, end, after = rest.partition("<!-- systems: end -->")
        pages[baselines] = f"{before}{begin}{systems_table(folders)}\n{end}{after}"
    return pages


def systems_table(folders: list[Path]) -> str:
    """Return the figures of the paper's topic models on both data sets and on published corpora."""
    results = {each.name: read_results(each) for each in folders}
    perplexities = json.loads((HERE / "results/replicated_softmax.json").read_text())["models"]
    names = {"sLDA": "SLDA", SOFTMAX_SVM: "ReplicatedSoftmax", DOC: "DocNADE, tree"}
    rows = []
    for method in (*TOPIC_BASELINES, DOC, SUP):
        chosen = None if method in TOPIC_BASELINES else ACCURACY
        cells = [
            figure(results[name], Series("paper", method, 200, "2×2", ACCURACY, None, chosen))
            for name in ("labelme", "scene15")
        ]
        chosen = chosen and F_MEASURE
        tags = Series("paper", method, 200, "2×2", F_MEASURE, "tags_free", chosen)
        cells.insert(1, figure(results["labelme"], tags))
        key = "Replicated Softmax" if method == SOFTMAX_SVM else names.get(method, method)
        for corpus in ("LabelMe bags", "20 Newsgroups"):
            found = perplexities.get(f"{corpus}, {key}")
            cells.append(f"{found['perplexity']:.1f}" if found else "–")
        rows.append([f"`{names.get(method, method).partition(',')[0]}`", *cells])
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
