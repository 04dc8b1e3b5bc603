"""Start of the processes that train one network together."""

import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import torch
import torch.distributed as dist
from torch.distributed import (  # type: ignore[attr-defined]
    FileStore,
    PrefixStore,
    Store,
    TCPStore,
    rendezvous,
)

from supdocnade.checks import check_count, check_range
from supdocnade.cluster import run_beside
from supdocnade.errors import InvalidArgument, ProcessLost
from supdocnade.run_options import RunOptions
from supdocnade.training.process_group import (
    END,
    ProcessGroup,
    activate,
    active_group,
    detect_loss,
)
from supdocnade.training.trainer import Trainer

TIMEOUT = 300.0
"""Seconds that a process waits for the others in one exchange."""

INTERFACE = "GLOO_SOCKET_IFNAME"
"""Environment variable for the network interface that Gloo uses."""

WORKER = "from supdocnade.training.processes import run_worker; run_worker()"


@contextmanager
def training_processes(
    n_processes: int | None = None, *, cluster: str | None = None, timeout: float = TIMEOUT
) -> Iterator[bool]:
    """Let several processes share every training of topics within a block.

    ::

        with training_processes(4) as first:
            if first:
                SupDocNADE(batch_groups=8).fit(X, y)

    A batch is cut into `batch_groups` groups of documents, which the processes share. The result
    has the same bits for any number of processes.

    Under torchrun, and wherever torch.distributed has been initialized, all processes of the group
    enter the block. One of them runs it with True; the others take part in its trainings and then
    run the block with False. Only the first needs the documents, except for a `Corpus`, which all
    processes read from the same path.

    Parameters
    ----------
    n_processes : processes, started here; None: those of torchrun, otherwise one.
    cluster : address of a Ray cluster on which all but the first run, "auto" for the one that runs
        on this machine; None: they run on this machine.
    timeout : seconds after which a process that does not answer is lost.

    Raises
    ------
    ProcessLost : a process ended or did not answer; a fit with a checkpoint can be resumed.
    """
    if active_group() is not None:
        raise InvalidArgument("training_processes must not be used within another such block.")
    timeout = check_range("timeout", timeout, above=0)
    if n_processes is not None:
        check_count("n_processes", n_processes, least=1)
    if cluster is not None and (n_processes is None or in_process_group()):
        raise InvalidArgument("cluster must be None without n_processes and under torchrun.")
    with ExitStack() as stack:
        group = None
        if in_process_group():
            group = stack.enter_context(_join_group(n_processes, timeout))
        elif n_processes is not None and n_processes > 1:
            start = _start_group(n_processes, timeout)
            if cluster is not None:
                start = _start_on_cluster(n_processes, cluster, timeout)
            group = stack.enter_context(start)
        if group is None:
            yield True
        elif group.rank > 0:
            _take_part(group)
            yield False
        else:
            with activate(group):
                yield True
            if not group.lost:
                group.leave()


def in_process_group() -> bool:
    """Return whether torchrun, or a program like it, has started this process with others."""
    if dist.is_initialized():
        return dist.get_world_size() > 1
    return "RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def _join_group(n_processes: int | None, timeout: float) -> Iterator[ProcessGroup]:
    """Connect with the processes of torchrun, or use a group that the program has connected."""
    initialized = dist.is_initialized()
    size = dist.get_world_size() if initialized else int(os.environ["WORLD_SIZE"])
    if n_processes not in (None, size):
        raise InvalidArgument(
            f"n_processes must be None or {size}, the number of processes that torchrun started, "
            f"got {n_processes}."
        )
    n_local = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    if initialized:
        handle = dist.new_group(backend=_backend(n_local), timeout=timedelta(seconds=timeout))
        default_store = dist.distributed_c10d._get_default_store()
        store = _fresh_store(default_store, handle.rank(), size, timeout)
        yield ProcessGroup(handle, store, local=False)
        return
    _choose_gpu(int(os.environ.get("LOCAL_RANK", "0")))
    with detect_loss():
        connections = rendezvous("env://", timeout=timedelta(seconds=timeout))
        shared_store, rank, _ = next(connections)
    store = _fresh_store(shared_store, rank, size, timeout)
    with _connect(store, rank, size, n_local=n_local, timeout=timeout, loopback=False) as handle:
        yield ProcessGroup(handle, store, local=False)


def _fresh_store(store: Store, rank: int, size: int, timeout: float) -> PrefixStore:
    """Return a part of a store in which no earlier process has left anything.

    After a restart the store of torchrun still has the keys of processes that are gone. The first
    process gives every other one the same new prefix, by a key that only this one knows.
    """
    own, deadline = uuid4().hex, time.monotonic() + timeout
    with detect_loss():
        if rank > 0:
            store.set(f"supdocnade {rank}", own)
            prefix = str(store.get(f"supdocnade answer {own}"), "utf-8")
            store.set(f"{prefix} {rank}", "")
            return PrefixStore(prefix, store)
        missing = set(range(1, size))
        while missing:
            for other in sorted(missing):
                if store.check([f"supdocnade {other}"]):
                    theirs = str(store.get(f"supdocnade {other}"), "utf-8")
                    store.set(f"supdocnade answer {theirs}", own)
                if store.check([f"{own} {other}"]):
                    missing.remove(other)
            if time.monotonic() > deadline:
                raise ProcessLost(f"{len(missing)} of {size} training processes did not start.")
            time.sleep(0.05)
    return PrefixStore(own, store)


