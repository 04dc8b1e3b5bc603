"""Several networks trained at the same time on one GPU.

The kernels of one update leave parts of a GPU idle: the last tiles of each, the small ones between.
Networks that are trained on the same documents with other settings or seeds fill the gaps of each
other. Each gives the bits that it gives alone.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch

from supdocnade.corpus import Documents
from supdocnade.corpus.tokens import Rows
from supdocnade.errors import TrainingDiverged
from supdocnade.training.config import History
from supdocnade.training.cuda_graph import GraphedUpdates
from supdocnade.training.trainer import Trainer

AT_ONCE = 8
"""Networks at the same time. Each takes three of the 32 streams that torch hands out in turn, and
two that had the same one would overwrite each other's workspaces."""

Failures = dict[Trainer, TrainingDiverged]


def fit_side_by_side(
    trainers: Sequence[Trainer], corpus: Documents, validation: Documents | None = None
) -> list[History]:
    """Train several networks on the same documents, as `Trainer.fit` trains one.

    Networks that are not on a GPU, or too large to be trained from memory there, are trained one
    after the other. Each trainer reports its progress and writes its checkpoints as it does alone.

    A network that diverges does not stop the others: the first one's `TrainingDiverged` is raised
    when all are done, with a note for every other. Those that did not diverge are then trained, and
    have their histories in `trainer.state.history`.

    Returns
    -------
    The history of each.
    """
    failures: Failures = {}
    together = [trainer for trainer in trainers if trainer.graphed(corpus) is not None]
    for trainer in trainers:
        if trainer not in together:
            with _noted(trainer, failures):
                trainer.fit(corpus, validation)
    for first in range(0, len(together), AT_ONCE):
        _fit_together(together[first : first + AT_ONCE], corpus, validation, failures)
    _raise_first(trainers, failures)
    return [trainer.state.history for trainer in trainers]


@contextmanager
def _noted(trainer: Trainer, failures: Failures) -> Iterator[None]:
    """Let one trainer do something; if it diverges, remember that and go on."""
    try:
        yield
    except TrainingDiverged as error:
        failures[trainer] = error


def _raise_first(trainers: Sequence[Trainer], failures: Failures) -> None:
    numbers = [number for number, trainer in enumerate(trainers) if trainer in failures]
    if not numbers:
        return
    error = failures[trainers[numbers[0]]]
    error.add_note(f"This was network {numbers[0] + 1} of {len(trainers)} trained side by side.")
    for number in numbers[1:]:
        error.add_note(f"Network {number + 1}: {failures[trainers[number]]}")
    raise error


def _fit_together(
    trainers: Sequence[Trainer],
    corpus: Documents,
    validation: Documents | None,
    failures: Failures,
) -> None:
    for trainer in trainers:
        trainer.start(corpus, validation)
    streams = {t: torch.cuda.Stream() for t in trainers}  # type: ignore[no-untyped-call]
    while going := [t for t in trainers if t.going and t not in failures]:
        _run_epoch(going, corpus, streams, failures)
        for trainer in going:
            if trainer not in failures:
                with _noted(trainer, failures):
                    trainer.end_epoch(validation)
    for trainer in trainers:
        if trainer not in failures:
            trainer.finish()


class _Running(NamedTuple):
    """A trainer in the middle of an epoch."""

    trainer: Trainer
    updates: GraphedUpdates
    parts: list[Rows]
    stream: torch.cuda.Stream

    @property
    def going(self) -> bool:
        return self.trainer.state.update < len(self.parts)


def _run_epoch(
    trainers: list[Trainer],
    corpus: Documents,
    streams: dict[Trainer, torch.cuda.Stream],
    failures: Failures,
) -> None:
    """Let every trainer pass over the corpus once, their updates in turn."""
    started = time.perf_counter()
    current = torch.cuda.current_stream()
    running = []
    for trainer in trainers:
        updates = trainer.graphed(corpus)
        assert updates is not None, "only such trainers are taken together"
        each = _Running(trainer, updates, trainer.parts(corpus), streams[trainer])
        trainer.begin_epoch(updates, each.parts)
        each.stream.wait_stream(current)
        running.append(each)
    while waiting := [each for each in running if each.going and each.trainer not in failures]:
        _run_next(waiting, failures)
    for each in running:
        current.wait_stream(each.stream)
        if each.trainer not in failures:
            each.trainer.end_updates(len(each.parts), time.perf_counter() - started)


def _run_next(running: list[_Running], failures: Failures) -> None:
    """Start the next update of each, and then look at the losses that are wanted."""
    wanted = []
    for each in running:
        with torch.cuda.stream(each.stream):
            if each.trainer.run_next(each.updates, len(each.parts)):
                wanted.append(each)
    for each in wanted:
        with torch.cuda.stream(each.stream), _noted(each.trainer, failures):
            each.trainer.read_loss(each.updates, each.parts)
            each.trainer.report(len(each.parts))
