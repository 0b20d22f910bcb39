"""A query whose log says where it continues: the built-in connector or another sink ran it last."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka import TopicPartition

from eoskafka import stamps
from eoskafka.brokers.connection import Connection
from eoskafka.brokers.topics import names_of, offset_json, topic_ids
from eoskafka.checkpoints import Batch
from eoskafka.errors import OffsetsError
from eoskafka.offsets.adoption_refusals import is_by_checkpoint
from eoskafka.offsets.candidate import BEGIN_ANEW, Candidate
from eoskafka.offsets.model import Adoption, Situation, Standing
from eoskafka.offsets.standing import LogOffsets, Snapshot


def check_log(cluster: Connection, candidate: Candidate, batch: Batch, group: Snapshot) -> Adoption:
    """Check that the query can continue where this batch, its last one, says.

    Raises:
        OffsetsError: it cannot.
    """
    standing = group.standing
    restarts = candidate.restarts(batch, group.topic_ids)
    start = candidate.start_by_log(batch)
    refuse_former_topics(candidate, start.keys() - restarts.keys(), group)
    start |= restarts
    _refuse_other_offsets(candidate, start, standing)
    _require_in_log(cluster, candidate, start)
    # Spark's log is the same with the built-in connector and with another sink.
    is_by_log = any(
        each.identity == candidate.owner.id and each.scope == stamps.Scope.SOURCE_ONLY.value
        for each in standing.positions
    )
    has_other_sink = candidate.checkpoint.has_writes or is_by_log
    situation = Situation.OTHER_SINK if has_other_sink else Situation.BUILT_IN
    if batch.committed:
        return Adoption(situation, standing.group, offset_json(start))
    return Adoption(
        situation,
        standing.group,
        offset_json(start),
        open_batch=batch.number,
        open_records=sum(max(0, end - start.get(p, end)) for p, end in batch.end.items()),
    )


def _refuse_other_offsets(
    candidate: Candidate, start: Mapping[TopicPartition, int], standing: Standing
) -> None:
    for each in standing.positions:
        if each.committed is None:
            continue
        if each.identity != candidate.owner.id:
            advice = "Give the query another kafka.group.id"
            if candidate.is_known:
                # A checkpoint that has a group keeps it.
                advice = f"Stop the others, and {BEGIN_ANEW}"
            raise OffsetsError(
                f"the log of {candidate.location} says where the query continues, because the "
                "built-in connector has run it last, or eoskafka with another sink, but group "
                f"'{standing.group}' has offsets of others. Nothing was changed. {advice}"
            )
    refuse_beyond_log(candidate, start, standing)


def refuse_former_topics(
    candidate: Candidate, by_log: Collection[TopicPartition], group: Snapshot
) -> None:
    """Refuse partitions whose topic was created again since eoskafka last ran the query.

    Args:
        candidate: a query whose log says where it continues.
        by_log: partitions that continue where the log says.
        group: what the query's group has.

    Raises:
        OffsetsError: there is one.
    """
    kept, committed = candidate.checkpoint.topic_ids(), group.committed
    own = {p for p, each in committed.items() if each.identity in candidate.identities}
    former = [
        p
        for p in sorted({*by_log} & {*group.topic_ids})
        if kept.get(p, group.topic_ids[p]) != group.topic_ids[p]
        or (p in own and not committed[p].is_same_topic)
    ]
    if former:
        may_name = not any(map(is_by_checkpoint, committed.values()))
        raise OffsetsError(
            f"the topic of {names_of(former)} was deleted and created again since eoskafka last ran"
            f" the query: the offset in Spark's log at {candidate.location} may belong to the old "
            "topic. Nothing was changed. If the last batches were read with "
            'readStream.format("eoskafka"), start the query with the sink of those batches and '
            "failOnDataLoss=false, until it has logged a batch. If the built-in connector has "
            "read them, "
            + ("name all of these partitions with --at, or " if may_name else "")
            + BEGIN_ANEW
        )


def refuse_restarts(candidate: Candidate, batch: Batch, group: Snapshot) -> None:
    """Refuse offsets for partitions that have a start in the checkpoint: the connector takes that.

    Args:
        candidate: the query.
        batch: the last one in its log.
        group: what the query's group has.

    Raises:
        OffsetsError: there is one.
    """
    if restarts := candidate.restarts(batch, group.topic_ids):
        raise OffsetsError(
            f"{names_of(sorted(restarts))}: the topic was created again, or its log was truncated, "
            f"and {candidate.location} says where the query continues: at {offset_json(restarts)}. "
            "Nothing was changed. Start the query with the sink that it had in its last batch, "
            "until it has logged a batch. Then repeat this command"
        )


def refuse_beyond_log(
    candidate: Candidate, start: Mapping[TopicPartition, int], standing: Standing
) -> None:
    """Refuse partitions whose offset in the group is past `start`, where the log continues.

    Raises:
        OffsetsError: there is one.
    """
    for each in standing.positions:
        logged = start.get(TopicPartition(each.topic, each.partition))
        if (
            logged is not None
            and each.committed is not None
            and each.is_same_topic
            and each.committed > logged
        ):
            at = "say where each such partition continues with --at, or "
            if is_by_checkpoint(each):
                # Then --at is refused.
                at = ""
            raise OffsetsError(
                f"the log of {candidate.location} continues at offset {logged} of {each.topic}-"
                f"{each.partition}, but group '{standing.group}' is at {each.committed}: the "
                "checkpoint is an older copy, or another query has used its path. Nothing was "
                "changed. Restore the checkpoint that the query has run with last. If there is "
                f"none, {at}{BEGIN_ANEW}"
            )


def _require_in_log(
    cluster: Connection, candidate: Candidate, start: Mapping[TopicPartition, int]
) -> None:
    with cluster.admin() as admin:
        ids = topic_ids(admin, {partition.topic for partition in start})
        missing = sorted(set(start) - set(ids))
        if missing:
            raise OffsetsError(
                f"{candidate.location} has read {names_of(missing)}, but the cluster at "
                f"{cluster.servers} has no such partition. Nothing was changed. Is it this "
                "cluster? If not, correct --bootstrap-servers"
            )
        log = LogOffsets(admin, sorted(start))
    for partition, offset in sorted(start.items()):
        if not log.start[partition] <= offset <= log.end[partition]:
            raise OffsetsError(
                f"{candidate.location} continues at offset {offset} of {names_of([partition])}, "
                f"which has the offsets {log.start[partition]} to {log.end[partition]}. "
                "Nothing was changed. With failOnDataLoss=false the query continues with the "
                "records that exist"
            )
