"""Decoding in processes of their own, which can be ended, as photographs of strangers need it.

A decoder that crashes, or that needs too much time or memory, takes a process with it, and the
photograph is one that cannot be read. A process answers with an array or with a sentence; nothing
that it says is unpickled.
"""

import atexit
import json
import math
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import UnreadableImage
from supdocnade.images import decode

SECONDS = 30
"""CPU time to decode a photograph."""

MAX_BYTES = 2**32
"""Memory of a process: the largest JPEG file takes 3 GB."""

NEEDS_MEMORY = "needs more memory than there is."

_idle: list["DecodingProcess"] = []


@contextmanager
def decode_apart(
    seconds: int = SECONDS, is_given_up: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Let this thread decode files in another process, with a limit of CPU time for each.

    `is_given_up` says before each file that nobody waits for it any more: it cannot be read then.
    """

    def run(function: str, content: bytes, name: str, **options: Any) -> NDArray[np.uint8]:
        if is_given_up():
            raise UnreadableImage(f"{name} was given up.")
        try:
            process = _idle.pop()
        except IndexError:
            process = DecodingProcess()
        found = process.run((seconds, function, content, name, options))
        _idle.append(process)  # One that has failed is gone.
        if isinstance(found, str):
            raise UnreadableImage(found)
        return found

    if sys.platform == "win32":  # It has no limits of processes.
        yield
        return
    token = decode.apart.set(run)
    try:
        yield
    finally:
        decode.apart.reset(token)


class DecodingProcess:
    """A process that decodes one photograph after the other, until its standard input ends."""

    def __init__(self) -> None:
        program = "from supdocnade.images.decoder import answer; answer()"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", program],  # Imports nothing from the working directory.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is for the program alone.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )

    def run(self, request: tuple[Any, ...]) -> NDArray[np.uint8] | str:
        """Return an array, or the sentence of an error; a process that ends raises one."""
        questions, answers = cast(IO[bytes], self._process.stdin), self._process.stdout
        try:
            pickle.dump(request, questions, protocol=5)
            questions.flush()
            found = json.loads(cast(IO[bytes], answers).readline())
            return found if isinstance(found, str) else _read_array(answers, found)
        except (OSError, ValueError) as error:
            self.close()
            raise UnreadableImage(_describe_end(request, self._process.returncode)) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        with suppress(OSError):  # What it has not read is lost.
            self._process.communicate()


@atexit.register
def end_processes() -> None:
    """End the processes that wait for a photograph."""
    while _idle:
        _idle.pop().close()


def _read_array(file: Any, shape: list[int]) -> NDArray[np.uint8]:
    content = file.read(math.prod(shape))
    if len(content) != math.prod(shape):
        raise ValueError("the process has ended")
    return np.frombuffer(content, np.uint8).reshape(shape)


def _describe_end(request: tuple[Any, ...], code: int) -> str:
    seconds, _, _, name, _ = request
    if code == -signal.SIGXCPU:
        return f"{name} takes more than {seconds} seconds to decode."
    if code == -signal.SIGKILL:
        return f"{name} {NEEDS_MEMORY}"
    return f"{name} ends its decoder, with code {code}."


def answer() -> None:
    """Decode the photographs that are asked for on standard input."""
    import resource

    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")  # If memory runs out, this process ends first.
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    while True:
        try:
            seconds, function, content, name, options = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + seconds, most))
        pixels = np.empty(0, np.uint8)
        try:
            pixels = getattr(decode, function)(content, name=name, **options)
            said: Any = pixels.shape
        except UnreadableImage as error:
            said = str(error)
        except Exception as error:
            reason = str(error).rstrip(".") or type(error).__name__
            is_memory = isinstance(error, MemoryError)
            said = f"{name} {NEEDS_MEMORY if is_memory else f'cannot be decoded: {reason}.'}"
        sys.stdout.buffer.write(json.dumps(said).encode() + b"\n")
        sys.stdout.buffer.write(np.ascontiguousarray(pixels).data)
        sys.stdout.buffer.flush()
