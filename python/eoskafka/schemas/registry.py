"""What the driver asks a schema registry, with Confluent's client."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from eoskafka.errors import (
    AuthorizationError,
    ConfigurationError,
    EosKafkaError,
    UnreachableError,
)
from eoskafka.schemas.types import Type, UnsupportedError, parse

Version = int | Literal["latest"]

_T = TypeVar("_T")
# What Confluent's client gets from other arguments than `settings`.
_OWN_SETTINGS = ("url", "timeout")
_USER_INFO = "basic.auth.user.info"
# If the registry does not have what it is asked for.
_ADVICE = "register it first, or correct the name or the number"
_SECRET = re.compile(r"secret|password|token|proxy|user\.info|assertion")


@dataclass(frozen=True)
class Registered:
    """A version of a subject, as the registry has it.

    Attributes:
        id: in the prefix of each value; unique in the registry.
        type: None if the schema is not supported.
        refusal: why it is not; empty if it is.
    """

    subject: str
    version: int
    id: int
    type: Type | None
    refusal: str = ""

    def supported(self) -> Type:
        """Its type.

        Raises:
            ConfigurationError: the schema is not supported.
        """
        if self.type is None:
            raise ConfigurationError(
                f"version {self.version} of the subject {self.subject} (schema id {self.id}) is "
                f"not supported: {self.refusal}. Nothing was read or written. Choose another "
                "version, or decode and encode these records with Confluent's client in a Python "
                "function"
            )
        return self.type


class Registry:
    """A schema registry with Confluent's interface, asked by the driver only.

    Nothing that it has answered is kept: each column that is made asks anew.

    Args:
        url: the URL of the registry, or of several servers of one cluster, separated by commas.
            User and password belong in `auth`.
        auth: user and password, or an API key and its secret.
        timeout_s: how long one request may take, in seconds. Confluent's client repeats a request
            that has no answer three times.
        settings: further settings of `confluent_kafka.schema_registry.SchemaRegistryClient`, such
            as `ssl.ca.location` and those of OAuth (`bearer.auth...`).

    Raises:
        ConfigurationError: confluent-kafka with its extra `schemaregistry` is not installed, or
            refuses a setting; or the URL has a user in it.
    """

    def __init__(
        self,
        url: str,
        *,
        auth: tuple[str, str] | None = None,
        timeout_s: float = 30,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(url, str) or re.search(r"[@?#]", url):
            raise ConfigurationError(
                "the URL of the schema registry has a user, a query or a fragment, and is not "
                "shown here because this may be a secret. Nothing was read or written. Give user "
                "and password with `auth`, and leave the rest out"
            )
        if own := [each for each in settings or {} if each in _OWN_SETTINGS]:
            raise ConfigurationError(
                f"`settings` has {', '.join(own)}: use the arguments `url` and `timeout_s`"
            )
        self._shown = url
        self._settings: dict[str, Any] = {"url": url, "timeout": timeout_s, **(settings or {})}
        if auth is not None:
            self._settings[_USER_INFO] = ":".join(auth)
        with requests_of(self):
            pass

    def __repr__(self) -> str:
        return f"Registry({self._shown!r})"

    def _without_secrets(self, text: str) -> str:
        """A text of the client or of the registry without the secrets among the settings."""
        for name, value in self._settings.items():
            if not isinstance(value, str) or not _SECRET.search(name):
                continue
            # The user before a password is no secret.
            secret = value.partition(":")[2] if name == _USER_INFO else value
            text = text.replace(secret, "***") if secret else text
        return text


@contextmanager
def requests_of(registry: Registry) -> Iterator[Requests]:
    """What one column asks, by a client that knows nothing from before."""
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise ConfigurationError(
            f"confluent-kafka, the client for schema registries, cannot be imported ({error}): pip "
            "install 'eoskafka[schemas]'"
        ) from error
    try:
        client = SchemaRegistryClient(registry._settings)
    except (TypeError, ValueError, OSError) as error:
        raise ConfigurationError(
            f"the client of {registry!r} refuses its settings: "
            f"{registry._without_secrets(str(error))}"
        ) from None
    with client:
        yield Requests(client, registry._shown, registry._without_secrets)


class Requests:
    """The requests for one column."""

    def __init__(self, client: Any, shown: str, without_secrets: Callable[[str], str]) -> None:
        self._client = client
        self._shown = shown
        self._without_secrets = without_secrets

    def version(self, subject: str, version: Version) -> Registered:
        """A version of a subject, also a deleted one, or the `latest` one that is not deleted."""
        require_version(subject, version)
        return self._ask(
            f"version {version} of the subject {subject}",
            lambda: _registered(
                subject, self._client.get_version(subject, version, deleted=version != "latest")
            ),
        )

    def all_of(self, subject: str) -> list[Registered]:
        """Every version of a subject, also deleted ones: a topic may still have records of them."""
        versions = self._ask(
            f"the subject {subject}", lambda: self._client.get_versions(subject, deleted=True)
        )
        found = (self.version(subject, each) for each in versions)
        return list({each.id: each for each in found}.values())

    def find(self, subject: str, text: str, advice: str = _ADVICE) -> Registered:
        """The version of a subject that has this Avro schema.

        Args:
            advice: what the error says if no version has it.

        Raises:
            ConfigurationError: no version has it.
        """
        found = self._ask(
            f"this schema in the subject {subject}",
            lambda: self._client.lookup_schema(subject, _schema(text)),
            advice,
        )
        # The client returns, and keeps, the text that it was given: the version of the registry may
        # have rules and references besides.
        self._client.clear_caches()
        return self.version(subject, found.version)

    def register(self, subject: str, text: str) -> Registered:
        """Make a schema the newest version of a subject, unless a version has it already."""
        self._ask(
            f"this schema in the subject {subject}",
            lambda: self._client.register_schema(subject, _schema(text)),
        )
        self._client.clear_caches()
        return self.find(
            subject,
            text,
            "but the schema was registered just before, and the registry has it in another form: "
            "look there for its version, and give this as `version`",
        )

    def _ask(self, what: str, ask: Callable[[], _T], advice: str = _ADVICE) -> _T:
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            return ask()
        except SchemaRegistryError as error:
            said = f"{error.error_message} (HTTP {error.http_status_code}, {error.error_code})"
            said = self._without_secrets(said)
            raise self._error(what, error.http_status_code, said, advice) from None
        except Exception as error:
            raise UnreachableError(
                f"the schema registry at {self._shown} gave no answer about {what}: "
                f"{type(error).__name__}: {self._without_secrets(str(error))}. Nothing was read "
                "or written; try again when it answers"
            ) from None

    def _error(self, what: str, status: int, said: str, advice: str) -> EosKafkaError:
        where = f"the schema registry at {self._shown}"
        if status in (401, 403):
            return AuthorizationError(
                f"{where} does not let this user ask for {what}: {said}. Nothing was read or "
                "written; correct `auth`, or give the user the right to read the subject"
            )
        if status == 404:
            return ConfigurationError(
                f"{where} does not have {what}: {said}. Nothing was read or written; {advice}"
            )
        if 400 <= status < 500 and status not in (408, 429):
            return ConfigurationError(
                f"{where} refuses {what}: {said}. Nothing was read or written"
            )
        return UnreachableError(
            f"{where} cannot answer about {what}: {said}. Nothing was read or written; try again "
            "when it can"
        )


def require_version(subject: str, version: object) -> None:
    """ConfigurationError if no subject can have this version."""
    if version != "latest" and (type(version) is not int or version < 1):
        raise ConfigurationError(
            f"the version of the subject {subject} is {version!r}, and must be an integer from 1, "
            "or 'latest'. Nothing was read or written"
        )


def _registered(subject: str, found: Any) -> Registered:
    """A version with its type, or with the reason why it is not supported.

    Raises:
        ValueError: the registry's answer is no version of a subject.
    """
    if type(found.version) is not int or type(found.schema_id) is not int:
        raise ValueError(f"version {found.version!r} with the schema id {found.schema_id!r}")
    schema = found.schema
    kind, refusal = None, ""
    if (form := schema.schema_type or "AVRO") != "AVRO":
        refusal = f"it is of the format {form}, and only AVRO is supported"
    elif schema.rule_set is not None and any(schema.rule_set.to_dict().values()):
        refusal = (
            "it has rules, such as those that encrypt fields. Confluent's clients apply them to "
            "each record, and Spark's functions do not"
        )
    elif schema.references:
        names = ", ".join(each.name or "" for each in schema.references)
        refusal = f"it refers to other schemas ({names})"
    else:
        try:
            kind = parse(schema.schema_str)
        except UnsupportedError as error:
            refusal = str(error)
    return Registered(subject, found.version, found.schema_id, kind, refusal)


def _schema(text: str) -> Any:
    from confluent_kafka.schema_registry import Schema

    return Schema(text, "AVRO")
