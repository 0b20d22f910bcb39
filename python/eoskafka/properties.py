"""Settings of Kafka's own tools (`client.properties`), as kafka-python and librdkafka have them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import javaproperties
from kafka import KafkaConsumer
from kafka.admin import KafkaAdminClient

from eoskafka.errors import ConfigurationError

_LOGIN = re.compile(r"""\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)')""")
_SEPARATOR = re.compile("[=:]")
_PEM = (".pem", ".crt", ".cer")
_KNOWN = {*KafkaAdminClient.DEFAULT_CONFIG, *KafkaConsumer.DEFAULT_CONFIG}
# What a file says of these is for another client, or said by an option here.
_LEFT_OUT = {"bootstrap_servers", "group_id", "client_id"}
_STORES = {
    "ssl_truststore_location": ("ssl_truststore_type", ("ssl_cafile",)),
    "ssl_keystore_location": ("ssl_keystore_type", ("ssl_certfile", "ssl_keyfile")),
}
_OF_LIBRDKAFKA = {
    "sasl_mechanism": "sasl.mechanism",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
    "security_protocol": "security.protocol",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
    "ssl_check_hostname": "ssl.endpoint.identification.algorithm",
    "request_timeout_ms": "socket.timeout.ms",
    "client_id": "client.id",
}


def read(file: Path) -> dict[str, str]:
    """A Java properties file, as Kafka's own tools read it; spaces around a value do not count.

    Raises:
        ConfigurationError: it cannot be read, or a line has no key, or nothing after its key.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}") from error
    found = {}
    try:
        for line in javaproperties.parse(text):
            if not isinstance(line, javaproperties.KeyValue):
                continue
            if not line.key or not (line.value or _SEPARATOR.search(line.source)):
                # The message leaves the line itself out, because it may hold a secret.
                raise ConfigurationError(f"{file} has a line that is not key=value")
            found[line.key] = line.value.strip()
    except javaproperties.InvalidUEscapeError:
        # Without its cause, which shows a part of the line.
        raise ConfigurationError(
            f"{file} has a \\u that no four hexadecimal digits follow: write a backslash as \\\\"
        ) from None
    return found


def of_kafka_python(properties: Mapping[str, str]) -> dict[str, Any]:
    """Settings of kafka-python: its names, with dots or underscores, and those of Java's client.

    Raises:
        ConfigurationError: one of Java's has no counterpart.
    """
    given = {key.replace(".", "_"): value for key, value in properties.items()}
    found: dict[str, Any] = {}
    if (jaas := given.pop("sasl_jaas_config", None)) is not None:
        login = {match[1]: match[2] or match[3] or "" for match in _LOGIN.finditer(jaas)}
        if len(login) < 2:
            raise ConfigurationError(
                "sasl.jaas.config has no username and password: commands can log in with PLAIN and "
                "SCRAM; for others give kafka-python's settings with -X"
            )
        found["sasl_plain_username"] = login["username"]
        found["sasl_plain_password"] = login["password"]
    for location, (type_, names) in _STORES.items():
        path = given.pop(location, None)
        kind = given.pop(type_, "").upper()
        if path is None:
            continue
        if kind != "PEM" and not path.endswith(_PEM):
            raise ConfigurationError(
                f"{location.replace('_', '.')} is {path}, which only Java reads: export it as PEM "
                "(keytool -exportcert -rfc, or openssl pkcs12), and give that file with "
                + " and ".join(f"-X {name.replace('_', '.')}=..." for name in names)
            )
        found |= dict.fromkeys(names, path)
    if "ssl_key_password" in given:
        found["ssl_password"] = given.pop("ssl_key_password")
    if "ssl_endpoint_identification_algorithm" in given:
        found["ssl_check_hostname"] = given.pop("ssl_endpoint_identification_algorithm") != ""
    for name, value in given.items():
        # Log-in names and passwords are texts, whatever they look like.
        found[name] = value if name.startswith("sasl_") or "password" in name else _value(value)
    return found


def of_file(file: Path) -> dict[str, Any]:
    """Those settings of a file that kafka-python has: it may be another client's too."""
    found = of_kafka_python(read(file))
    return {key: value for key, value in found.items() if key in _KNOWN - _LEFT_OUT}


def of_librdkafka(settings: Mapping[str, Any]) -> dict[str, Any]:
    """kafka-python's settings as librdkafka has them.

    Raises:
        ConfigurationError: one that a connection depends on has no counterpart.
    """
    found = {}
    for name, value in settings.items():
        if name not in _OF_LIBRDKAFKA:
            if not name.startswith(("sasl_", "ssl_", "socks5_")):
                continue  # Of no account for what commands read with it.
            raise ConfigurationError(
                f"the setting {name} has no counterpart in librdkafka, which reads records here; "
                f"these have: {', '.join(sorted(_OF_LIBRDKAFKA))}"
            )
        if name == "ssl_check_hostname":
            value = "https" if value else "none"
        found[_OF_LIBRDKAFKA[name]] = value
    return found


def _value(text: str) -> str | int | bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.isascii() and text.isdecimal() else text
