"""Commands as classes: fields are arguments and options, and the docstring is the help text.

Nothing here imports numpy, since the help of every command is made from these classes.
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from difflib import get_close_matches
from functools import partial
from inspect import Parameter, Signature
from typing import Annotated, Any, Literal, dataclass_transform, get_args, get_type_hints

import typer

from supdocnade.checks import check_settings
from supdocnade.errors import InvalidArgument
from supdocnade.images.source import normalize_address


class UsageError(typer.TyperException):
    """Invalid or conflicting options."""

    exit_code = 2


def argument(metavar: str, help: str, default: Any = MISSING, **more: Any) -> Any:
    """Return a field that is an argument; `more` is as for `typer.Argument`."""
    declare = partial(typer.Argument, metavar=metavar, help=help, **more)
    return field(default=default, metadata={"declare": declare})


def option(default: Any, help: str, *flags: str, **more: Any) -> Any:
    """Return a field that is an option; `more` is as for `typer.Option`.

    Parameters
    ----------
    default : `MISSING` if the option is required.
    flags : by default, the name of the field.
    """
    if more.keys() & {"min", "max"}:
        more.setdefault("metavar", "NUMBER")
    declare = partial(typer.Option, help=help, **more)
    return field(default=default, metadata={"declare": declare, "flags": flags})


def settings_of(*kinds: type[Any], without: Sequence[str] = ()) -> Any:
    """Return a field for the settings of classes, without some and those of a run, for --set."""
    known = {
        each.name: each
        for kind in kinds
        for each in fields(kind)
        if each.metadata.get("group", "run") != "run" and each.name not in without
    }
    return field(metadata={"settings": known})


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Command:
    """Arguments and options of a command, which are fields of a subclass.

    Fields by `setting` are given by --set NAME=VALUE. The function that does the work has the name
    of the command.
    """

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)

    @classmethod
    def command_name(cls) -> str:
        """Return the name of the command."""
        return cls.__name__.lower()

    def check(self) -> None:
        """Raise `UsageError` if options do not fit together."""


class Quiet(Command):
    """Options of commands that have something to say beside their result."""

    quiet: bool = option(False, "Show no progress and no notes, only errors.", "--quiet", "-q")


class Printing(Quiet):
    """Options of commands that print a result."""

    json: bool = option(False, "Print results as JSON.")


class Parallel(Command):
    """Options of commands that work in parallel."""

    jobs: int = option(
        -1,
        "Number of workers; -1 uses all cores. Does not affect results.",
        *("--jobs", "-j"),
        metavar="NUMBER",
    )

    def check(self) -> None:
        """Raise `UsageError` if options do not fit together."""
        super().check()
        if self.jobs == 0:
            raise UsageError("--jobs must not be 0; -1 uses all cores.")


class OnDevice(Command):
    """Options of commands that may use a GPU."""

    device: Literal["auto", "cpu", "cuda"] = option("auto", "Device to compute on.")

    def check(self) -> None:
        """Raise an error if this machine does not have the device."""
        super().check()
        if self.device == "cuda":
            # Torch takes a second to import, and many commands work without it.
            from supdocnade.likelihood.operations import choose_device

            choose_device(self.device)


MODEL = "Folder of a model."
PHOTOS = (
    "Folder of photographs, one sub-folder per class; or an address (s3://bucket/photos), tar "
    "files, or a text file that lists photographs."
)


class FromPhotos(Command):
    """Arguments of commands that read classes and tags of photographs."""

    photos: str = argument("PHOTOS", PHOTOS, callback=normalize_address)
    classes: Literal["none", "top", "leaf"] | None = option(
        None,
        "Folders that are classes: none (learn tags alone), top (the first on a path) or leaf (the "
        "last); by default top, or none if all look like dates.",
    )


FEATURES = (
    "Description of patches: sift, a network (see supdocnade features), or auto: the network of "
    "the extra deep if it is installed, otherwise sift."
)
SEED = "Random seed; the same seed gives the same result."
SKIP = "Skip photographs and lines of the metadata that cannot be read."
FORCE = "Replace an existing model."
RESUME = "Resume an interrupted run."


def make_callback(declared: type[Command], run: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return the function from which Typer makes a command; it calls `run` with an instance."""
    known = _known_settings(declared)

    def start(context: typer.Context, **values: Any) -> Any:
        sources = {name: context.get_parameter_source(name) for name in values}
        chosen = parse_settings(values.pop("set", None) or (), known)
        values["given"] = frozenset(
            name for name, each in sources.items() if getattr(each, "name", "") == "COMMANDLINE"
        ).union(chosen)
        options = {}
        for each in fields(declared):  # type: ignore[arg-type]
            if "settings" in each.metadata:
                inner = each.metadata["settings"]
                options[each.name] = {name: chosen[name] for name in chosen if name in inner}
            elif "limits" in each.metadata:
                options[each.name] = chosen.get(each.name, each.default)
            else:
                options[each.name] = values[each.name]
        command = declared(**options)
        try:
            check_settings(command)
        except InvalidArgument as error:
            raise UsageError(f"--set {error}") from None
        return run(command)

    parameters = [
        Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context),
        *_parameters(declared),
    ]
    start.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    start.__doc__ = declared.__doc__
    return start


