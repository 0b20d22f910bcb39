"""Readers of what users and other programs give: options, files, arguments, headers.

As those of `readers.py`: each makes one input, and returns whether it was read.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random

import typer
from eoskafka import _spec, properties
from eoskafka.cli import bench, brokers, verify
from eoskafka.cli.app import app
from eoskafka.dead_letters import PREFIX, Origin
from eoskafka.errors import EosKafkaError
from eoskafka.offsets.target import Target
from eoskafka.options import check

from fuzz import inputs

_MAX_LONG = 2**63 - 1
# Longer than Python takes for a number.
_DIGITS = "9" * 5_000
_JSON = '{"t":{"0":23,"1":-1},"u":"earliest"}'
_WORDS = (
    *("", " ", "0", "1", "-1", "+7", "0x7", "1e9", "1_000", "\u0661", "7.5", _DIGITS, "true"),
    *("false", "TRUE", "earliest", "latest", "30s", "5 minutes", "task", "epoch", "shared", "-job"),
    *("2026-11-21T09:30:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775809", "t,u", ",", "\0"),
    *("[" * 20_000, '{"a":' * 20_000, '{"t":[0,1]}', '{"t":{"\u0661":1}}', '{"t":{"0":null}}'),
)


def _value(random: Random) -> str:
    kind = random.randrange(5)
    if kind == 0:
        return inputs.noise(random)
    if kind == 1:
        return inputs.damaged_json(random, _JSON)
    if kind == 2:
        return inputs.damaged(random, random.choice(_WORDS[:-5]))
    return random.choice(_WORDS)


# ---- options of a query


@cache
def _option_names() -> tuple[str, ...]:
    return tuple(each["name"] for each in _spec.read("options.json")["options"])


def options(random: Random) -> bool:
    """Any options of a source or a sink are taken, or refused by name."""
    given = {"kafka.bootstrap.servers": "broker:9092"}
    if random.randrange(4):
        given["subscribe"] = "t"
    for _ in range(random.randint(1, 4)):
        name = random.choice(_option_names())
        if random.randrange(8) == 0:
            name = inputs.damaged(random, name)
        given[name] = _value(random)
    try:
        check("source" if random.random() < 0.5 else "sink", given)
    except EosKafkaError:
        return False
    return True


# ---- client.properties

_PROPERTIES = """\
# A comment
bootstrap.servers=broker:9092
security.protocol = SASL_SSL
sasl.mechanism: PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
    username="a" password='b\\\\'c';
ssl.truststore.location=/etc/brokers.pem
ssl.truststore.type=PEM
config.providers=env,dir,file
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
request.timeout.ms=30000
"""
_PROPERTY_VALUES = (
    *("${env::HOME}", "${env:HOME}", "${dir:/tmp:none}", "${dir:/tmp\\u0000:x}", "${file:/none:k}"),
    *("${file:\\u0000:k}", "${none:a:b}", "\\uD800", "\\u12", "OAUTHBEARER", "GSSAPI", "\\"),
    *("file:///none", "http://[", "https://h/token", "\\u0661", _DIGITS),
)


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="eoskafka-fuzz-"))


def client_properties(random: Random) -> bool:
    """Any file of client properties is read, or refused by name."""
    lines = _PROPERTIES.splitlines()
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(lines))
        key = lines[at].partition("=")[0]
        kind = random.randrange(5)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines[at] = inputs.damaged(random, lines[at])
        elif kind == 2:
            lines[at] = f"{key}={random.choice(_PROPERTY_VALUES)}"
        elif kind == 3:
            lines[at] = f"{key}={_value(random)}"
        else:
            url = random.choice(_PROPERTY_VALUES)
            lines += ["sasl.mechanism=OAUTHBEARER", f"sasl.oauthbearer.token.endpoint.url={url}"]
    file = _folder() / "client.properties"
    content = "\n".join(lines).encode("utf-8", "surrogatepass")
    if random.randrange(16) == 0:
        content = bytes(random.randrange(256) for _ in range(40))
    file.write_bytes(content)
    try:
        read = properties.read(file)
        assert all(type(key) is type(value) is str for key, value in read.items())
        properties.of_librdkafka(properties.of_kafka_python({}, read))
    except EosKafkaError:
        return False
    return True


# ---- arguments of the commands


def offsets_of_a_command(random: Random) -> bool:
    """What `eoskafka offsets set --to` is given is a position, or refused by name."""
    try:
        found = Target.parse(_value(random))
    except EosKafkaError:
        return False
    for partition, offset in found.offsets.items():
        assert 0 <= partition.partition < 2**31
        assert -2 <= offset <= _MAX_LONG
    assert found.timestamp is None or found.timestamp <= _MAX_LONG
    return True


_PARSERS: tuple[Callable[[str], object], ...] = (
    lambda text: brokers._settings([text]),
    brokers.names,
    lambda text: verify._offsets(text, "--from"),
    lambda text: bench._numbers(text, "--numbers"),
)


@cache
def _commands() -> tuple[tuple[str, typer.core.TyperCommand], ...]:
    def below(name: str, command: object) -> Iterator[tuple[str, typer.core.TyperCommand]]:
        if isinstance(command, typer.core.TyperGroup):
            for each, found in command.commands.items():
                yield from below(each, found)
        elif isinstance(command, typer.core.TyperCommand):
            yield name, command

    return tuple(below("eoskafka", typer.main.get_command(app)))


def arguments(random: Random) -> bool:
    """Any arguments of a command are taken, or refused as typer refuses them."""
    if random.random() < 0.5:
        parse, words = random.choice(_PARSERS), [_value(random)]
        run: Callable[[], object] = lambda: parse(words[0])  # noqa: E731
    else:
        name, command = random.choice(_commands())
        known = [option for each in command.params for option in each.opts]
        words = []
        for _ in range(random.randrange(6)):
            words.append(random.choice(known) if known else "--none")
            if random.random() < 0.7:
                words.append(_value(random))
        run = lambda: command.make_context(name, words)  # noqa: E731
    try:
        run()
    except (typer.Exit, typer.Abort, EosKafkaError):
        return False
    except Exception as error:
        # Typer's own errors, which it shows with the usage of the command.
        if not hasattr(error, "format_message"):
            raise
        return False
    return True


# ---- headers of dead letters


def a_dead_letters_headers(random: Random) -> bool:
    """Any headers give an origin, with -1 for what is no partition, offset or timestamp."""
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(random.randrange(8)):
        name = random.choice(["reason", "query", "topic", "partition", "offset", "timestamp"])
        value = random.choice(
            [
                None,
                inputs.noise(random).encode(),
                bytes(random.randrange(256) for _ in range(6)),
                str(inputs.number(random, -2, 2**64)).encode(),
                random.choice(_WORDS[:13]).encode(),
            ]
        )
        name = PREFIX + name
        headers.append((inputs.damaged(random, name) if random.randrange(6) == 0 else name, value))
    found = Origin.of(headers if headers or random.random() < 0.5 else None)
    assert -1 <= found.partition < 2**31
    assert -1 <= found.offset <= _MAX_LONG
    assert -1 <= found.timestamp_ms <= _MAX_LONG
    return found.offset >= 0


ALL = (options, client_properties, offsets_of_a_command, arguments, a_dead_letters_headers)
