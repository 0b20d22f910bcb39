"""What `eoskafka verify` takes from a checkpoint: input, group and where the query began."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kafka import TopicPartition

from eoskafka.brokers.connection import Connection
from eoskafka.brokers.topics import topic_ids
from eoskafka.checkpoints import Checkpoint
from eoskafka.errors import ConfigurationError


@dataclass(frozen=True)
class Known:
    """What a checkpoint says of its query.

    Attributes:
        topics: those that it reads.
        group: its `kafka.group.id`.
        starts: where it began, by partition.
    """

    topics: Sequence[str]
    group: str
    starts: Mapping[TopicPartition, int]

    def starts_of(self, chosen: Collection[str]) -> dict[TopicPartition, int]:
        """Those of some topics; of all where none is chosen."""
        return {p: n for p, n in self.starts.items() if not chosen or p.topic in chosen}


def read_checkpoint(location: str, cluster: Connection) -> Known:
    """What is known of the query with this `checkpointLocation`.

    Raises:
        ConfigurationError: the checkpoint does not say what the query should have written.
        CheckpointError: it cannot be read.
        UnreachableError: the brokers do not answer.
    """
    found = Checkpoint(location)
    identity, batch, starts = found.identity(), found.last_batch(), found.starts()
    if identity is None or batch is None:
        raise ConfigurationError(
            f"{location} is no checkpoint of a query that began with eoskafka's source"
        )
    if batch.sources > 1:
        raise ConfigurationError(
            f"{location} belongs to a query with several sources, for which the command cannot "
            "derive the expected output: give it with --expected"
        )
    if identity.shared or starts is None:
        raise ConfigurationError(
            f"{location} does not contain the offsets at which its group began"
            + (", which several drivers share" if identity.shared else "")
            + ": give --input, --group and --input-from"
        )
    topics = sorted({p.topic for p in batch.end})
    if gone := sorted({p.topic for p in starts} - set(topics)):
        raise ConfigurationError(
            f"the query of {location} has read {', '.join(gone)}, which it no longer reads: give "
            "--input, --group, --input-from and --output-from"
        )
    with cluster.looking_at("the topics"), cluster.admin() as admin:
        partitions = topic_ids(admin, topics)
    # A partition that was found later is read from its first record.
    return Known(topics, identity.group, {p: starts.get(p, 0) for p in partitions})
