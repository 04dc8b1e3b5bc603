"""Put the results of `supdocnade reproduce` into docs/reproduction.md.

python -m experiments.reproduction            # write page and figures
python -m experiments.reproduction --check    # fail if they are not current

Results come from experiments/scene15, experiments/labelme and experiments/uiuc, where they are:

supdocnade reproduce scene15 --data DIR --out experiments/scene15

or in stages, of which the second may run on another machine. It needs of the folder `words`,
`photographs.json` and `protocol.json`; `answers` and `seconds.json` come back.

supdocnade reproduce scene15 --data DIR --out experiments/scene15 --stage words
supdocnade reproduce scene15 --out experiments/scene15 --stage models --device cuda
supdocnade reproduce scene15 --out experiments/scene15 --stage others
supdocnade reproduce scene15 --out experiments/scene15 --stage page

Only results.json, answers.safetensors, made.json and shown.json of such a folder are committed.
"""

import sys
from pathlib import Path

from experiments.pool_log import LOG, pool_section
from supdocnade.paper.data_sets import DATA_SETS
from supdocnade.paper.page import PAGE, make_page
from supdocnade.paper.results import RESULTS

READING = """\
## What to make of it

This section is written by hand. The paper's order shows in the means of both data sets: SupDocNADE
above DocNADE at every number of topics; a tuned λ above λ = 0 and above λ = 1 at 200 topics; 2×2
above 1×1; for SupDocNADE with 2×2 more topics above fewer. But for the regions the differences are
about a point, and training parts of two splits overlap by a third to a half: by the interval over
splits only 2×2 above 1×1 on Scene15 is beyond doubt. The 45-topic configuration reaches the paper's
figure.

What the paper did not compare with does better than its model: on the very same words an RBF SVM
on the square roots of the counts, without any topics, is a point above SupDocNADE on both data
sets, spatial pyramid matching one and a half to two; LDA with an SVM is three to six below. Part of
it may be the search: settings are chosen on 160 or 300 photographs, for topic models among up to
180 combinations of model and SVM, for an SVM on counts among fifteen, and what was chosen differs
from split to split (see below).

Our own recipe gains three points on LabelMe and five on Scene15, from mirror images and larger
patches; its yardsticks gain nearly as much, since they see the same words. Topics beside counts
are level with counts alone on Scene15 and half a point below on LabelMe: "above every yardstick"
does not hold. Ranking tags with classes puts SupDocNADE nearly two points above DocNADE, and level
with a logistic regression for every tag. The F-measure that was wanted, 0.58, was not reached;
counts are not damped here, for accuracy's sake, though on the pool damped ones ranked tags better
by themselves. The paper's own F-measures are on other, rawer tags: they cannot be compared.
"""

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
FIGURES = "figures/"


def files() -> dict[Path, str]:
    """Return the page and its figures, by where they belong."""
    folders = [HERE / name for name in DATA_SETS if (HERE / name / RESULTS).is_file()]
    made = make_page(folders, FIGURES)
    text = made.pop(PAGE)
    if folders:
        introduction, first, others = text.partition("\n## ")
        text = f"{introduction}\n{READING}{first}{others}"
    for name, spec in DATA_SETS.items():
        if HERE / name not in folders:
            text += f"\n## {spec.title}\n\nNot run yet.\n"
    if LOG.is_file():
        text += f"\n{pool_section()}\n"
    return {DOCS / PAGE: text, **{DOCS / name: content for name, content in made.items()}}


def main() -> None:
    for path, content in files().items():
        if "--check" not in sys.argv:
            path.parent.mkdir(exist_ok=True)
            path.write_text(content)
        elif not path.is_file() or path.read_text() != content:
            sys.exit(f"{path.name} is not current: run make reproduction-page.")


if __name__ == "__main__":
    main()
