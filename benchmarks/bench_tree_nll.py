"""Benchmark of the tree likelihood and all its gradients, compared with plain torch.

python -m benchmarks.bench_tree_nll
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from benchmarks.baselines import torch_gather
from benchmarks.common import Timing, alternate, print_table, write_results
from supdocnade.likelihood.contract import Batch, Parameters
from supdocnade.likelihood.operations import tree_nll, use_backend
from supdocnade.tree import WordTree

N_WORDS, N_TOPICS, LENGTH, BATCH = 1160, 200, 961, 16
COMPARISONS = 5


class Case(NamedTuple):
    """Documents of equal length over equally frequent words, the worst case for caches."""

    word_ids_BD: torch.Tensor
    parameters: Parameters
    tree: WordTree

    @classmethod
    def draw(cls, n_documents: int, n_words: int) -> "Case":
        rng = np.random.default_rng(0)

        def normal(spread: float, *shape: int) -> torch.Tensor:
            drawn = rng.normal(0, spread, shape).astype(np.float32)
            return torch.from_numpy(drawn).requires_grad_()

        return cls(
            torch.from_numpy(rng.integers(0, n_words, (n_documents, LENGTH))),
            Parameters(
                normal(0.01, n_words, N_TOPICS),
                normal(0.01, N_TOPICS),
                normal(0.1, n_words - 1, N_TOPICS),
                normal(0.1, n_words - 1),
            ),
            WordTree.random(n_words, rng),
        )

    def package(self, backend: str) -> Callable[[], None]:
        """Return a call of the package's operation."""
        n_documents = len(self.word_ids_BD)
        offsets = torch.arange(n_documents + 1) * LENGTH
        batch = Batch(self.word_ids_BD.flatten().int(), offsets)

        def run() -> None:
            self.clear()
            with use_backend(backend):
                terms = tree_nll(batch, self.parameters, self.tree)
            terms.nll_B.sum().backward()  # type: ignore[no-untyped-call]

        return run

    def baseline(self) -> Callable[[], None]:
        """Return a call of the plain torch baseline."""
        nodes, signs = self.tree.paths
        nodes_KL, signs_KL = torch.from_numpy(nodes).long(), torch.from_numpy(signs).float()

        def run() -> None:
            self.clear()
            nll_B = torch_gather.tree_nll(self.word_ids_BD, nodes_KL, signs_KL, *self.parameters)
            nll_B.sum().backward()  # type: ignore[no-untyped-call]

        return run

    def clear(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None


def compare_with_torch() -> dict[str, object]:
    """Compare with plain torch several times, because the load of the machine varies."""
    case = Case.draw(BATCH, N_WORDS)
    variants = {
        "torch_gather": case.baseline(),
        "vectorized": case.package("vectorized"),
        "cpu": case.package("cpu"),
    }
    comparisons = [alternate(variants) for _ in range(COMPARISONS)]
    comparisons.sort(key=_speed_up)
    timings = comparisons[COMPARISONS // 2]
    baseline = timings["torch_gather"].median
    rows = [
        [name, _ms(t, BATCH), f"{t.spread / BATCH * 1e3:.3f}", f"{baseline / t.median:.1f}×"]
        for name, t in timings.items()
    ]
    print_table(
        f"{LENGTH} words × {N_TOPICS} topics × {N_WORDS} leaves, batch {BATCH}, "
        f"{torch.get_num_threads()} threads",
        ["variant", "ms/document", "spread", "speed-up"],
        rows,
    )
    ratios = [_speed_up(each) for each in comparisons]
    listed = ", ".join(f"{ratio:.1f}" for ratio in ratios)
    print(f"cpu in all {COMPARISONS} comparisons: {listed} times as fast; above, the median one")
    return {
        "ms_per_document": {name: t.median / BATCH * 1e3 for name, t in timings.items()},
        "cpu_over_torch_gather": _speed_up(timings),
        "cpu_over_torch_gather_of_all_comparisons": ratios,
        "vectorized_time_over_torch_gather": timings["vectorized"].median / baseline,
    }


def _speed_up(timings: dict[str, Timing]) -> float:
    return timings["torch_gather"].median / timings["cpu"].median


def compare_vocabularies() -> dict[str, object]:
    """Measure the time per document for vocabularies of increasing size."""
    results: dict[str, object] = {}
    small = alternate({f"{n}": Case.draw(BATCH, n).package("cpu") for n in (N_WORDS, 8_200)})
    large = alternate({f"{n}": Case.draw(64, n).package("cpu") for n in (1_000, 100_000)})
    rows = []
    for batch, timings, limit in ((BATCH, small, 2.0), (64, large, 4.0)):
        (_, first), (name, second) = timings.items()
        ratio = second.median / first.median
        results[f"time_at_{name}_over_{next(iter(timings))}_batch_{batch}"] = ratio
        for leaves, timing in timings.items():
            share = f"{timing.median / first.median:.2f} (limit {limit:g})"
            rows.append([leaves, f"{batch}", _ms(timing, batch), share])
    print_table("cpu, by vocabulary size", ["leaves", "batch", "ms/document", "ratio"], rows)
    return results


def _ms(timing: Timing, n_documents: int) -> str:
    return f"{timing.median / n_documents * 1e3:.3f}"


def main() -> None:
    torch.set_num_threads(2)
    write_results("tree_nll", {**compare_with_torch(), **compare_vocabularies()})


if __name__ == "__main__":
    main()
