"""Disks that are full or read-only, and files that are not for everyone: the real ones."""

import ctypes
import json
import os
import shlex
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.commands import Done

ROOT = Path(__file__).parents[1]

_RUN = (
    "import json, sys\n"
    "from tests.commands import supdocnade\n"
    "print(json.dumps([supdocnade(*arguments) for arguments in json.loads(sys.argv[1])]))"
)

_CAPABILITIES = 0x20080522
"""The version of Linux's structures that has 64 of them."""
_PASS_OVER_PERMISSIONS = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""


def read_only(folder):
    """Return what makes a folder read-only, for `commands_on`."""
    name = shlex.quote(str(folder))
    return f"mount --bind {name} {name} && mount -o remount,bind,ro {name}"


def small(folder, **limits):
    """Return what makes a folder an empty disk of some size, for `commands_on`."""
    options = ",".join(f"{name}={value}" for name, value in limits.items())
    return f"mount -t tmpfs -o {options} tmpfs {shlex.quote(str(folder))}"


def seeing(disks):
    """Return what a command begins with whose process sees disks of its own.

    Parameters
    ----------
    disks : lines of a shell that mount them.
    """
    own = ["unshare", "--mount", "--propagation", "private"]
    if os.geteuid() != 0:
        own.append("--map-root-user")
    mounted = [*own, "sh", "-c", " && ".join([*disks, 'exec "$@"']), "sh"]
    try:
        subprocess.run([*mounted, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no disk can be mounted here: {error}")
    return mounted


def commands_on(disks, commands):
    """Run commands in a process that sees disks of its own; return what each did, by its name.

    Parameters
    ----------
    disks : lines of a shell that mount them.
    commands : arguments of commands by some name.
    """
    wanted = [[str(argument) for argument in command] for command in commands.values()]
    done = subprocess.run(
        [*seeing(disks), sys.executable, "-c", _RUN, json.dumps(wanted)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return {name: Done(*each) for name, each in zip(commands, json.loads(done.stdout), strict=True)}


@contextmanager
def permissions_count():
    """Be bound by the permissions of files in this thread, even as root."""
    if os.geteuid() != 0:
        yield
        return
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        get, put = libc.capget, libc.capset
    except (OSError, AttributeError):
        pytest.skip("nothing is read-only to root here")
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0)
    before = (ctypes.c_uint32 * 6)()
    assert get(header, before) == 0
    without = (ctypes.c_uint32 * 6)(*before)
    without[0] &= ~_PASS_OVER_PERMISSIONS  # Of those in effect; they may be taken up again.
    assert put(header, without) == 0
    try:
        yield
    finally:
        assert put(header, before) == 0
