"""Commands as classes: fields are arguments and options, and the docstring is the help text.

Nothing here imports numpy, since the help of every command is made from these classes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import partial
from inspect import Parameter, Signature
from typing import Annotated, Any, Literal, dataclass_transform, get_type_hints

import typer

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


def setting_options(settings: type, *names: str) -> Any:
    """Return a field that is one option for each setting with an `option`, or for those named."""
    return field(metadata={"settings": settings, "names": names})


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Command:
    """Arguments and options of a command, which are fields of a subclass.

    The function that does the work has the name of the command.
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

    @property
    def works_here(self) -> bool:
        """Whether this machine does the work."""
        return True

    def check(self) -> None:
        """Raise an error if this machine should have the device, and does not."""
        super().check()
        if self.device == "cuda" and self.works_here:
            # Torch takes a second to import, and many commands work without it.
            from supdocnade.training.trainer import choose_device

            choose_device(self.device)


class OnCluster(OnDevice, Parallel):
    """Options of commands whose work other machines may do."""

    cluster: str | None = option(
        None,
        "Work on a Ray cluster: local starts one on this machine, auto finds the one that runs "
        "here, anything else is its address. Does not affect results.",
        metavar="ADDRESS",
    )
    shard_size: int = option(1000, "Photographs per task.", min=1)

    @property
    def works_here(self) -> bool:
        """Whether this machine does the work."""
        return self.cluster is None


MODEL = "Folder of a model."
PHOTOS = (
    "Folder of photographs, one sub-folder per class; or an address (s3://bucket/photos), tar "
    "files, or a text file that lists photographs."
)


def photos_argument() -> Any:
    """Return the argument PHOTOS: one place."""
    return argument("PHOTOS", PHOTOS, callback=normalize_address)


def classes_option() -> Any:
    """Return the option --classes."""
    return option(
        None,
        "Folders that are classes: none (learn tags alone), top (the first on a path) or leaf (the "
        "last); by default top, or none if all look like dates.",
    )


FEATURES = (
    "Description of patches: sift, a network (see supdocnade features), or auto: the network of "
    "the extra deep if it is installed, otherwise sift."
)
SEED = "Random seed; the same seed gives the same result."


def make_callback(declared: type[Command], run: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return the function from which Typer makes a command; it calls `run` with an instance."""

    def start(context: typer.Context, **values: Any) -> Any:
        sources = {name: context.get_parameter_source(name) for name in values}
        values["given"] = frozenset(
            name for name, each in sources.items() if getattr(each, "name", "") == "COMMANDLINE"
        )
        options = {}
        for each in fields(declared):  # type: ignore[arg-type]
            if "settings" in each.metadata:
                options[each.name] = {rule.name: values[rule.name] for rule in _settings(each)}
            else:
                options[each.name] = values[each.name]
        return run(declared(**options))

    debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
    parameters = [
        Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context),
        *_parameters(declared),
        # The program reads it before there are commands.
        Parameter("debug", Parameter.KEYWORD_ONLY, default=False, annotation=debug),
    ]
    start.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    start.__doc__ = declared.__doc__
    return start


def _parameters(declared: type[Command]) -> Iterator[Parameter]:
    """Yield the parameters of a command: the fields of a class before those of its bases."""
    kinds = get_type_hints(declared)
    named = {each.name: each for each in fields(declared)}  # type: ignore[arg-type]
    names = [name for kind in declared.__mro__ for name in vars(kind).get("__annotations__", ())]
    for name in dict.fromkeys(names):
        each = named[name]
        if "settings" in each.metadata:
            yield from map(_setting_parameter, _settings(each))
        elif "declare" in each.metadata:
            flags = each.metadata.get("flags")
            given = () if flags is None else flags or (flag_of(name),)
            yield _parameter(each, kinds[name], each.metadata["declare"](*given))


def _settings(each: Field[Any]) -> list[Field[Any]]:
    """Return the settings that are options by a field of `setting_options`."""
    names = each.metadata["names"]
    return [
        rule
        for rule in fields(each.metadata["settings"])
        if (rule.name in names if names else rule.metadata.get("option"))
    ]


def _setting_parameter(rule: Field[Any]) -> Parameter:
    """Return the parameter for a setting, with its default, its limits and its help."""
    limits = rule.metadata["limits"]
    least = limits.get("least", limits.get("above"))
    help = rule.metadata["help"].split(". ")[0].rstrip(".") + "."
    number = "NUMBER" if least is not None else None
    declared = typer.Option(
        rule.metadata["option"],
        min=least,
        max=limits.get("most"),
        help=help,
        metavar=number,
    )
    return _parameter(rule, rule.type, declared)


def _parameter(each: Field[Any], kind: Any, declared: Any) -> Parameter:
    default = Parameter.empty if each.default is MISSING else each.default
    annotation = Annotated[kind, declared]
    return Parameter(each.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def flag_of(name: str) -> str:
    """Return the option with a name.

    >>> flag_of("write_xmp")
    '--write-xmp'
    """
    return f"--{name.replace('_', '-')}"


def check_formats(*, json: bool, csv: bool) -> None:
    """Raise if results are wanted in two formats."""
    if json and csv:
        raise UsageError("--json and --csv must not both be given.")


def check_together(
    options: Command, name: str, needing: Sequence[str] = (), excluded: Sequence[str] = ()
) -> None:
    """Raise `UsageError` for other options that need an option, or that it excludes."""
    is_given = getattr(options, name) not in (None, False)
    for other in excluded if is_given else needing:
        if getattr(options, other) not in (None, False):
            relation = "must not be given with" if is_given else "needs"
            raise UsageError(f"{flag_of(other)} {relation} {flag_of(name)}.")
