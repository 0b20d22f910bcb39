"""The query that `adopt` checks: what its checkpoint says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kafka import TopicPartition

from eoskafka import stamps
from eoskafka.checkpoints import Batch, Checkpoint, Identity
from eoskafka.errors import OffsetsError

# What is left to do if the checkpoint cannot be continued.
BEGIN_ANEW = (
    "start the query with a new checkpoint, another kafka.group.id, and startingOffsets that give "
    "for every partition the first offset whose output is missing"
)


@dataclass(frozen=True)
class Candidate:
    """A query that may get the offsets of its group.

    Attributes:
        checkpoint: the query's.
        owner: whose its offsets are, or will be.
        is_known: whether the checkpoint says so itself.
        spark_batch: the last batch of Spark's log, as it was read.
        batch: the same, with `log_is_ahead` if the log says where the query continues.
    """

    checkpoint: Checkpoint
    owner: Identity
    is_known: bool
    spark_batch: Batch | None
    batch: Batch | None

    @classmethod
    def read(cls, checkpoint: Checkpoint, group: str) -> Candidate:
        """Read the checkpoint; `group` is what the user has named, or empty.

        Raises:
            CheckpointError: the checkpoint cannot be read.
            OffsetsError: it knows no group, or another one.
        """
        location = checkpoint.location
        identity = checkpoint.identity()
        if identity and group and identity.group != group:
            raise OffsetsError(
                f"{location} belongs to group '{identity.group}', not to '{group}'. Nothing was "
                "changed. To use the other group, start the query with a new checkpoint"
            )
        batch = spark_batch = checkpoint.last_batch()
        if not (identity or group or batch):
            raise OffsetsError(
                f"{location} knows no group, or there is no checkpoint. If the path is right, name "
                "the group whose offsets its query should have with --group"
            )
        if batch and identity is None and not batch.is_ours:
            # Another connector or sink has run the query last, so its log says where it continues.
            batch = replace(batch, log_is_ahead=True)
        owner = identity or checkpoint.new_identity(group)
        return cls(checkpoint, owner, identity is not None, spark_batch, batch)

    @property
    def location(self) -> str:
        """Where the checkpoint is."""
        return self.checkpoint.location

    @property
    def identities(self) -> set[str]:
        """The identities in the query's stamps, also in those from before it shared its group."""
        owner = self.owner
        exclusive = stamps.exclusive_identity(owner.group, owner.instance_id, owner.checkpoint_id)
        return {owner.id, exclusive}

    @property
    def log_is_ahead(self) -> bool:
        """Whether Spark's log, and not the group, says where the query continues."""
        return self.batch is not None and self.batch.log_is_ahead

    def require_idle(self) -> None:
        """Refuse a query that has run since the checkpoint was read."""
        if self.checkpoint.last_batch() != self.spark_batch:
            raise OffsetsError(
                f"the query of {self.location} has run while the command looked at its group. "
                "Nothing was changed. Stop the query, and repeat the command"
            )

    def restarts(
        self, batch: Batch, topic_ids: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, int]:
        """Where partitions continue regardless of Spark's log: their topic is new, or was cut.

        Args:
            batch: the last batch in the log.
            topic_ids: the topic ids of the partitions that exist.
        """
        return {
            partition: restart.offset
            for partition, restart in self.checkpoint.restarts(batch.until).items()
            if topic_ids.get(partition) == restart.id
        }

    def start_by_log(self, batch: Batch) -> dict[TopicPartition, int]:
        """Where the query continues as far as its log says: at the end of a batch, or its start.

        Raises:
            OffsetsError: the batch was not finished, and its start is not known.
        """
        start = batch.end if batch.committed else batch.start
        if start is None:
            raise OffsetsError(
                f"batch {batch.number} of {self.location} was not finished, and the checkpoint "
                "does not have its start offsets. Nothing was changed. Run the query with the "
                "connector and the sink that began the batch, until it is finished"
            )
        return start
