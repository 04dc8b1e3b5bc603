"""Worker threads that process a bounded queue in batches."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from time import perf_counter
from typing import Generic, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

SMOOTHING = 0.05
"""Weight of the last batch in the running mean of the time per task."""

log = logging.getLogger(__name__)


class QueueFull(Exception):
    """The queue has no room for the tasks."""


class WorkInterrupted(Exception):
    """The worker thread ended before its task did."""


class Workers(Generic[Task, Result]):
    """A bounded queue and the threads that process it.

    A thread takes its share of the queue, at most `max_batch` tasks: under load, tasks of different
    callers form a batch; otherwise the tasks of one caller are spread over the threads. A thread
    that ends unexpectedly is replaced.

    Parameters
    ----------
    work : returns one result per task.
    n_threads : number of threads.
    max_waiting : tasks that may wait in the queue.
    max_batch : tasks that a thread takes at once.
    on_batch : receives the number of tasks and the seconds of every batch.
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
        """Number of tasks in the queue."""
        return len(self._queue)

    @property
    def n_alive(self) -> int:
        """Number of live threads."""
        return sum(thread.is_alive() for thread in list(self._threads))

    @property
    def seconds_to_empty(self) -> float:
        """Estimated time until the queue is empty."""
        return self._seconds_per_task * len(self._queue) / self._n_threads

    def submit(self, tasks: Sequence[Task]) -> list[Future[Result]]:
        """Add tasks to the queue, either all or none.

        Raises
        ------
        QueueFull : the queue has no room, or is closed.
        """
        futures: list[Future[Result]] = [Future() for _ in tasks]
        with self._changed:
            if self._closing:
                raise QueueFull
            if len(self._queue) + len(tasks) > self._max_waiting:
                # Cancelled tasks do not count.
                self._queue = deque(pair for pair in self._queue if not pair[1].cancelled())
            if len(self._queue) + len(tasks) > self._max_waiting:
                raise QueueFull
            self._queue.extend(zip(tasks, futures, strict=True))
            self._changed.notify(len(tasks))
        return futures

    def close(self) -> None:
        """Finish the queued tasks and end the threads."""
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
                log.error("a worker ended unexpectedly and was replaced")
                self._start_thread()

    def _take(self) -> list[tuple[Task, Future[Result]]]:
        """Wait for tasks and return a share of them; return an empty list after `close`."""
        with self._changed:
            while True:
                share = -(-len(self._queue) // self._n_threads)
                taken = [self._queue.popleft() for _ in range(min(share, self._max_batch))]
                started = [pair for pair in taken if pair[1].set_running_or_notify_cancel()]
                if started or (self._closing and not self._queue):
                    return started
                if not taken:
                    self._changed.wait()

    def _perform(self, batch: Sequence[tuple[Task, Future[Result]]]) -> None:
        start = perf_counter()
        tasks, futures = [task for task, _ in batch], [future for _, future in batch]
        try:
            for future, result in zip(futures, self._work(tasks), strict=True):
                future.set_result(result)
        except Exception as error:
            if len(batch) > 1:
                # Run the tasks one by one, so that only the failing ones fail.
                for pair in batch:
                    if not pair[1].done():
                        self._perform([pair])
                return
            futures[0].set_exception(error)
        except BaseException:
            for future in futures:
                if not future.done():
                    future.set_exception(WorkInterrupted())
            raise
        seconds = perf_counter() - start
        self._seconds_per_task += SMOOTHING * (seconds / len(batch) - self._seconds_per_task)
        if self._on_batch is not None:
            self._on_batch(len(batch), seconds)