@contextmanager
def _start_group(n_processes: int, timeout: float) -> Iterator[ProcessGroup]:
    """Start the other processes on this machine, and end them after the block."""
    with tempfile.TemporaryDirectory(prefix="supdocnade-", ignore_cleanup_errors=True) as folder:
        path = os.path.join(folder, "store")
        command = [sys.executable, "-c", WORKER, path, str(n_processes), str(timeout)]
        workers = [
            # A worker ends when its standard input does, so that none outlives this process.
            subprocess.Popen(
                [*command, str(rank)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
            )
            for rank in range(1, n_processes)
        ]
        try:
            store = FileStore(path, n_processes)
            _await_workers(store, n_processes, partial(_raise_ended, workers))
            with _connect(
                store, 0, n_processes, n_local=n_processes, timeout=timeout, loopback=True
            ) as handle:
                yield ProcessGroup(handle, store, local=True)
        finally:
            for worker in workers:
                worker.kill()
                worker.communicate()


def _raise_ended(workers: list["subprocess.Popen[bytes]"]) -> None:
    for worker in workers:
        if worker.poll() is not None:
            raise ProcessLost(
                f"a training process could not be started: it ended with {worker.returncode}."
            )


@contextmanager
def _start_on_cluster(n_processes: int, cluster: str, timeout: float) -> Iterator[ProcessGroup]:
    """Start the other processes as tasks of a Ray cluster, and end them after the block."""
    store = TCPStore(
        "localhost", 0, n_processes, is_master=True, wait_for_workers=False,
        timeout=timedelta(seconds=timeout),
    )  # fmt: skip
    device = "cuda" if torch.cuda.is_available() else "cpu"
    options = RunOptions(cluster=cluster, n_jobs=n_processes, device=device)
    worker = partial(_run_cluster_worker, store.port, n_processes, timeout)
    with run_beside(worker, range(1, n_processes), options) as raise_failure:
        _await_workers(store, n_processes, raise_failure, timeout)
        with _connect(store, 0, n_processes, n_local=1, timeout=timeout, loopback=False) as handle:
            yield ProcessGroup(handle, store, local=False)


def _run_cluster_worker(
    port: int, n_processes: int, timeout: float, address: str, rank: int
) -> None:
    """Take part in the trainings of the process with a store at the address."""
    store = TCPStore(
        address, port, n_processes, is_master=False, timeout=timedelta(seconds=timeout)
    )
    _choose_gpu(0)
    store.set(f"ready {rank}", "")
    with _connect(store, rank, n_processes, n_local=1, timeout=timeout, loopback=False) as handle:
        _take_part(ProcessGroup(handle, store, local=False))


def _await_workers(
    store: Store, n_processes: int, raise_failure: Callable[[], None], timeout: float = math.inf
) -> None:
    """Wait until all workers have loaded the package.

    Parameters
    ----------
    raise_failure : raises an error if a worker has ended.
    timeout : seconds after which those of a cluster, which may have no free core, are given up.
    """
    ready = [f"ready {rank}" for rank in range(1, n_processes)]
    deadline = time.monotonic() + timeout
    while not store.check(ready):
        raise_failure()
        if time.monotonic() > deadline:
            missing = sum(not store.check([each]) for each in ready)
            raise ProcessLost(
                f"{missing} of {n_processes} training processes did not start in {timeout:g} s: "
                "each needs a free core."
            )
        time.sleep(0.05)  # `store.wait` would print a warning.


def run_worker() -> None:
    """Run a process that `training_processes` has started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The first process reacts to Ctrl-C.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    path, timeout = sys.argv[1], float(sys.argv[3])
    n_processes, rank = int(sys.argv[2]), int(sys.argv[4])
    store = FileStore(path, n_processes)
    _choose_gpu(rank)
    store.set(f"ready {rank}", "")
    try:
        with _connect(
            store, rank, n_processes, n_local=n_processes, timeout=timeout, loopback=True
        ) as handle:
            _take_part(ProcessGroup(handle, store, local=True))
    except ProcessLost:
        sys.exit(1)  # The first process says so, if it is not the one that ended.


def _end_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


def _take_part(group: ProcessGroup) -> None:
    """Take part in the trainings of the first process until it leaves."""
    while (message := group.receive()) != END:
        Trainer.take_part(group.receive_task(message), group)
    group.leave()


@contextmanager
def _connect(
    store: Store, rank: int, size: int, *, n_local: int, timeout: float, loopback: bool
) -> Iterator[Any]:
    """Connect processes within a block.

    Parameters
    ----------
    n_local : the number of them on this machine.
    loopback : they are all on this machine, and must not be reached from others.
    """
    with _loopback() if loopback else nullcontext(), detect_loss():
        dist.init_process_group(
            _backend(n_local), store=store, rank=rank, world_size=size,
            timeout=timedelta(seconds=timeout),
        )  # fmt: skip
    try:
        yield dist.group.WORLD
    finally:
        dist.destroy_process_group()


@contextmanager
def _loopback() -> Iterator[None]:
    """Let connections that are made within a block use the loopback interface."""
    before = os.environ.get(INTERFACE)
    if sys.platform == "linux":
        os.environ[INTERFACE] = "lo"
    try:
        yield
    finally:
        os.environ.pop(INTERFACE, None)
        if before is not None:
            os.environ[INTERFACE] = before


def _backend(n_local: int) -> str:
    """Return Gloo for tensors on a CPU, and NCCL for those on GPUs if every process has its own."""
    nccl = dist.is_nccl_available() and torch.cuda.device_count() >= n_local
    return "cpu:gloo,cuda:nccl" if nccl else "gloo"


def _choose_gpu(number: int) -> None:
    if torch.cuda.is_available():
        torch.cuda.set_device(number % torch.cuda.device_count())
