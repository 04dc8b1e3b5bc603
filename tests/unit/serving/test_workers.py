import threading

import pytest

from supdocnade.serving.workers import QueueFull, Workers, WorkInterrupted


class Gate:
    """Work that waits until the gate is open, and records its batches."""

    def __init__(self):
        self.open, self.started = threading.Event(), threading.Semaphore(0)
        self.batches = []

    def __call__(self, tasks):
        self.started.release()
        self.open.wait()
        self.batches.append(list(tasks))
        return [10 * task for task in tasks]


def workers(work, **options):
    return Workers(work, **{"n_threads": 1, "max_waiting": 8, "max_batch": 4, **options})


def test_every_task_gets_its_own_result():
    pool = workers(lambda tasks: [task + 1 for task in tasks], n_threads=3, max_waiting=500)
    futures = pool.submit(range(500))
    assert [future.result() for future in futures] == list(range(1, 501))
    pool.close()


def test_waiting_tasks_form_batches_of_limited_size():
    gate = Gate()
    pool = workers(gate)
    first = pool.submit([0])
    gate.started.acquire()
    others = [future for number in range(1, 7) for future in pool.submit([number])]
    gate.open.set()
    assert [future.result() for future in (*first, *others)] == [0, 10, 20, 30, 40, 50, 60]
    assert gate.batches == [[0], [1, 2, 3, 4], [5, 6]]
    pool.close()


def test_thread_leaves_the_others_their_share():
    gate = Gate()
    pool = workers(gate, n_threads=2)
    futures = pool.submit(range(8))
    gate.started.acquire()
    gate.started.acquire()
    gate.open.set()
    assert [future.result() for future in futures] == [10 * number for number in range(8)]
    assert max(map(len, gate.batches)) <= 4
    assert len(gate.batches) >= 3
    pool.close()


def test_full_queue_refuses_all_tasks_or_none():
    gate = Gate()
    pool = workers(gate)
    first = pool.submit([0])
    gate.started.acquire()
    waiting = pool.submit(range(7))
    with pytest.raises(QueueFull):
        pool.submit([1, 2])
    assert pool.n_waiting == 7
    pool.submit([1])
    # Cancelled tasks make room.
    assert waiting[0].cancel()
    pool.submit([1])
    with pytest.raises(QueueFull):
        pool.submit([1])
    gate.open.set()
    assert first[0].result() == 0
    pool.close()
    assert waiting[1].result() == 10
    assert 0 not in [task for batch in gate.batches[1:] for task in batch]


def test_error_affects_only_its_own_task():
    def work(tasks):
        if 3 in tasks:
            raise RuntimeError("three")
        return tasks

    gate = threading.Event()
    pool = workers(lambda tasks: gate.wait() and work(tasks))
    futures = pool.submit(range(6))
    gate.set()
    assert [future.result() for future in futures if future is not futures[3]] == [0, 1, 2, 4, 5]
    with pytest.raises(RuntimeError, match="three"):
        futures[3].result()
    pool.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_worker_that_dies_is_replaced_and_its_task_fails():
    dying = []

    def work(tasks):
        if "die" in tasks:
            dying.append(threading.current_thread())
            raise SystemExit
        return tasks

    pool = workers(work)
    (doomed,) = pool.submit(["die"])
    with pytest.raises(WorkInterrupted):
        doomed.result(timeout=20)
    # pytest reports the exception of a thread when it has ended: within this test.
    dying[0].join()
    (fine,) = pool.submit(["live"])
    assert fine.result(timeout=20) == "live"
    assert pool.n_alive == 1
    pool.close()
    assert pool.n_alive == 0


def test_close_finishes_the_queue_and_refuses_new_tasks():
    gate = Gate()
    pool = workers(gate)
    futures = pool.submit(range(8))
    closing = threading.Thread(target=pool.close)
    closing.start()
    gate.open.set()
    closing.join()
    assert all(future.done() for future in futures)
    with pytest.raises(QueueFull):
        pool.submit([1])


def test_batches_are_reported():
    batches = []
    pool = workers(lambda tasks: tasks, on_batch=lambda n, seconds: batches.append((n, seconds)))
    pool.submit([1])[0].result()
    pool.close()
    ((count, seconds),) = batches
    assert count == 1
    assert seconds >= 0
    assert pool.seconds_to_empty == 0
