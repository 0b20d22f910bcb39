"""What ends a demo without a verdict on its records."""

from __future__ import annotations

from eoskafka.errors import EosKafkaError


class DemoError(EosKafkaError):
    """The demo's job or its input failed; the message points to the log."""
