"""The errors of the Python side.

    EosKafkaError
    ├── ConfigurationError        a setting is missing, wrong, or came too late
    ├── JarError                  the connector's jar is missing, stale, or cannot be built
    ├── TransactionError          a transaction cannot be settled
    ├── UnreachableError          a cluster does not answer
    └── ClusterError              the local Kafka cluster cannot do what was asked
        └── ClusterNotFoundError  there is no cluster at that place

Every message says what is wrong, with the values, and what to do next.
"""

from __future__ import annotations

__all__ = [
    "ClusterError",
    "ClusterNotFoundError",
    "ConfigurationError",
    "EosKafkaError",
    "JarError",
    "TransactionError",
    "UnreachableError",
]


class EosKafkaError(Exception):
    """Base of every error this package raises on purpose."""


class ConfigurationError(EosKafkaError):
    """A setting is missing, wrong, or came too late to have an effect."""


class JarError(EosKafkaError):
    """The connector's jar is missing, does not belong to this package, or cannot be built."""


class TransactionError(EosKafkaError):
    """A transaction cannot be settled.

    Attributes:
        condition: the connector's error condition, or an empty text.
    """

    def __init__(self, message: str, condition: str = "") -> None:
        super().__init__(message)
        self.condition = condition


class UnreachableError(EosKafkaError):
    """A Kafka cluster does not answer, or not to this user."""


class ClusterError(EosKafkaError):
    """The local Kafka cluster cannot do what was asked."""


class ClusterNotFoundError(ClusterError):
    """No cluster was ever started in that folder, or it was purged."""
