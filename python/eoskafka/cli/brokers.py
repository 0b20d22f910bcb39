"""What commands that ask brokers have in common: options, and what happens without an answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from eoskafka.cli.output import Exit, messages
from eoskafka.errors import UnreachableError

Servers = Annotated[str, typer.Option(help="Brokers, host:port,...")]
Topics = Annotated[str, typer.Option(help="Topics, with commas between them; all by default.")]
Client = Annotated[
    list[str] | None,
    typer.Option(
        "-X",
        help="A setting of kafka-python's client, key=value; may be repeated.",
        metavar="KEY=VALUE",
    ),
]


def settings(items: list[str] | None) -> dict[str, str]:
    """The settings that `-X` gave, in the order given."""
    given = {}
    for item in items or []:
        key, equals, value = item.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"'{item}' is not key=value", param_hint="-X")
        given[key] = value
    return given


def client_settings(items: list[str] | None) -> dict[str, Any]:
    """The same as kafka-python has them: underscores for dots, numbers and truth values."""
    return {key.replace(".", "_"): _value(value) for key, value in settings(items).items()}


def _value(text: str) -> str | int | bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.isascii() and text.isdecimal() else text


def names(topics: str) -> list[str]:
    """The topics of an option."""
    return [topic.strip() for topic in topics.split(",") if topic.strip()]


@contextmanager
def reaching() -> Iterator[None]:
    """End with 3 where brokers do not answer inside the block."""
    try:
        yield
    except UnreachableError as error:
        messages.print(str(error), markup=False)
        raise typer.Exit(Exit.UNREACHABLE) from error
