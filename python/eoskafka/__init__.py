"""eoskafka: exactly-once Kafka for Spark Structured Streaming.

Importing this package needs the standard library only: a Spark cluster brings its own pyspark.
"""

from __future__ import annotations

import sys

from eoskafka import failures
from eoskafka._version import __version__
from eoskafka.dead_letters import with_dead_letters
from eoskafka.errors import (
    AuthorizationError,
    CheckpointError,
    ClusterError,
    ConfigurationError,
    DataLossError,
    EosKafkaError,
    FencedError,
    InternalError,
    JarError,
    OffsetsError,
    PlanError,
    RecordError,
    TransactionError,
    UnreachableError,
)
from eoskafka.failures import error_of
from eoskafka.guarded import guard
from eoskafka.options import Sink, Source
from eoskafka.session import check, configure, jar_path
from eoskafka.sparks import real_time_trigger

__all__ = [
    "AuthorizationError",
    "CheckpointError",
    "ClusterError",
    "ConfigurationError",
    "DataLossError",
    "EosKafkaError",
    "FencedError",
    "InternalError",
    "JarError",
    "OffsetsError",
    "PlanError",
    "RecordError",
    "Sink",
    "Source",
    "TransactionError",
    "UnreachableError",
    "__version__",
    "check",
    "configure",
    "error_of",
    "guard",
    "jar_path",
    "real_time_trigger",
    "with_dead_letters",
]

if "pyspark" in sys.modules:
    failures.install()
