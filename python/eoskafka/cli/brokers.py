"""What commands that ask brokers have in common: options, and what happens without an answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from eoskafka import properties
from eoskafka.cli.output import Exit, messages
from eoskafka.errors import UnreachableError
from eoskafka.tokens import TokenProvider

Servers = Annotated[
    str,
    typer.Option(help="The addresses of the brokers, as host:port with commas between them."),
]
Topics = Annotated[
    str,
    typer.Option(help="The names of topics, with commas between them.", show_default="all topics"),
]
Client = Annotated[
    list[str] | None,
    typer.Option(
        "-X",
        help="A property of the Kafka client, such as security.protocol=SASL_SSL. You can give "
        "this option several times. It takes precedence over --config.",
        metavar="KEY=VALUE",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="A file with properties of the Kafka client, in the format that Kafka's own tools "
        "read.",
    ),
]


def java_settings(items: list[str] | None, config: Path | None) -> dict[str, str]:
    """What `--config` and `-X` gave, as Kafka's own clients have it."""
    return {**(properties.read(config) if config else {}), **_settings(items)}


def _settings(items: list[str] | None) -> dict[str, str]:
    given = {}
    for item in items or []:
        key, equals, value = item.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"'{item}' does not have the form KEY=VALUE", param_hint="-X")
        given[key] = value
    return given


def client_settings(items: list[str] | None, config: Path | None) -> dict[str, Any]:
    """What `--config` and `-X` gave, as kafka-python has it."""
    in_file = properties.read(config) if config else {}
    found = properties.of_kafka_python(_settings(items), in_file)
    provider = found.get("sasl_oauth_token_provider")
    if isinstance(provider, TokenProvider):
        # Now, because a client that gets no token tries again and again, and does not say why.
        with reaching():
            provider.token()
    return found


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
