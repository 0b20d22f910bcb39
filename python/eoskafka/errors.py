"""The errors of eoskafka, one tree for both of its languages.

    EosKafkaError
    ├── ConfigurationError        a setting is missing or invalid, conflicts, or was set too late
    ├── PlanError                 a query or a write that cannot be exactly-once in this form
    ├── RecordError               a row or a record that cannot be written or read
    ├── FencedError               another driver or attempt has taken over
    ├── OffsetsError              it is not known where to continue, or offsets are somebody else's
    ├── CheckpointError           a checkpoint, or a query's decisions, are lost or too old
    ├── DataLossError             records are gone that were not read yet
    ├── TransactionError          a transaction did not end as it should; the next start settles it
    ├── UnreachableError          a cluster or a schema registry does not answer in time
    ├── AuthorizationError        this user lacks a right, or cannot log in
    ├── InternalError             a fault of eoskafka
    ├── JarError                  the connector's jar is missing, stale, or cannot be built
    └── ClusterError              the local Kafka cluster cannot do what was asked
        └── ClusterNotFoundError  there is no cluster at that place

Every message says what is wrong, with the values, what it means for the data, and what to do next.
The connector's own errors are raised in Spark's JVM: `eoskafka.failures` finds them in what pyspark
raises, so that `except eoskafka.FencedError` works. docs/errors.md lists them all.
"""

from __future__ import annotations

__all__ = [
    "AuthorizationError",
    "CheckpointError",
    "ClusterError",
    "ClusterNotFoundError",
    "ConfigurationError",
    "DataLossError",
    "EosKafkaError",
    "FencedError",
    "InternalError",
    "JarError",
    "OffsetsError",
    "PlanError",
    "RecordError",
    "TransactionError",
    "UnreachableError",
]


class EosKafkaError(Exception):
    """Base of every error that eoskafka raises on purpose.

    Attributes:
        condition: the error condition (`EOSKAFKA_...`, see docs/errors.md), or an empty text where
            it has none.
    """

    condition: str = ""

    def __init__(self, message: str, condition: str = "") -> None:
        super().__init__(message)
        self.condition = condition


class ConfigurationError(EosKafkaError):
    """A setting is missing or invalid, conflicts with another one, or was set too late."""


class PlanError(EosKafkaError):
    """A query or a write that cannot be exactly-once in this form; nothing of it was written."""


class RecordError(EosKafkaError):
    """A row or a record that cannot be written or read."""


class FencedError(EosKafkaError):
    """This driver or attempt may not commit any more, mostly because another one has taken over.

    Records that it had not committed are processed by the one that has taken over, or by this query
    after a restart.
    """


class OffsetsError(EosKafkaError):
    """The query cannot tell where to continue, or its group has offsets of somebody else."""


class CheckpointError(EosKafkaError):
    """The checkpoint, or the decisions of a query in epoch scope, are lost, damaged or too old."""


class DataLossError(EosKafkaError):
    """Records were deleted before they were read; `failOnDataLoss=false` skips them."""


class TransactionError(EosKafkaError):
    """A transaction did not end as it should. The condition says what took effect."""


class UnreachableError(EosKafkaError):
    """A Kafka cluster does not answer in time or refuses to, or a schema registry does not."""


class AuthorizationError(EosKafkaError):
    """This user lacks a right, which the message names, or cannot log in.

    The right is one on the cluster or in a schema registry.
    """


class InternalError(EosKafkaError):
    """A bug in eoskafka, detected before it could lose or duplicate a record."""


class JarError(EosKafkaError):
    """The connector's jar is missing, does not belong to this package, or cannot be built."""


class ClusterError(EosKafkaError):
    """The local Kafka cluster cannot do what was asked."""


class ClusterNotFoundError(ClusterError):
    """No cluster was ever started in that folder, or it was purged."""
