"""The program `supdocnade`: its commands, how errors are shown, and exit codes.

==== ===========================================================
code meaning
==== ===========================================================
0    done
1    failed, or some of the photographs could not be read
2    the command line itself is wrong
130  stopped with Ctrl-C
==== ===========================================================
"""

import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer

from supdocnade import __version__
from supdocnade.cli.bench import bench
from supdocnade.cli.console import note
from supdocnade.cli.demo import demo
from supdocnade.cli.evaluate import evaluate
from supdocnade.cli.explain import explain
from supdocnade.cli.index import index
from supdocnade.cli.predict import predict
from supdocnade.cli.report import report
from supdocnade.cli.reproduce import reproduce
from supdocnade.cli.serve import serve
from supdocnade.cli.train import train
from supdocnade.errors import SupDocNADEError

app = typer.Typer(
    name="supdocnade",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (demo, train, predict, evaluate, explain, report, index, serve, reproduce, bench)
for command in COMMANDS:
    app.command()(command)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"supdocnade {__version__}")
        raise typer.Exit


@app.callback()
def describe(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Classify and tag photographs on your own machine, and see why.

    \b
    supdocnade demo                     no photographs needed
    supdocnade train PHOTOS -o MODEL    learn from PHOTOS/<class>/*.jpg
    supdocnade predict MODEL IMAGE...   classes and tags of other photographs
    supdocnade COMMAND --help           options and examples
    """


def run(arguments: Sequence[str]) -> int:
    """Do what a command line says; return the exit code."""
    debug = "--debug" in arguments
    if not arguments:
        run(["--help"])
        return 2
    try:
        code = typer.main.get_command(app).main(
            list(arguments), prog_name="supdocnade", standalone_mode=False
        )
        return code if isinstance(code, int) else 0
    except typer.TyperException as error:
        note(f"error: {one_line(error.format_message())} (see supdocnade --help)")
        return error.exit_code
    except Exception as error:
        if debug:
            raise
        note(f"error: {one_line(_sentence(error))}")
        return 1


def one_line(text: str) -> str:
    """Return a message without line breaks."""
    return " ".join(text.split())


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}."
    # Torch has no error of its own for it.
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return "there is not enough memory for this."
    if isinstance(error, SupDocNADEError | OSError):
        return str(error) or type(error).__name__
    what = f"{type(error).__name__}: {error}"
    return f"{what} (a mistake of this program; --debug shows where)"


def main() -> None:
    """Run the command line of this process."""
    for stream in (sys.stdout, sys.stderr):
        # Names of files need not be text in the terminal's encoding.
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    warnings.showwarning = _note_warning
    sys.exit(run(sys.argv[1:]))


def _note_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    note(f"note: {one_line(str(message))}")
