"""Several networks trained at the same time on one GPU.

The kernels of one update leave parts of a GPU idle: the last tiles of each, the small ones between.
Networks that are trained on the same documents with other settings or seeds fill the gaps of each
other. Each gives the bits that it gives alone.
"""

import time
from collections.abc import Sequence

import torch

from supdocnade.corpus import Documents
from supdocnade.corpus.tokens import Rows
from supdocnade.training.graphed import GraphedUpdates
from supdocnade.training.history import History
from supdocnade.training.trainer import Trainer

AT_ONCE = 8
"""Networks at the same time. Each takes three of the 32 streams that torch hands out in turn, and
two that had the same one would overwrite each other's workspaces."""


def fit_side_by_side(
    trainers: Sequence[Trainer], corpus: Documents, validation: Documents | None = None
) -> list[History]:
    """Train several networks on the same documents, as `Trainer.fit` trains one.

    Networks that are not on a GPU, or too large to be trained from memory there, are trained one
    after the other.

    Returns
    -------
    The history of each.
    """
    together = [trainer for trainer in trainers if trainer.graphed(corpus) is not None]
    for trainer in trainers:
        if trainer not in together:
            trainer.fit(corpus, validation)
    for first in range(0, len(together), AT_ONCE):
        _fit_together(together[first : first + AT_ONCE], corpus, validation)
    return [trainer.state.history for trainer in trainers]


def _fit_together(
    trainers: Sequence[Trainer], corpus: Documents, validation: Documents | None
) -> None:
    for trainer in trainers:
        trainer.start(corpus, validation)
    streams = {id(t): torch.cuda.Stream() for t in trainers}  # type: ignore[no-untyped-call]
    while going := [trainer for trainer in trainers if trainer.going]:
        _run_epoch(going, corpus, streams)
        for trainer in going:
            trainer.end_epoch(validation)
    for trainer in trainers:
        trainer.finish()


def _run_epoch(
    trainers: list[Trainer], corpus: Documents, streams: dict[int, torch.cuda.Stream]
) -> None:
    """Let every trainer pass over the corpus once, their updates in turn."""
    started = time.perf_counter()
    current = torch.cuda.current_stream()
    parts: dict[int, list[Rows]] = {}
    updates: dict[int, GraphedUpdates] = {}
    for trainer in trainers:
        graphed = trainer.graphed(corpus)
        assert graphed is not None, "only such trainers are taken together"
        updates[id(trainer)] = graphed
        parts[id(trainer)] = trainer.parts(corpus)
        trainer.begin_epoch(graphed, parts[id(trainer)])
        streams[id(trainer)].wait_stream(current)
    waiting = list(trainers)
    while waiting := [t for t in waiting if t.state.update < len(parts[id(t)])]:
        for trainer in waiting:
            with torch.cuda.stream(streams[id(trainer)]):
                updates[id(trainer)].run()
            trainer.state.update += 1
    for trainer in trainers:
        current.wait_stream(streams[id(trainer)])
    for trainer in trainers:
        trainer.read_loss(updates[id(trainer)], parts[id(trainer)])
        trainer.end_updates(len(parts[id(trainer)]), time.perf_counter() - started)
