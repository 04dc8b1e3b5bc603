"""Training of several networks at the same time on one GPU.

The kernels of one update leave parts of a GPU idle: the last tiles of each, the small kernels in
between. Networks that are trained on the same documents with other settings or seeds fill each
other's gaps. Each gives the same bits as when it is trained alone.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from supdocnade.corpus.documents import Documents
from supdocnade.errors import TrainingDiverged
from supdocnade.training.history import History
from supdocnade.training.trainer import Trainer

MAX_NETWORKS = 8
"""Networks at the same time. Each takes three of the 32 streams that torch hands out in turn, and
two networks on the same stream would overwrite each other's workspaces."""

Failures = dict[Trainer, TrainingDiverged]


def fit_networks(
    trainers: Sequence[Trainer], corpus: Documents, validation: Documents | None = None
) -> list[History]:
    """Train several networks on the same documents, as `Trainer.fit` trains one.

    Networks that are not on a GPU, or too large to be recorded there, are trained one after the
    other. Each trainer reports its progress and writes its checkpoints as it does alone.

    A network that diverges does not stop the others: when all are done, the `TrainingDiverged` of
    the first is raised, with a note for every other. The networks that did not diverge are trained
    by then, and have their histories in `trainer.state.history`.

    Returns
    -------
    The history of each network.
    """
    failures: Failures = {}
    recorded = [trainer for trainer in trainers if trainer.graph_updates(corpus) is not None]
    for trainer in trainers:
        if trainer not in recorded:
            with _catch_divergence(trainer, failures):
                trainer.fit(corpus, validation)
    for first in range(0, len(recorded), MAX_NETWORKS):
        _fit_recorded(recorded[first : first + MAX_NETWORKS], corpus, validation, failures)
    _raise_first(trainers, failures)
    return [trainer.state.history for trainer in trainers]


@contextmanager
def _catch_divergence(trainer: Trainer, failures: Failures) -> Iterator[None]:
    try:
        yield
    except TrainingDiverged as error:
        failures[trainer] = error


def _raise_first(trainers: Sequence[Trainer], failures: Failures) -> None:
    numbers = [number for number, trainer in enumerate(trainers) if trainer in failures]
    if not numbers:
        return
    error = failures[trainers[numbers[0]]]
    error.add_note(f"This was network {numbers[0] + 1} of {len(trainers)} trained in parallel.")
    for number in numbers[1:]:
        error.add_note(f"Network {number + 1}: {failures[trainers[number]]}")
    raise error


def _fit_recorded(
    trainers: Sequence[Trainer],
    corpus: Documents,
    validation: Documents | None,
    failures: Failures,
) -> None:
    for trainer in trainers:
        trainer.start(corpus, validation)
    streams = {t: torch.cuda.Stream() for t in trainers}  # type: ignore[no-untyped-call]
    while active := [t for t in trainers if not t.done and t not in failures]:
        _run_epoch(active, corpus, streams, failures)
        for trainer in active:
            if trainer not in failures:
                with _catch_divergence(trainer, failures):
                    trainer.end_epoch(validation)
    for trainer in trainers:
        if trainer not in failures:
            trainer.finish()


def _run_epoch(
    trainers: list[Trainer],
    corpus: Documents,
    streams: dict[Trainer, torch.cuda.Stream],
    failures: Failures,
) -> None:
    """Run one epoch of every trainer, their updates in turn."""
    current = torch.cuda.current_stream()
    for trainer in trainers:
        trainer.begin_updates(corpus)
        streams[trainer].wait_stream(current)
    while active := [t for t in trainers if not t.updates_done and t not in failures]:
        # Start an update of each before waiting for any loss.
        due = []
        for trainer in active:
            with torch.cuda.stream(streams[trainer]):
                if trainer.run_update():
                    due.append(trainer)
        for trainer in due:
            with torch.cuda.stream(streams[trainer]), _catch_divergence(trainer, failures):
                trainer.report()
    for trainer in trainers:
        current.wait_stream(streams[trainer])
        if trainer not in failures:
            trainer.end_updates()
