"""Replicated Softmax and DocNADE: perplexity of the same documents.

python -m experiments.replicated_softmax               # everything that is not in the results yet
python -m experiments.replicated_softmax MODEL ...     # the models of these names

20 Newsgroups and the LabelMe bags of the sLDA authors, 50 topics, and fifty test documents of each,
as Salakhutdinov and Hinton had. Settings are chosen on fifty documents of a tenth of the training
part. DocNADE is trained on a GPU if there is one: with a softmax it takes long on a CPU.
"""

import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from experiments.common import read_results, write_results
from experiments.data import class_slda, newsgroups
from supdocnade import DocNADE
from supdocnade.baselines import ReplicatedSoftmax

COMMAND = "python -m experiments.replicated_softmax"

N_DOCUMENTS = 50
HIDDEN = 50
SOFTMAX_GRID: list[dict[str, Any]] = [
    {"learning_rate": rate, "cd_steps": steps}
    for rate, steps in product((3e-3, 1e-2, 3e-2), (1, 5, 10))
]
DOCNADE_GRID: list[dict[str, Any]] = [
    {"activation": activation, "learning_rate": rate, "max_epochs": epochs}
    for activation, rate, epochs in product(("relu", "sigmoid"), (1e-3, 3e-3, 1e-2), (30, 100))
]
ANNEALING: dict[str, Any] = {"n_chains": 100, "n_temperatures": 500}


def softmax_perplexity(
    settings: dict[str, Any], train: sparse.csr_array, test: sparse.csr_array, **annealing: Any
) -> tuple[float, float]:
    model = ReplicatedSoftmax(HIDDEN, random_state=0, **settings).fit(train)
    return model.perplexity(test, **annealing)


def docnade_perplexity(
    output: str,
    settings: dict[str, Any],
    train: sparse.csr_array,
    test: sparse.csr_array,
    **annealing: Any,
) -> tuple[float, float]:
    device = "cuda" if torch.cuda.is_available() else "auto"
    model = DocNADE(HIDDEN, output=output, device=device, random_state=0, **settings).fit(train)
    return model.perplexity(test), 0.0


MODELS: dict[str, tuple[Callable[..., tuple[float, float]], list[dict[str, Any]]]] = {
    "DocNADE, tree": (partial(docnade_perplexity, "tree"), DOCNADE_GRID),
    "DocNADE, softmax": (partial(docnade_perplexity, "softmax"), DOCNADE_GRID),
    "Replicated Softmax": (softmax_perplexity, SOFTMAX_GRID),
}


def compare_likelihoods(
    measure: Callable[..., tuple[float, float]],
    grid: list[dict[str, Any]],
    train: sparse.csr_array,
    test: sparse.csr_array,
) -> dict[str, Any]:
    """Return the perplexity of some test documents, with the settings of the lowest on others."""
    order = np.random.default_rng(0).permutation(train.shape[0])
    cut = train.shape[0] // 10
    held_out, known = train[order[:cut][:N_DOCUMENTS]], train[order[cut:]]
    tried = [measure(settings, known, held_out)[0] for settings in grid]
    best = grid[int(np.argmin(tried))]
    value, error = measure(best, train, test, **ANNEALING)
    return {"settings": best, "validation": tried, "perplexity": value, "standard_error": error}


def fifty(counts: sparse.csr_array) -> sparse.csr_array:
    """Return fifty documents with words, the same ones in every run."""
    rows: NDArray[np.int64] = np.flatnonzero(np.asarray(counts.sum(axis=1)) > 0)
    return counts[np.sort(np.random.default_rng(1).permutation(rows)[:N_DOCUMENTS])]


def main() -> None:
    done: dict[str, Any] = read_results("replicated_softmax").get("models", {})
    bags = class_slda()
    texts = [each.counts[each.counts.sum(axis=1) > 0] for each in newsgroups()]
    for corpus, known, unseen in (
        ("LabelMe bags", bags[0].counts, bags[1].counts),
        ("20 Newsgroups", *texts),
    ):
        for model, (measure, grid) in MODELS.items():
            name = f"{corpus}, {model}"
            if name not in done and (not sys.argv[1:] or model in sys.argv[1:]):
                done[name] = compare_likelihoods(measure, grid, known, fifty(unseen))
                print(name, done[name], flush=True)
                write_results("replicated_softmax", COMMAND, {"models": done})


if __name__ == "__main__":
    main()
