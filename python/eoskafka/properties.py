"""Settings of Kafka's own tools (`client.properties`), as kafka-python and librdkafka have them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import javaproperties
from kafka import KafkaConsumer
from kafka.admin import KafkaAdminClient

from eoskafka import tokens
from eoskafka.errors import ConfigurationError

# An option of a line for sasl.jaas.config, as Kafka's clients take it apart.
_OPTION = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")
_ESCAPED = re.compile(r"""\\(["'\\])""")
# A place of a value that a config provider has, by Kafka's own pattern.
VARIABLE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
# A password after its user.
PASSWORD_IN_URL = re.compile(r"://[^/@]*:[^/@]+@")
_PROVIDERS = "config_providers"
_SEPARATOR = re.compile("[=:]")
_PEM = (".pem", ".crt", ".cer")
_KNOWN = {*KafkaAdminClient.DEFAULT_CONFIG, *KafkaConsumer.DEFAULT_CONFIG}
# In a file, these are meant for another client, or an option of the command gives them instead.
_LEFT_OUT = {"bootstrap_servers", "group_id", "client_id"}
# A connection would lack keys or certificates if these were ignored.
_INLINE = {"ssl_keystore_key", "ssl_keystore_certificate_chain", "ssl_truststore_certificates"}
# Names of Java's client and of kafka-python for the same thing.
_SAME = (
    ({"ssl_endpoint_identification_algorithm"}, {"ssl_check_hostname"}),
    ({"ssl_truststore_location", "ssl_truststore_certificates"}, {"ssl_cafile"}),
    ({"ssl_keystore_location", "ssl_keystore_key"}, {"ssl_certfile", "ssl_keyfile"}),
    ({"ssl_key_password"}, {"ssl_password"}),
    ({"sasl_jaas_config"}, {"sasl_plain_username", "sasl_plain_password"}),
)
# Settings that decide how safe a connection is. They are applied or refused, never ignored.
_OF_SECURITY = ("ssl_", "sasl_", "security_", "socks5_", "proxy_")
# Those among them that may be ignored: passwords of stores whose PEM file has none, how often
# Java's client retries a log-in, and how it verifies a token that it has fetched itself.
_NEEDLESS = re.compile(
    r"ssl_(truststore|keystore)_password|ssl_(key|trust)manager_algorithm|ssl_client_auth"
    r"|ssl_secure_random_implementation|security_inter_broker_protocol|sasl_enabled_mechanisms"
    r"|sasl_login_(refresh|retry|connect|read)_\w+|sasl_kerberos_\w+"
    r"|sasl_oauthbearer_(jwks|expected|clock|scope_claim|sub_claim)_\w+"
    r"|sasl_oauthbearer_jwt_validator_class"
)
# Others may be ignored if they have these values, because commands behave like that anyway.
_AS_HERE = {
    "ssl_protocol": {"TLS", "TLSv1.2", "TLSv1.3"},
    "ssl_enabled_protocols": {"TLSv1.2,TLSv1.3", "TLSv1.3,TLSv1.2"},
    "ssl_provider": {""},
    "ssl_cipher_suites": {""},
    "security_providers": {""},
    "sasl_oauthbearer_header_urlencode": {"false"},
}
# A setting with a class name may be ignored if it names one of Kafka's own, such as these.
_KAFKAS_OWN = re.compile(
    r"org\.apache\.kafka\.common\.security\.oauthbearer\.(internals\.)?(secured\.)?"
    r"(OAuthBearerLoginCallbackHandler|(ClientCredentials|Default|File)JwtRetriever)"
)
_CLASSES = {"sasl_login_callback_handler_class", "sasl_oauthbearer_jwt_retriever_class"}
# What `tokens.provider` reads.
_OF_TOKENS = {
    "sasl_oauthbearer_token_endpoint_url",
    "sasl_oauthbearer_client_credentials_client_id",
    "sasl_oauthbearer_client_credentials_client_secret",
    "sasl_oauthbearer_scope",
}
_STORES = {
    "ssl_truststore_location": ("ssl_truststore_type", ("ssl_cafile",)),
    "ssl_keystore_location": ("ssl_keystore_type", ("ssl_certfile", "ssl_keyfile")),
}
_EXPORTS = {
    "ssl_truststore_location": "keytool -exportcert -rfc -keystore STORE -alias ALIAS",
    "ssl_keystore_location": "openssl pkcs12 -in STORE -nodes, of a JKS store after keytool "
    "-importkeystore -deststoretype PKCS12",
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
    except (OSError, ValueError) as error:  # a path with NUL is a ValueError
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
            f"{file} has a \\u that is not followed by four hexadecimal digits: write a backslash "
            "as \\\\"
        ) from None
    return found


def of_kafka_python(
    given: Mapping[str, str], in_file: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Settings for kafka-python from its names, with dots or underscores, or from Java's.

    Args:
        given: these replace the ones in the file, also if the file has another name for the same
            setting.
        in_file: it may be meant for another client, so names that kafka-python does not have are
            ignored, unless the connection could be less safe without them.

    Raises:
        ConfigurationError: a setting of Java's client has no counterpart.
    """
    asked = _named(given)
    replaced = _replaced_by(asked)
    rest = {name: value for name, value in _named(in_file or {}).items() if name not in replaced}
    named = _resolved({**rest, **asked})
    found = _login(named)
    for location, (type_, names) in _STORES.items():
        path = named.pop(location, None)
        kind = named.pop(type_, "").upper()
        if path is None or all(name in named for name in names):
            continue
        if not path:
            # Without a file, any authority of this machine would do.
            raise ConfigurationError(f"{_dotted(location)} is empty: give the path of a PEM file")
        if kind != "PEM" and not path.endswith(_PEM):
            raise ConfigurationError(
                f"{_dotted(location)} is {path}, which only Java reads: export it as PEM "
                f"({_EXPORTS[location]}), and give that file with "
                + " and ".join(f"-X {_dotted(name)}=..." for name in names)
            )
        found |= dict.fromkeys(names, path)
    if alone := sorted(_INLINE & named.keys()):
        raise ConfigurationError(
            f"{_dotted(alone[0])} is read by Java's client only. Give certificates and "
            "keys as files in PEM format: -X ssl.cafile=..., -X ssl.certfile=..., -X "
            "ssl.keyfile=..."
        )
    if "ssl_key_password" in named:
        found["ssl_password"] = named.pop("ssl_key_password")
    if "ssl_endpoint_identification_algorithm" in named:
        found["ssl_check_hostname"] = named.pop("ssl_endpoint_identification_algorithm") != ""
    for name, value in named.items():
        if name.startswith(_OF_SECURITY) and name not in _KNOWN:
            _require_needless(name, value)
            continue
        # Log-in names and passwords are texts, whatever they look like.
        is_text = name.startswith("sasl_") or "password" in name
        if name in asked or name in _KNOWN - _LEFT_OUT:
            found[name] = value if is_text else _value(value)
    return found


def _named(properties: Mapping[str, str]) -> dict[str, str]:
    return {key.replace(".", "_"): value for key, value in properties.items()}


def _dotted(name: str) -> str:
    return name.replace("_", ".")


def _replaced_by(asked: Mapping[str, str]) -> set[str]:
    """Names in a file that are replaced by a setting which was given under another name."""
    found: set[str] = set()
    for of_java, of_python in _SAME:
        if of_java & asked.keys():
            found |= of_python
        if of_python <= asked.keys():
            found |= of_java
    return found


def _require_needless(name: str, value: str) -> None:
    """ConfigurationError for a setting of security that a command would not obey."""
    # With another mechanism nothing asks for a token.
    if name in _OF_TOKENS or _NEEDLESS.fullmatch(name):
        return
    if value.replace(" ", "") in _AS_HERE.get(name, ()):
        return
    if name in _CLASSES and _KAFKAS_OWN.fullmatch(value):
        return
    raise ConfigurationError(
        f"{_dotted(name)} is read by Java's client only, and the connection could be less secure "
        "without it. If that is acceptable, give this command a file without it; otherwise use "
        "Kafka's own tools"
    )


def _login(named: dict[str, str]) -> dict[str, Any]:
    """The settings with which a user logs in; their source is removed from `named`."""
    jaas = named.pop("sasl_jaas_config", None)
    options = jaas_options(jaas or "")
    mechanism = named.get("sasl_mechanism", "")
    if mechanism == "GSSAPI" or "Krb5LoginModule" in (jaas or ""):
        raise ConfigurationError(
            "this command does not log in with Kerberos (sasl.mechanism=GSSAPI). Connect to a "
            "listener with SCRAM, OAUTHBEARER or TLS, or use Kafka's own tools"
        )
    if mechanism == "OAUTHBEARER" and "sasl_oauth_token_provider" not in named:
        return {"sasl_oauth_token_provider": tokens.provider(named, options)}
    if jaas is None:
        return {}
    if not {"username", "password"} <= options.keys():
        raise ConfigurationError(
            "sasl.jaas.config has no username and password: commands can log in with PLAIN, SCRAM "
            "and OAUTHBEARER; for others give kafka-python's settings with -X"
        )
    return {
        "sasl_plain_username": options["username"],
        "sasl_plain_password": options["password"],
    }


def jaas_options(line: str) -> dict[str, str]:
    """The options of a log-in module, from a line for `sasl.jaas.config`."""
    return {
        match[1]: match[4] or _ESCAPED.sub(r"\1", match[2] or match[3] or "")
        for match in _OPTION.finditer(line)
    }


def _resolved(named: Mapping[str, str]) -> dict[str, str]:
    """The same with the values that Kafka's own config providers have."""
    providers = {
        name: named.get(f"{_PROVIDERS}_{name}_class", "").rpartition(".")[2]
        for name in map(str.strip, named.get(_PROVIDERS, "").split(","))
        if name
    }

    def value_of(found: re.Match[str]) -> str:
        name, path, key = found[1], found[2] or "", found[3]
        if name not in providers:
            return found[0]
        if (provider := _OF_PROVIDERS.get(providers[name])) is None:
            raise ConfigurationError(
                f"the config provider {name} ({providers[name]}) is not known here. Supported are: "
                f"{', '.join(_OF_PROVIDERS)}. Give the settings that it provides with -X or in a "
                "separate file"
            )
        value = provider(path, key)
        if value is None:
            raise ConfigurationError(f"the config provider {name} has no value for {found[0]}")
        return value

    return {
        key: VARIABLE.sub(value_of, value)
        for key, value in named.items()
        if not key.startswith(_PROVIDERS)
    }


def _in_folder(folder: str, name: str) -> str | None:
    try:
        return (Path(folder) / name).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


# By the name of Kafka's class.
_OF_PROVIDERS: dict[str, Callable[[str, str], str | None]] = {
    "FileConfigProvider": lambda path, key: read(Path(path)).get(key),
    "DirectoryConfigProvider": _in_folder,
    "EnvVarConfigProvider": lambda _path, key: os.environ.get(key),
}


def of_librdkafka(settings: Mapping[str, Any]) -> dict[str, Any]:
    """kafka-python's settings as librdkafka has them.

    Raises:
        ConfigurationError: one that a connection depends on has no counterpart.
    """
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, tokens.TokenProvider):
            found["oauth_cb"] = value.for_librdkafka
            continue
        if name not in _OF_LIBRDKAFKA:
            if not name.startswith(_OF_SECURITY):
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
    # Python refuses to read a number of thousands of digits, and no setting has more than a long.
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else text
