"""What commands that ask brokers have in common: options, and what happens without an answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
        "this option several times. It takes precedence over --config. Do not give passwords in "
        "this way: other users of this machine can see them.",
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


# A client's setting, in Kafka's form or with underscores.
_KEY = re.compile(r"[\w.-]+")
# Of settings, and of options of a log-in module.
_HOLDS_SECRET = re.compile(
    r"password|secret|passphrase|private.?key|keystore[._]key$|access.?key|token$", re.IGNORECASE
)


def java_settings(items: list[str] | None, config: Path | None) -> dict[str, str]:
    """What `--config` and `-X` gave, as Kafka's own clients have it."""
    return {**(properties.read(config) if config else {}), **_settings(items)}


def _settings(items: list[str] | None) -> dict[str, str]:
    given = {}
    for number, item in enumerate(items or [], 1):
        key, equals, value = item.partition("=")
        if not _KEY.fullmatch(key) or not equals:
            # The message leaves the text itself out, because it may hold a secret.
            raise typer.BadParameter(
                f"number {number} of these options does not have the form KEY=VALUE",
                param_hint="-X",
            )
        given[key] = value
    _warn_of_secrets(given)
    return given


def _warn_of_secrets(given: Mapping[str, str]) -> None:
    shown = sorted(key for key, value in given.items() if _is_secret(key, value))
    if shown:
        messages.print(
            f"warning: -X has put {', '.join(shown)} on the command line. Other users of this "
            "machine can see it in the list of processes, and your shell may keep it in its "
            "history. Put it into a file that only you can read, and name the file with --config.",
            style="yellow",
            markup=False,
        )


def _is_secret(key: str, value: str) -> bool:
    """Whether a setting holds a secret itself, and not only the place where one is kept."""
    if "jaas" in key.lower():
        return any(
            _HOLDS_SECRET.search(name) and not properties.VARIABLE.fullmatch(text)
            for name, text in properties.jaas_options(value).items()
        )
    holds = _HOLDS_SECRET.search(key) or properties.PASSWORD_IN_URL.search(value)
    return bool(holds and value and not properties.VARIABLE.fullmatch(value))


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
