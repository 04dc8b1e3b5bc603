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
from supdocnade.reproduction.page import PAGE, make_page
from supdocnade.reproduction.photosets import DATA_SETS
from supdocnade.reproduction.results import RESULTS

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
FIGURES = "figures/"


def files() -> dict[Path, str]:
    """Return the page and its figures, by where they belong."""
    folders = [HERE / name for name in DATA_SETS if (HERE / name / RESULTS).is_file()]
    made = make_page(folders, FIGURES)
    text = made.pop(PAGE)
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
