"""The way from the fit of an estimator to the kernels is short enough to be read."""

import sys
from pathlib import Path

import numpy as np

import supdocnade
from supdocnade import SupDocNADE
from supdocnade.likelihood.cpu import prefix_sums, tree_walk

PACKAGE = str(Path(supdocnade.__file__).parent)
MAX_CALLS = 12


def test_few_calls_lead_from_fit_to_every_kernel(monkeypatch):
    calls = {}

    def watch(module, name):
        kernel = getattr(module, name)

        def watched(*args):
            frame, path = sys._getframe(1), []
            while frame is not None:
                if frame.f_code.co_filename.startswith(PACKAGE):
                    path.insert(0, frame.f_code.co_qualname)
                frame = frame.f_back
            calls[name] = path
            return kernel(*args)

        monkeypatch.setattr(module, name, watched)

    watch(tree_walk, "walk")
    for name in ("sum_prefixes", "add_suffix_columns", "add_summary_columns"):
        watch(prefix_sums, name)
    X = np.random.default_rng(0).poisson(1.0, (60, 30))
    SupDocNADE(n_topics=10, max_epochs=1, n_jobs=1, random_state=0).fit(X, np.arange(60) % 3)
    assert len(calls) == 4
    for path in calls.values():
        assert path[0].endswith(".fit")
        assert len(path) <= MAX_CALLS, path
