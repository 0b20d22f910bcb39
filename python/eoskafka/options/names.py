"""Python's names and values of options, as Spark has them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from eoskafka.errors import ConfigurationError


def option_value(value: object) -> str:
    """A value as Spark's options have it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ConfigurationError(
                f"{value!r} has no time zone, so it is no point in time; give it one, such as "
                "datetime.timezone.utc"
            )
        return str(round(value.timestamp() * 1_000))
    if isinstance(value, timedelta):
        return f"{value // timedelta(milliseconds=1)}ms"
    if isinstance(value, Mapping):
        return json.dumps(_json_value(value), separators=(",", ":"))
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(map(str, value))
    return str(value)


def _json_value(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _json_value(each) for key, each in value.items()}
    if isinstance(value, datetime):
        return int(option_value(value))
    if isinstance(value, Iterable) and not isinstance(value, str):
        return list(value)
    return value


# Fields whose option is not just their name in Spark's way of writing.
_OTHER_NAMES = {
    "bootstrap_servers": "kafka.bootstrap.servers",
    "group_id": "kafka.group.id",
    "group_protocol": "kafka.group.protocol",
    "isolation_level": "kafka.isolation.level",
    "transaction_timeout_ms": "kafka.transaction.timeout.ms",
    "poll_timeout_ms": "kafkaConsumer.pollTimeoutMs",
    "fetch_offset_num_retries": "fetchOffset.numRetries",
    "fetch_offset_retry_interval_ms": "fetchOffset.retryIntervalMs",
}


def option_name(field_name: str) -> str:
    """`starting_offsets` is `startingOffsets`."""
    first, *rest = field_name.split("_")
    return _OTHER_NAMES.get(field_name) or first + "".join(word.capitalize() for word in rest)
