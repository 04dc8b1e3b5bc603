"""The program `supdocnade`: its commands, error messages and exit codes.

==== ===========================================================
code meaning
==== ===========================================================
0    success
1    failure, or some photographs could not be read
2    invalid command line
130  interrupted with Ctrl-C
==== ===========================================================
"""

import re
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from supdocnade import __version__
from supdocnade.cli import learning_commands, model_commands
from supdocnade.cli.console import print_message, print_warning
from supdocnade.cli.options import Command, make_callback
from supdocnade.cli.stopping import (
    STOPPED,
    add_resuming,
    end_process,
    explain_resuming,
    print_stopped,
    was_stopped,
    watch_signals,
)
from supdocnade.errors import ProcessLost, SupDocNADEError, UnreadableImage, UnwritableFile

COMMANDS: dict[type[Command], str] = {
    learning_commands.Demo: "demo",
    learning_commands.Check: "check",
    learning_commands.Train: "train",
    model_commands.Predict: "predict",
    model_commands.Tag: "tag",
    model_commands.Evaluate: "about_model",
    model_commands.Explain: "predict",
    model_commands.Suggest: "archive",
    model_commands.Info: "about_model",
    model_commands.Report: "about_model",
    model_commands.Index: "archive",
    model_commands.Serve: "serve",
    learning_commands.Features: "features",
    model_commands.Card: "about_model",
    learning_commands.Encode: "archive",
    learning_commands.Topics: "topics",
}
"""The commands, and the modules with their work, which are imported when they run."""

HEADINGS = {
    "Settings": "features n_topics n_words fields seed set",
    "Input": "classes skip_unreadable add corrections index photos",
    "Output": "output predict force resume replace strip name licence top csv count",
    "Explanation": "label tag",
    "Keywords": "min_probability with_class sidecar embed dry_run record undo",
    "Networks": "import_file",
    "Access": "host port token allow_open",
    "General": "all_rows device jobs json quiet help",
}
"""Headings of options in the help of commands."""


class CommandWithHeadings(TyperCommand):
    """A command whose help has one section for each heading of options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options."""
        parameters = {str(each.name): each for each in self.get_params(ctx)}
        known = {name for names in HEADINGS.values() for name in names.split()}
        arguments = " ".join(name for name in parameters if name not in known)
        for heading, names in {"Arguments": arguments, **HEADINGS}.items():
            found = [parameters[name] for name in names.split() if name in parameters]
            if found:
                records = filter(None, (each.get_help_record(ctx) for each in found))
                with formatter.section(heading):
                    formatter.write_dl([(_name_type(name), text) for name, text in records])

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the line of usage, arguments without braces."""
        return [
            each.replace("{", "").replace("}", "") for each in super().collect_usage_pieces(ctx)
        ]


_TYPE = re.compile(r" <(path|str|list\[str\])>")


def _name_type(name: str) -> str:
    """Return an option with its type as people call it, or an argument, which needs none.

    >>> _name_type("--record <path>"), _name_type("MODEL <path>")
    ('--record PATH', 'MODEL')
    """
    kind = " PATH" if "<path>" in name else " TEXT"
    return _TYPE.sub(kind if name.startswith("-") else "", name)


def run_command(options: Command) -> None:
    """Run a command with its options."""
    options.check()
    module = import_module(f"supdocnade.cli.{COMMANDS[type(options)]}")
    if code := getattr(module, options.command_name())(options):
        raise typer.Exit(code)


app = typer.Typer(
    name="supdocnade",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for command in COMMANDS:
    line = str(command.__doc__).partition("\n")[0]
    app.command(command.command_name(), cls=CommandWithHeadings, short_help=line)(
        make_callback(command, run_command)
    )


def _print_version(version: bool) -> None:
    if version:
        print(f"supdocnade {__version__}")
        raise typer.Exit


@app.callback()
def describe(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error of any command.")
    ] = False,
) -> None:
    """Classify and tag photographs on your own machine, with explanations.

    \b
    supdocnade demo                     run on drawn scenes, no photographs needed
    supdocnade train PHOTOS -o MODEL    learn from PHOTOS/<class>/*.jpg
    supdocnade predict MODEL IMAGE...   classes and tags of other photographs
    supdocnade COMMAND --help           options and examples
    """


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return the exit code."""
    debug = "--debug" in arguments
    arguments = [each for each in arguments if each != "--debug"]
    if not arguments:
        run(["--help"])
        return 2
    if arguments[0] == "help":
        arguments = [*arguments[1:], "--help"]
    elif arguments == ["version"]:
        arguments = ["--version"]
    explain_resuming("")
    try:
        code = typer.main.get_command(app).main(
            arguments, prog_name="supdocnade", standalone_mode=False
        )
        if code == STOPPED or was_stopped():
            print_stopped()
            return STOPPED
        return code if isinstance(code, int) else 0
    except typer.TyperException as error:
        names = [each.command_name() for each in COMMANDS]
        command = f"supdocnade {arguments[0]}" if arguments[0] in names else "supdocnade"
        text = describe_usage_error(one_line(error.format_message()))
        print_message(f"error: {text} (see {command} --help)")
        return error.exit_code
    except Exception as error:
        if was_stopped():  # Ctrl-C was taken for something else, as for a failing import.
            print_stopped()
            return STOPPED
        if debug:
            raise
        text = one_line(_describe_error(error))
        if isinstance(error, UnreadableImage | UnwritableFile | ProcessLost):
            text = add_resuming(text)
        print_message(f"error: {text}")
        return 1


_INVALID = re.compile(r"Invalid value for '([^']+)': (.*)")
_VALUE_ERRORS = (
    (r"Input should be greater than or equal to (.*)", r"must be at least \1"),
    (r"Input should be less than or equal to (.*)", r"must be at most \1"),
    (r"Input should be a valid integer.*", "must be a whole number"),
    (r"Input should be a valid number.*", "must be a number"),
    (r"Value error, (.*) is not one of (.*)\.", r"must be one of \2, got \1"),
)
"""Messages of the parser about values, and better ones."""


def describe_usage_error(message: str) -> str:
    """Return a message of the parser of the command line in the style of all other errors.

    >>> describe_usage_error("Invalid value for '--top': Input should be less than or equal to 9")
    '--top must be at most 9.'
    >>> describe_usage_error("Missing argument 'PHOTOS'.")
    "missing argument 'PHOTOS'."
    """
    if invalid := _INVALID.fullmatch(message):
        name, reason = invalid.groups()
        for pattern, better in _VALUE_ERRORS:
            if found := re.fullmatch(pattern, reason):
                return f"{name} {found.expand(better)}."
        return f"{name}: {reason}"
    first = message.partition(" ")[0]
    return message if first.isupper() else message[:1].lower() + message[1:]


def one_line(text: str) -> str:
    """Return a message without line breaks."""
    return " ".join(text.split())


def _describe_error(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}."
    # Torch raises a plain RuntimeError if memory runs out.
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return "there is not enough memory for this."
    if isinstance(error, SupDocNADEError | OSError):
        return str(error) or type(error).__name__
    return f"{type(error).__name__}: {error} (a bug in supdocnade; --debug shows the traceback)"


def main() -> None:
    """Run the command line of this process and exit."""
    for stream in (sys.stdout, sys.stderr):
        # File names need not be valid text in the encoding of the terminal.
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    warnings.showwarning = print_warning
    watch_signals()
    end_process(run(sys.argv[1:]))