def _parameters(declared: type[Command]) -> Iterator[Parameter]:
    """Yield the parameters of a command: the fields of a class before those of its bases."""
    kinds = get_type_hints(declared)
    named = {each.name: each for each in fields(declared)}  # type: ignore[arg-type]
    names = [name for kind in declared.__mro__ for name in vars(kind).get("__annotations__", ())]
    for name in (name for name in dict.fromkeys(names) if name in named):
        each = named[name]
        if "declare" in each.metadata:
            flags = each.metadata.get("flags")
            given = () if flags is None else flags or (flag_of(name),)
            default = Parameter.empty if each.default is MISSING else each.default
            yield _parameter(name, kinds[name], each.metadata["declare"](*given), default)
    if known := _known_settings(declared):
        declare = typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help=f"Change another setting: {', '.join(known)}.",
        )
        yield _parameter("set", list[str] | None, declare, None)


def _parameter(name: str, kind: Any, declared: Any, default: Any) -> Parameter:
    annotation = Annotated[kind, declared]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _known_settings(declared: type[Command]) -> dict[str, Field[Any]]:
    """Return the settings of a command that --set gives, by name."""
    found: dict[str, Field[Any]] = {}
    for each in fields(declared):  # type: ignore[arg-type]
        if "settings" in each.metadata:
            found |= each.metadata["settings"]
        elif "limits" in each.metadata:
            found[each.name] = each
    return found


def parse_settings(given: Sequence[str], known: Mapping[str, Field[Any]]) -> dict[str, Any]:
    """Return the values that --set gives, by name, or raise `UsageError`.

    >>> from supdocnade.visual_words.settings import VisualWordSettings
    >>> known = {each.name: each for each in fields(VisualWordSettings)}
    >>> parse_settings(["grid=3,3", "mirror=true", "features=sift", "max_side=none"], known)
    {'grid': (3, 3), 'mirror': True, 'features': 'sift', 'max_side': None}
    """
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise UsageError(f"--set must be NAME=VALUE, got {text!r}.")
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}."
            raise UsageError(f"--set {name}: there is no such setting; {hint}")
        found[name] = _parse_value(name, value.strip(), known[name].type)
    return found


def _parse_value(name: str, text: str, kind: Any) -> Any:
    kinds = {kind, *get_args(kind)}
    if text.lower() == "none" and type(None) in kinds:
        return None
    if str in kinds:
        return text
    named = {"true": True, "false": False}
    if text.lower() in named:
        return named[text.lower()]
    if kind is bool:
        raise UsageError(f"--set {name} must be true or false, got {text}.")
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, int | float | list | tuple) else text


def flag_of(name: str) -> str:
    """Return the option with a name.

    >>> flag_of("min_probability")
    '--min-probability'
    """
    return f"--{name.replace('_', '-')}"


def check_formats(*, json: bool, csv: bool) -> None:
    """Raise if results are wanted in two formats."""
    if json and csv:
        raise UsageError("--json and --csv must not both be given.")
