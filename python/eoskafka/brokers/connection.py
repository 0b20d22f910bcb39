"""Where a cluster is, how to speak to it, and what a failure means for a user."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka import KafkaConsumer
from kafka.admin import KafkaAdminClient
from kafka.errors import (
    ClusterAuthorizationFailedError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    KafkaConfigurationError,
    KafkaError,
    NotCoordinatorError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)

from eoskafka.errors import AuthorizationError, ConfigurationError, UnreachableError

_T = TypeVar("_T")
_TIMEOUT_MS = 10_000
# A cluster's first group waits for the offsets topic, any other for a broker that takes over.
COORDINATOR_S = 30.0
COORDINATOR_COMES = (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
)
_RESOURCES: dict[type[KafkaError], str] = {
    TopicAuthorizationFailedError: "the topic",
    GroupAuthorizationFailedError: "the group",
    TransactionalIdAuthorizationFailedError: "the transactional id",
    ClusterAuthorizationFailedError: "the cluster",
}
REFUSALS = tuple(_RESOURCES)
# How kafka-python's errors name the group or transactional id whose coordinator it looked up.
_NAMED = re.compile(r"\b(?:GROUP|TRANSACTION)/(.+?): ?$")
_TOPIC = re.compile(r"[A-Za-z0-9._-]+")
_GRANT = (
    "Grant it (kafka-acls.sh --add; docs/security.md lists the rights that each command needs), "
    "and repeat the command"
)
OFFSETS_TOPIC = "__consumer_offsets"


def lacks(right: str, refusal: KafkaError | type[KafkaError], name: str = "") -> str:
    """What a refusal of the brokers means, as the beginning of a sentence.

    Args:
        right: the operation that was refused.
        refusal: one of `REFUSALS`.
        name: of the resource, if the refusal does not have it.
    """
    kind = refusal if isinstance(refusal, type) else type(refusal)
    on = next((text for each, text in _RESOURCES.items() if issubclass(kind, each)), "a resource")
    text = "" if isinstance(refusal, type) or not refusal.args else str(refusal.args[0])
    found = _NAMED.search(text)
    named = found[1] if found else text if _TOPIC.fullmatch(text) else name
    return f"this user lacks {right} on {on} {named}".rstrip()


@dataclass(frozen=True)
class Connection:
    """Where a cluster is, and how to speak to it.

    Attributes:
        servers: `host:port,...`.
        settings: further settings of kafka-python's clients.
    """

    servers: str
    settings: Mapping[str, Any]

    def admin(self, servers: str = "") -> closing[KafkaAdminClient]:
        """A client of all brokers, or of these."""
        given: dict[str, object] = {
            "request_timeout_ms": _TIMEOUT_MS,
            "bootstrap_timeout_ms": _TIMEOUT_MS,
            **self.settings,
        }
        try:
            client = KafkaAdminClient(
                bootstrap_servers=(servers or self.servers).split(","), **given
            )
        except (KafkaConfigurationError, TypeError, ValueError, AssertionError) as error:
            raise ConfigurationError(
                f"the client refuses an address or a setting: {error}. The client is kafka-python: "
                "write its settings with underscores or dots, such as security_protocol"
            ) from error
        return closing(client)

    def consumer(self, **given: Any) -> closing[KafkaConsumer]:
        """A consumer that commits nothing; what is given here comes before the user's settings."""
        settings = {
            **self.settings,
            "isolation_level": "read_committed",
            "enable_auto_commit": False,
            **given,
        }
        return closing(KafkaConsumer(bootstrap_servers=self.servers.split(","), **settings))

    @contextmanager
    def looking_at(
        self,
        what: str,
        *,
        topics: str = "Describe",
        groups: str = "Describe",
        ids: str = "Describe",
    ) -> Iterator[None]:
        """Turn a failure inside the block into an UnreachableError or an AuthorizationError.

        Args:
            what: what the block looks at, for the message.
            topics: the operation on topics for which the user needs the right.
            groups: the same on groups.
            ids: the same on transactional ids.
        """
        try:
            yield
        except REFUSALS as error:
            right = "Describe"
            if isinstance(error, TopicAuthorizationFailedError):
                right = topics
            elif isinstance(error, GroupAuthorizationFailedError):
                right = groups
            elif isinstance(error, TransactionalIdAuthorizationFailedError):
                right = ids
            raise AuthorizationError(
                f"{lacks(right, error)}, so {what} could not be looked at. The command has changed "
                f"nothing. {_GRANT}"
            ) from error
        except (KafkaError, OSError) as error:
            raise UnreachableError(
                f"{what} could not be looked at on {self.servers}: {error!r}. Check the address, "
                "that its brokers are up, that the log-in and the brokers' certificate are valid "
                "(the client cannot distinguish a rejected log-in from an unreachable broker), "
                "and that this user may describe the cluster, the group, its transactions and the "
                f"topic {OFFSETS_TOPIC}"
            ) from error

    @contextmanager
    def changing(self, what: str, look: str, right: str, name: str = "") -> Iterator[None]:
        """Turn a failure inside the block, where things are changed, as `looking_at` does.

        Args:
            what: for a message.
            look: how to find out what became of the change.
            right: what a user needs for it.
            name: of the group or the transactional id.
        """
        try:
            yield
        except REFUSALS as error:
            raise AuthorizationError(
                f"{lacks(right, error, name)}, and the change of {what} was refused. {_GRANT}"
            ) from error
        except (KafkaError, OSError) as error:
            raise UnreachableError(
                f"the change of {what} on {self.servers} got no clear answer: {error!r}. It was "
                f"made, in part or not at all, or it may still be made: {look}, and repeat the "
                "command. Look again before you start the query"
            ) from error


def until_elected(
    ask: Callable[[], _T], coming: tuple[type[KafkaError], ...] = COORDINATOR_COMES
) -> _T:
    """The answer to a question, repeated while a newly elected broker cannot answer it yet.

    Args:
        coming: the errors with which a broker says that it cannot.
    """
    deadline = time.monotonic() + COORDINATOR_S
    while True:
        try:
            return ask()
        except coming:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
