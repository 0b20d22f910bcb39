"""Makes cli.md from the commands: `make docs`."""

from __future__ import annotations

import enum
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from eoskafka.cli.app import app
from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

TARGET = Path(__file__).with_name("cli.md")

_HEAD = """\
# Commands

Made from the commands by `make docs`; do not edit.

`pip install` puts the command `eoskafka` on the path. Every command explains itself with `--help`, and
`eoskafka --install-completion` makes the shell complete commands and options.

Data goes to standard output, and messages go to standard error. With `--format json` a command prints one
JSON object.

| exit code | meaning |
|---|---|
| 0 | The command is done. |
| 1 | The command was refused or failed, or it found a problem. |
| 2 | The command line is wrong. |
| 3 | A broker or a driver does not answer, or the result could not be determined. |
"""


class Command(typing.NamedTuple):
    """One command of the tree."""

    name: str
    function: Callable[..., Any]
    example: str


def commands(of: typer.Typer = app, path: str = "eoskafka") -> Iterator[Command]:
    """Every command, in the order of `eoskafka --help`."""
    for command in of.registered_commands:
        function = command.callback
        assert function is not None
        name = command.name or function.__name__.replace("_", "-")
        yield Command(f"{path} {name}", function, _example(command.epilog))
    for group in of.registered_groups:
        assert group.typer_instance is not None
        yield from commands(group.typer_instance, f"{path} {group.name}")


def _example(epilog: str | None) -> str:
    assert epilog is not None
    assert epilog.startswith("Example: "), epilog
    return epilog.removeprefix("Example: ")


class Parameter(typing.NamedTuple):
    """An argument or an option of a command."""

    name: str
    takes: str
    default: str
    help: str


def parameters(function: Callable[..., Any]) -> Iterator[Parameter]:
    """What a command takes, in the order of its help."""
    hints = typing.get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        kind, info = _annotation(hints[name])
        takes, is_flag = _takes(kind), kind is bool
        # Within Annotated, typer takes the first name for the default.
        declared = [
            each
            for each in (info.default, *(info.param_decls or ()))
            if isinstance(each, str) and each.startswith("-")
        ]
        if isinstance(info, ArgumentInfo):
            shown = name.upper()
        else:
            dashed = name.replace("_", "-")
            shown = ", ".join(declared) or f"--{dashed}"
            if is_flag and not declared:
                shown += f" / --no-{dashed}"
        yield Parameter(
            shown, "" if is_flag else info.metavar or takes, _default(parameter, info), _help(info)
        )


def _annotation(hint: Any) -> tuple[Any, ParameterInfo]:
    """The type of a parameter, and what typer knows of it."""
    if typing.get_origin(hint) is not Annotated:
        # `Optional[Annotated[...]]`, which Python makes of a default None.
        (hint,) = [each for each in typing.get_args(hint) if each is not type(None)]
    kind, *metadata = typing.get_args(hint)
    (info,) = [each for each in metadata if isinstance(each, OptionInfo | ArgumentInfo)]
    given = [each for each in typing.get_args(kind) if each is not type(None)]
    return (given[0] if given else kind), info


def _takes(kind: Any) -> str:
    if inspect.isclass(kind) and issubclass(kind, enum.Enum):
        return " | ".join(str(each.value) for each in kind)
    names: dict[Any, str] = {int: "number", float: "number", Path: "path", str: "text"}
    return names.get(kind, "text")


def _default(parameter: inspect.Parameter, info: ParameterInfo) -> str:
    value = parameter.default
    if isinstance(info.show_default, str):
        return info.show_default
    if value is inspect.Parameter.empty:
        return "required"
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, bool):
        return f"`{_named(parameter.name)}`" if value else ""
    return "" if value in (None, "") else f"`{value}`"


def _named(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _help(info: ParameterInfo) -> str:
    return " ".join((info.help or "").split())


def text() -> str:
    """The whole page."""
    found = list(commands())
    index = "".join(
        f"| [`{each.name}`](#{each.name.replace(' ', '-')}) | {_summary(each.function)} |\n"
        for each in found
    )
    parts = [_HEAD, f"\n| command | what it does |\n|---|---|\n{index}"]
    for each in found:
        paragraphs = inspect.cleandoc(each.function.__doc__ or "").split("\n\n")
        prose = "\n\n".join(_escaped(" ".join(paragraph.split())) for paragraph in paragraphs)
        parts.append(f"\n## `{each.name}`\n\n{prose}\n")
        rows = [
            f"| `{p.name}` | {_cell(p.takes)} | {p.default} | {_cell(p.help)} |\n"
            for p in parameters(each.function)
        ]
        if rows:
            parts.append("\n| option | takes | default | meaning |\n|---|---|---|---|\n")
            parts += rows
        parts.append(f"\nExample:\n\n```\n{each.example}\n```\n")
    return "".join(parts)


def _summary(function: Callable[..., Any]) -> str:
    first = inspect.cleandoc(function.__doc__ or "").split("\n\n")[0]
    return _cell(" ".join(first.split()))


def _cell(value: str) -> str:
    return _escaped(value).replace("|", "\\|")


def _escaped(value: str) -> str:
    """Angle brackets that Markdown would take for HTML, outside code."""
    parts = value.split("`")
    parts[::2] = [re.sub("[<>]", r"\\\g<0>", part) for part in parts[::2]]
    return "`".join(parts)
