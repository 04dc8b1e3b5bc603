"""The end of a command: after Ctrl-C within two seconds, whatever its threads do.

Python ends a program that was stopped only when its threads are done, and aborts it if one of them
is within a library in C++ at that time. Computations in C also delay Ctrl-C. So a thread of its own
sees the signal at once, gives the command a moment to keep what it has, and then ends the process.
"""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from supdocnade.cli.console import print_message

STOPPED = 130
"""Exit code after Ctrl-C."""

SECONDS = 1.5
"""Time that a command has after Ctrl-C."""

SAME_COMMAND = "the same command continues"
"""What is said about going on where a command needs no option for it."""

_ending = threading.Lock()
_sigterm_seconds = SECONDS
_stopped = False
_continue = ""


def watch_signals() -> None:
    """End this process in time after Ctrl-C, and at once if it is pressed again."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)
    # Libraries in C print an exception that they cannot raise, such as Ctrl-C during an import.
    sys.excepthook = _unless_stopped(sys.excepthook)
    sys.unraisablehook = _unless_stopped(sys.unraisablehook)
    # The thread holds both sockets, so that they stay open.
    threading.Thread(target=_end_in_time, args=[reader, writer], name=__name__, daemon=True).start()


def allow_seconds(seconds: float) -> None:
    """Give the command, which handles SIGTERM, more time after it."""
    global _sigterm_seconds
    _sigterm_seconds = seconds


def explain_resuming(how: str) -> None:
    """Set what is said after Ctrl-C or a full disk about how to go on, as "resume with: …"."""
    global _continue
    _continue = how


def add_resuming(error: str) -> str:
    """Return the message of an error that another run may not meet, with how to go on."""
    return f"{error.rstrip('.')}; the work so far is kept, {_continue}" if _continue else error


def was_stopped() -> bool:
    """Return whether Ctrl-C was pressed."""
    return _stopped


def print_stopped() -> None:
    """Print the line that a command prints last after Ctrl-C."""
    print_message(f"stopped; {_continue}" if _continue else "stopped")


def end_process(code: int) -> None:
    """Exit with a code, without waiting for threads that are still working.

    Python's own end frees all modules, which takes up to a second in which Ctrl-C kills the process
    silently.
    """
    _ending.acquire()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # It may be closed.
            stream.flush()
    os._exit(code)


def _unless_stopped(hook: Callable[..., object]) -> Callable[..., object]:
    """Return a hook that reports exceptions as another one does, but none after Ctrl-C."""
    return lambda *error: None if _stopped else hook(*error)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, and remember it: a library may make another error of it."""
    global _stopped
    _stopped = True
    raise KeyboardInterrupt


def _end_in_time(reader: socket.socket, _writer: socket.socket) -> None:
    """Wait for a signal, and then until the process should have ended."""
    global _stopped
    number = _next_signal(reader)
    _stopped = number == signal.SIGINT
    _next_signal(reader, SECONDS if _stopped else _sigterm_seconds)
    # Unless the process is about to end, and has printed its last line.
    if _ending.acquire(timeout=SECONDS / 5) and _stopped:
        if sys.stderr.isatty():
            sys.stderr.write("\n\x1b[?25h")  # Below a progress bar, and with a cursor.
        print_stopped()
    os._exit(STOPPED if _stopped else 0)


def _next_signal(reader: socket.socket, seconds: float | None = None) -> int:
    """Return the number of the next signal that ends the process, or 0 after some seconds."""
    end = None if seconds is None else time.monotonic() + seconds
    number = 0
    while number not in (signal.SIGINT, signal.SIGTERM):
        reader.settimeout(None if end is None else max(end - time.monotonic(), 0.001))
        try:
            number = reader.recv(1)[0]
        except TimeoutError:
            return 0
    return number
