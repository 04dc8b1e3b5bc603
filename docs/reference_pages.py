"""The reference pages of the site, made from docstrings and from the help of the command line.

The package is imported for it, so that signatures have the values of all defaults.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from textwrap import dedent
from typing import Any

import typer

import supdocnade
from supdocnade import baselines
from supdocnade.cli import main

PUBLIC = {name: module for module in (supdocnade, baselines) for name in module.__all__}
"""The public names, and the modules that they are imported from."""

LINE_LENGTH = 100
"""Of the docstrings."""


def list_names() -> Iterator[str]:
    """Yield the lines of the page that lists the public Python names."""
    yield "# Python"
    for module in (supdocnade, baselines):
        yield from ("", f"The names of `from {module.__name__} import …`:", "")
        yield from ("| name | |", "|---|---|")
        for name in sorted(module.__all__, key=str.lower):
            summary = inspect.cleandoc(getattr(module, name).__doc__).splitlines()[0]
            yield f"| [`{name}`]({name}.md) | {link_names(summary)} |"
    yield from (
        "",
        "[Version numbers](../../versions.md) says what stays as it is in later versions.",
    )


def describe_name(name: str) -> Iterator[str]:
    """Yield the lines of the page of a public Python name: its docstring, and its members."""
    thing = getattr(PUBLIC[name], name)
    yield from ("---", f"title: {name}", "---", "", f"# `{name}`")
    yield from describe(thing, 4, signature(name, thing))
    if isinstance(thing, type):
        for member in public_members(thing):
            value = inspect.getattr_static(thing, member)
            called = (
                () if isinstance(value, property) else signature(member, getattr(thing, member))
            )
            yield from ("", f"## {member}", *describe(value, 8, called))


def public_members(kind: type) -> Iterator[str]:
    """Yield the names of documented methods and properties, those of a class before inherited ones.

    Methods of settings, which the estimators inherit, are internal.
    """
    seen = set()
    for each in kind.__mro__:
        if each.__module__.startswith("supdocnade.") and not each.__module__.endswith(".settings"):
            for name, value in vars(each).items():
                documented = callable(value) or isinstance(value, classmethod | property)
                if documented and not name.startswith("_") and name not in seen and value.__doc__:
                    seen.add(name)
                    yield name


def signature(name: str, thing: Callable[..., Any]) -> Iterator[str]:
    """Yield a block with the arguments of a function or class and their defaults."""
    if isinstance(thing, type) and issubclass(thing, Warning):
        return
    found = inspect.signature(thing)
    plain = [each.replace(annotation=each.empty) for each in found.parameters.values()]
    if plain and plain[0].name == "self":
        del plain[0]
    text = f"{name}{found.replace(parameters=plain, return_annotation=found.empty)}"
    if len(text) > 80:
        arguments = text.removeprefix(f"{name}(").removesuffix(")")
        lines = re.split(r", (?=\*|\w+=|\w+(?:,|$))", arguments)
        text = f"{name}(\n" + "".join(f"    {line},\n" for line in lines) + ")"
    yield from ("", "```python", *text.splitlines(), "```")


def describe(thing: Any, indentation: int, called: Iterable[str] = ()) -> Iterator[str]:
    """Yield a docstring as Markdown: summary, lines about the call, text, sections as lists."""
    text = inspect.cleandoc(thing.__doc__ or "")
    head, *sections = re.split(r"^(\w[\w ]*)\n-+\n", text, flags=re.MULTILINE)
    summary, _, rest = head.partition("\n\n")
    yield from ("", *paragraphs(summary), *called)
    yield from paragraphs(rest) if rest.strip() else ()
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        yield from ("", f"**{title}**", "")
        if title.startswith(("Parameters", "Attributes", "Raises", "Returns", "Yields")):
            yield from entries(body, LINE_LENGTH - indentation)
        else:
            yield from paragraphs(body)


def paragraphs(text: str) -> Iterator[str]:
    """Yield the lines of a text, in which doctests become blocks of code."""
    for paragraph in text.strip("\n").split("\n\n"):
        plain, prompt, code = paragraph.partition(">>> ")
        yield from ("", link_names(plain))
        if prompt:
            yield from ("```pycon", *f"{prompt}{code}".splitlines(), "```")


def entries(text: str, width: int) -> Iterator[str]:
    """Yield a list of the entries of a section: names, what they are, and a description.

    The first line of an entry is its type if it ends before the width; otherwise it is the begin
    of a sentence.
    """
    for entry in re.findall(r"^\S.*\n?(?:(?:[ \t]+.*)?\n?(?!\S))*", text, re.MULTILINE):
        first, _, rest = entry.strip("\n").partition("\n")
        names, colon, kind = first.partition(" : ")
        rest = dedent(rest).strip("\n")
        if not colon and not rest:
            yield link_names(first)
            continue
        goes_on = len(first) > 60 and re.match("[a-z]", rest)
        is_type = not goes_on and len(f"{first} {rest.partition(' ')[0]}") <= width
        if colon and rest and (is_type or ", default=" in kind):
            kind = f"*{kind}*<br>"
        described = rest.replace("\n", "\n    ")
        listed = ", ".join(f"`{name}`" for name in names.split(", "))
        yield f"- {listed}: {link_names(f'{kind} {described}'.strip())}"


def link_names(text: str) -> str:
    """Return a text with links from public names and documents to their pages."""
    text = re.sub(r"\bdocs/([\w/-]+\.md)", r"[\1](../../\1)", text)

    def link(found: re.Match[str]) -> str:
        return f"[{found[0]}]({found[1]}.md)" if found[1] in PUBLIC else found[0]

    return re.sub(r"`(\w+)`", link, text)


def describe_commands() -> Iterator[str]:
    """Yield the lines of the page of commands, from the help of the command line."""
    group: Any = typer.main.get_command(main.app)
    yield from ("# Commands", "", escape(group.help.partition("\n")[0]))
    yield from ("", "| command | what it does |", "|---|---|")
    for name, command in group.commands.items():
        yield f"| [`{name}`](#{name}) | {escape(command.help.partition(chr(10))[0])} |"
    yield from ("", "| exit code | meaning |", "|---|---|")
    for code, meaning in re.findall(r"^(\d+) +(.+)$", str(main.__doc__), re.MULTILINE):
        yield f"| {code} | {meaning} |"
    for name, command in group.commands.items():
        context = typer.Context(command, info_name=name)
        yield from ("", f"## {name}", *help_paragraphs(command.help))
        yield from ("", "| argument or option | meaning |", "|---|---|")
        for parameter in command.get_params(context):
            names, text = parameter.get_help_record(context)
            # A narrow page breaks lines between the names, not within them.
            names = re.sub(r"<[^>]+>|[^ ,/]+", r"`\g<0>`", names.replace(" range>", ">"))
            yield f"| {names} | {escape(text)} |"


def help_paragraphs(text: str) -> Iterator[str]:
    r"""Yield the lines of a help text; paragraphs that begin with \b keep theirs."""
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("\b"):
            lines = paragraph.removeprefix("\b").removeprefix("\nExamples:").strip("\n")
            yield from ("", "```text", *dedent(lines).splitlines(), "```")
        else:
            yield from ("", escape(" ".join(paragraph.split())))


def escape(text: str) -> str:
    """Return plain text as Markdown, except that options and code in backticks are code."""
    option = re.compile(r"`[^`]*`|(?<![\w-])(--[a-z][a-z-]*)")
    text = option.sub(lambda found: f"`{found[1]}`" if found[1] else found[0], text)
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = (
        re.sub(r"([*_\[\]|\\])", r"\\\1", part.replace("<", "&lt;").replace(">", "&gt;"))
        for part in parts[::2]
    )
    return "".join(parts)
