"""Shards of work, on a Ray cluster or one after the other in this process.

A shard is done by a pure function: done twice, it has the same result. So Ray may run the task of a
worker that died again, and nothing else is needed to survive it. Another engine would be another
branch of `map_shards`.
"""

import logging
import os
import socket
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from joblib import effective_n_jobs

from supdocnade.errors import ClusterError, UnwritableFile, install_command
from supdocnade.runs import ProgressCallback, RunOptions, no_progress

Shard = TypeVar("Shard")
Result = TypeVar("Result")

TASKS_PER_CORE = 2
"""Tasks per core of the cluster that are submitted ahead of the consumer of the results."""

CONNECT_SECONDS = 10.0
"""Seconds in which a cluster must answer."""

CANCEL_SECONDS = 5.0
"""Seconds in which tasks end that are cancelled after an error."""

MAX_RETRIES = 3
"""Times that Ray runs a task again if its worker died or could not write."""


def map_shards(
    function: Callable[[Shard], Result], shards: Sequence[Shard], options: RunOptions
) -> Generator[Result, None, None]:
    """Apply a function to each shard and yield the results in the order of the shards.

    Parameters
    ----------
    function : a pure function, which must be picklable; a cluster needs the package on every
        machine.
    options : `cluster` names the cluster, and `n_jobs` is the number of tasks at a time; without a
        cluster the function is called in this process, when the next result is requested.
    """
    if options.cluster is None:
        yield from map(function, shards)
        return
    ray = _import_ray(options.cluster)
    # Ray prints to stdout when a worker dies, where only results belong.
    with _connect(ray, options), redirect_stdout(sys.stderr):
        task = ray.remote(
            num_cpus=1,
            num_gpus=1 if options.device == "cuda" else 0,
            max_retries=MAX_RETRIES,
            retry_exceptions=[UnwritableFile],
        )(_run_task)
        stored = ray.put(function)
        running: deque[Any] = deque()
        try:
            for shard in shards:
                running.append(task.remote([stored], _version(), os.getcwd(), shard))
                while len(running) >= _n_ahead(ray, options):
                    yield _result(ray, running.popleft())
            while running:
                yield _result(ray, running.popleft())
        finally:
            # After an error a task would go on writing into a folder that the caller may remove.
            with suppress(ray.exceptions.RayError):
                for reference in running:
                    ray.cancel(reference)
                if running:
                    ray.wait([*running], num_returns=len(running), timeout=CANCEL_SECONDS)


def _n_ahead(ray: Any, options: RunOptions) -> int:
    """Return the number of tasks to submit; it grows with machines that join the cluster."""
    if options.n_jobs is None or options.n_jobs > 0:
        return options.n_jobs or 1
    return TASKS_PER_CORE * max(int(ray.cluster_resources().get("CPU", 1)), 1)


def shard_options(
    options: RunOptions, progress: ProgressCallback = no_progress, cache: Path | None = None
) -> RunOptions:
    """Return the options of the work within a shard.

    A task of a cluster has one core. Only a shard in this process can report its progress, and keep
    the words of its images in a cache until it is done.
    """
    if options.cluster is None:
        return replace(options, progress=progress, cache=cache)
    return replace(options, cluster=None, n_jobs=1, progress=no_progress)


def _run_task(stored: list[Any], version: str, folder: str, shard: Any) -> Any:
    """Apply the stored function to a shard, in the folder of the process that started the run."""
    if version != _version():
        raise ClusterError(
            f"every machine must have supdocnade {version}, got {_version()} "
            f"on {socket.gethostname()}."
        )
    with suppress(OSError):  # It need not exist if all paths are absolute.
        os.chdir(folder)
    # In a list, so that Ray passes the reference: a worker unpickles the function once.
    return _fetch(stored[0])(shard)


def _version() -> str:
    """Return the version of this package, which itself imports what stands above this module."""
    return str(import_module("supdocnade").__version__)


@lru_cache(maxsize=1)
def _fetch(reference: Any) -> Any:
    import ray

    return ray.get(reference)


def _import_ray(cluster: str) -> Any:
    # Ray reports its use to its makers unless this is set before it is imported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # After an error it would also print those of the tasks that nobody waits for any more.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    if cluster == "local":
        # Ray then listens on the loopback interface alone, as it does on Windows.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
    except ImportError as error:
        raise ClusterError(
            f"a cluster needs Ray, which is not installed; {install_command('ray')}."
        ) from error
    return ray


@contextmanager
def _connect(ray: Any, options: RunOptions) -> Iterator[None]:
    """Connect to a cluster, or start one on this machine; keep a connection that exists.

    Ray itself reads the user's settings of authentication (RAY_AUTH_MODE and others); without any,
    the cluster that it starts requires a token.
    """
    if ray.is_initialized():
        yield
        return
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if options.cluster == "local":
            before = os.umask(0o077)  # Nobody else may read the token that it writes.
            try:
                ray.init(
                    "local",
                    num_cpus=effective_n_jobs(options.n_jobs),
                    include_dashboard=False,
                    **quiet,
                )
            finally:
                os.umask(before)
        else:
            _check_address(str(options.cluster))
            ray.init(options.cluster, **quiet)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        reason = str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
        raise ClusterError(f"no Ray cluster at {options.cluster!r}: {reason}.") from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Raise `OSError` if nothing answers; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()


def _result(ray: Any, reference: Any) -> Any:
    """Wait for the result of a task; raise the error that the task raised."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, Exception) and not isinstance(cause, ray.exceptions.RayError):
            raise cause from error
        # Neither the function nor its errors, but what is around it.
        reason = str(cause or error).strip().partition("\n")[0].partition(". ")[0].rstrip(".")
        raise ClusterError(
            f"the cluster failed, with {MAX_RETRIES + 1} attempts per task: {reason}; every "
            "machine needs the same version of this package and enough memory."
        ) from error
