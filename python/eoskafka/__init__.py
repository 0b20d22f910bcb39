"""eoskafka: exactly-once Kafka for Spark Structured Streaming.

Importing this package needs the standard library only: a Spark cluster brings its own pyspark.
"""

from __future__ import annotations

from eoskafka._version import __version__
from eoskafka.errors import ClusterError, ConfigurationError, EosKafkaError, JarError
from eoskafka.options import Sink, Source
from eoskafka.session import configure, jar_path

__all__ = [
    "ClusterError",
    "ConfigurationError",
    "EosKafkaError",
    "JarError",
    "Sink",
    "Source",
    "__version__",
    "configure",
    "jar_path",
]
