"""The broker settings of a local cluster: safe like a real one, small enough for a laptop."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_LOG4J = """\
status = warn
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
"""


def broker_properties(
    *, node_id: int, port: int, voters: Mapping[int, int], log_dir: Path
) -> dict[str, str]:
    """Settings of one combined broker and controller.

    `voters` maps every node id to its controller port; its size is the number of brokers.
    """
    replicas = len(voters)
    min_isr = 2 if replicas >= 3 else 1
    properties: dict[str, object] = {
        "process.roles": "broker,controller",
        "node.id": node_id,
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{voters[node_id]}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{p}" for n, p in voters.items()),
        "log.dirs": log_dir,
        # Topics are made on purpose, and every one survives a broker.
        "auto.create.topics.enable": "false",
        "num.partitions": 1,
        "default.replication.factor": replicas,
        "min.insync.replicas": min_isr,
        "unclean.leader.election.enable": "false",
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": min_isr,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": min_isr,
        "share.coordinator.state.topic.num.partitions": 1,
        # Tests wait for these, so they are short.
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1000,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
        # A killed broker can register again only when its former session has ended.
        "broker.session.timeout.ms": 4000,
        "broker.heartbeat.interval.ms": 500,
        # Thousands of partitions on one machine: an index file is mapped into memory at its full
        # size (default 10 MiB), and the cleaner's buffer (default 128 MiB) comes off the heap.
        # A 128 MiB segment needs 384 KiB of time index, so segments still roll by their size.
        "log.index.size.max.bytes": 512 * 1024,
        "log.segment.bytes": 128 * 1024 * 1024,
        "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
        "num.network.threads": 2,
        "num.io.threads": 4,
        "background.threads": 2,
    }
    return {key: str(value) for key, value in properties.items()}


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Write a Java properties file (backslashes in values are kept)."""
    lines = (f"{key}={value}".replace("\\", "\\\\") for key, value in properties.items())
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_log4j(path: Path) -> None:
    """Log to standard output, so that one file holds the broker's log and the JVM's last words."""
    path.write_text(_LOG4J, encoding="utf-8")
