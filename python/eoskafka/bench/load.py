"""Fills the input topic: in Java, since kafka-python would take minutes for millions of records."""

from __future__ import annotations

import subprocess

from eoskafka.bench.errors import BenchError
from eoskafka.bench.peers import peer_jars
from eoskafka.cluster.broker import kafka_command
from eoskafka.cluster.jars import kafka_jars

_LOADER = "io.eoskafka.bench.InputLoader"
# 60 GB at the slowest rate seen on two busy cores (100 MB/s): a budget, not a measure.
_TIMEOUT_S = 600.0


def load(
    bootstrap_servers: str,
    topic: str,
    *,
    partitions: int,
    records: int,
    record_bytes: int,
    keyed: bool,
) -> None:
    """Write records 0 to `records` - 1, evenly over all partitions.

    Args:
        bootstrap_servers: `host:port,...`.
        topic: it must exist, with this number of `partitions`, and be empty.
        partitions: of the topic.
        records: how many.
        record_bytes: length of each value, in bytes.
        keyed: give each record its number as its key; otherwise it has none.

    Raises:
        BenchError: the loader failed, or did not end within ten minutes.
    """
    own = [jar for jar in peer_jars() if jar.name.startswith("eoskafka-")]
    command = [
        *kafka_command([*own, *kafka_jars()]),
        *("-Xmx256m", _LOADER, bootstrap_servers, topic),
        *(str(partitions), str(records), str(record_bytes), str(keyed).lower()),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"the input was not written within {_TIMEOUT_S:g} s") from error
    if done.returncode != 0:
        raise BenchError(f"the input was not written:\n{done.stdout}{done.stderr}")
