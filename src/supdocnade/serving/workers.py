"""Threads that take their share of what waits, and work on it together."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from time import perf_counter
from typing import Any, Generic, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

SMOOTHING = 0.05
"""Weight of the last batch in the mean time of a task."""

log = logging.getLogger(__name__)


class QueueFull(Exception):
    """More waits than may wait."""


class WorkInterrupted(Exception):
    """The thread that worked on a task ended before it did."""


class Workers(Generic[Task, Result]):
    """A bounded queue and the threads that work on it.

    A thread takes up to `max_batch` tasks at once, but leaves the other threads theirs; so tasks of
    different callers are worked on together when there are many, and those of one caller are shared
    out when there are few. A thread that ends before its time is replaced.

    Parameters
    ----------
    work : takes some tasks and returns a result for each.
    n_threads : how many work.
    max_waiting : tasks that may wait.
    max_batch : tasks that a thread takes at once.
    on_batch : told the number of tasks and the seconds of every batch.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Task]], Sequence[Result]],
        *,
        n_threads: int,
        max_waiting: int,
        max_batch: int,
        on_batch: Callable[[int, float], None] | None = None,
    ):
        self._work, self._on_batch = work, on_batch
        self._n_threads, self._max_waiting, self._max_batch = n_threads, max_waiting, max_batch
        self._queue: deque[tuple[Task, Future[Result]]] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._seconds_per_task = 0.0
        self._threads: set[threading.Thread] = set()
        for _ in range(n_threads):
            self._start_thread()

    @property
    def n_waiting(self) -> int:
        """Tasks that nobody has begun."""
        return len(self._queue)

    @property
    def n_alive(self) -> int:
        """Threads that work, or wait for work."""
        return sum(thread.is_alive() for thread in list(self._threads))

    @property
    def seconds_to_empty(self) -> float:
        """About how long it takes until nothing waits any more."""
        return self._seconds_per_task * len(self._queue) / self._n_threads

    def submit(self, tasks: Sequence[Task]) -> list[Future[Result]]:
        """Put tasks into the queue, all or none of them.

        Raises
        ------
        QueueFull : they would be too many.
        """
        futures: list[Future[Result]] = [Future() for _ in tasks]
        with self._changed:
            if self._closing:
                raise QueueFull
            if len(self._queue) + len(tasks) > self._max_waiting:
                # Those whose callers have gone do not count.
                self._queue = deque(pair for pair in self._queue if not pair[1].cancelled())
            if len(self._queue) + len(tasks) > self._max_waiting:
                raise QueueFull
            self._queue.extend(zip(tasks, futures, strict=True))
            self._changed.notify(len(tasks))
        return futures

    def close(self) -> None:
        """Finish what waits, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in list(self._threads):
            thread.join()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run, name="supdocnade-worker", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _run(self) -> None:
        try:
            while batch := self._take():
                self._perform(batch)
        finally:
            self._threads.discard(threading.current_thread())
            if not self._closing:
                log.error("a worker ended; another takes its place")
                self._start_thread()

    def _take(self) -> list[tuple[Task, Future[Result]]]:
        """Wait for tasks and return a share of them; nothing when all is done."""
        with self._changed:
            while True:
                share = -(-len(self._queue) // self._n_threads)
                taken = [self._queue.popleft() for _ in range(min(share, self._max_batch))]
                begun = [pair for pair in taken if pair[1].set_running_or_notify_cancel()]
                if begun or (self._closing and not self._queue):
                    return begun
                if not taken:
                    self._changed.wait()

    def _perform(self, batch: Sequence[tuple[Task, Future[Result]]]) -> None:
        began = perf_counter()
        tasks, futures = [task for task, _ in batch], [future for _, future in batch]
        try:
            for future, result in zip(futures, self._work(tasks), strict=True):
                future.set_result(result)
        except Exception as error:
            if len(batch) > 1:
                # Whose fault it was is seen when each is alone; the others have their answers.
                for each in batch:
                    if not each[1].done():
                        self._perform([each])
                return
            futures[0].set_exception(error)
        except BaseException:
            _fail(futures)
            raise
        seconds = perf_counter() - began
        self._seconds_per_task += SMOOTHING * (seconds / len(batch) - self._seconds_per_task)
        if self._on_batch is not None:
            self._on_batch(len(batch), seconds)


def _fail(futures: Sequence[Future[Any]]) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(WorkInterrupted())
