"""JSON texts with a value for each topic and partition: `{"topic": {"0": 12, "1": 7}}`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kafka import TopicPartition

from eoskafka import _json

_PARTITION = re.compile("0|[1-9][0-9]{0,9}")


def is_offset(found: object) -> bool:
    """Whether it is a number that an offset may have."""
    # A bool is an int too.
    return type(found) is int and -(2**63) <= found < 2**63


def parse(text: str, is_value: Callable[[object], bool] = is_offset) -> dict[TopicPartition, Any]:
    """The values in the text: offsets, unless the caller says otherwise.

    The connector reads such texts in the same way (`io.eoskafka.source.PartitionOffsets`).

    Raises:
        ValueError: it is not such a text.
    """
    topics = _json.parse(text)
    found = {}
    if not isinstance(topics, dict):
        raise ValueError(f"no offsets: {text:.200}")
    for topic, partitions in topics.items():
        if not isinstance(partitions, dict):
            raise ValueError(f"no offsets of {topic!r}: {partitions!r:.200}")
        for partition, value in partitions.items():
            if not _is_partition(partition) or not is_value(value):
                raise ValueError(f"no offset of {topic!r}, {partition!r}: {value!r:.200}")
            found[TopicPartition(topic, int(partition))] = value
    return found


def _is_partition(text: str) -> bool:
    return bool(_PARTITION.fullmatch(text)) and int(text) < 2**31
