"""sLDA and MMLDA on a published corpus.

python -m experiments.baselines

`SLDA` and `MMLDA` on the LabelMe bags of the sLDA authors: published split, five seeds, default
arguments, which were chosen on quarters of the training part. A stopped run resumes with what is
missing; remove experiments/results/baselines.json to start again. Times need a machine that does
nothing else. `experiments.replicated_softmax` measures the third model.
"""

import time
from typing import Any

from experiments.common import read_results, write_results
from experiments.data import Bags, class_slda
from supdocnade.baselines import MMLDA, SLDA

COMMAND = "python -m experiments.baselines"

SEEDS = range(5)
N_TOPICS = (10, 40, 80)


def classify(model: Any, train: Bags, test: Bags) -> dict[str, float]:
    """Return accuracy, perplexity and times of one model."""
    started, started_cpu = time.perf_counter(), time.process_time()
    model.fit(train.counts, train.labels)
    record = {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - started_cpu,
    }
    record["iterations"] = model.n_iter_
    record["accuracy"] = model.score(test.counts, test.labels)
    record["perplexity"] = model.perplexity(test.counts)
    return record


def main() -> None:
    done: dict[str, Any] = read_results("baselines").get("classes", {})
    train, test = class_slda()
    for kind in (SLDA, MMLDA):
        for n_topics in N_TOPICS:
            for seed in SEEDS:
                name = f"{kind.__name__}, {n_topics} topics, seed {seed}"
                if name not in done:
                    done[name] = classify(kind(n_topics, random_state=seed), train, test)
                    print(name, done[name], flush=True)
                    write_results("baselines", COMMAND, {"classes": done})


if __name__ == "__main__":
    main()
