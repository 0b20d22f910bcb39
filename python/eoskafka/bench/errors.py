"""What ends a benchmark without a result."""

from __future__ import annotations

from eoskafka.errors import EosKafkaError


class BenchError(EosKafkaError):
    """A peer cannot be built, the input cannot be written, or a query failed."""
