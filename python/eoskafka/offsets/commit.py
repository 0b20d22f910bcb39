"""Committing offsets for a group whose query is stopped."""

from __future__ import annotations

from collections.abc import Mapping

from kafka import TopicPartition
from kafka.errors import NoError
from kafka.structs import OffsetAndMetadata

from eoskafka.errors import OffsetsError
from eoskafka.groups import Connection, committed
from eoskafka.offsets.model import Standing, names_of

# Of a commit; a broker takes about 1 MiB at a time.
_OFFSETS_PER_REQUEST = 1_000


def require_stopped(standing: Standing) -> None:
    """Refuse a group that has members, or offsets in an open transaction.

    Raises:
        OffsetsError: it has. Nothing was changed.
    """
    if standing.members:
        raise OffsetsError(
            f"group '{standing.group}' has members: {'; '.join(standing.members)}. "
            "Nothing was changed. Stop its query first; a driver that was killed stays a member "
            "until its session has ended (kafka.session.timeout.ms, 45 s by default)"
        )
    if standing.pending_in:
        raise OffsetsError(
            f"an open transaction holds offsets of group '{standing.group}': one of "
            f"{', '.join(standing.pending_in)}. Nothing was changed. Start the query and stop it, "
            "which aborts what its executors have left open, or wait until it times out"
        )


def commit_offsets(
    cluster: Connection, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    """Commit these offsets, and read them back.

    Raises:
        OffsetsError: the broker refused some, or somebody else has changed them since.
        UnreachableError: the broker did not say whether it has them.
    """
    look = f"look with `eoskafka offsets show --group {group}`"
    with cluster.changing(f"group '{group}'", look):
        _commit_all(cluster, group, offsets)
    there = committed(cluster, group)
    wrong = [
        partition
        for partition, each in offsets.items()
        if partition not in there
        or (there[partition].offset, there[partition].metadata) != (each.offset, each.metadata)
    ]
    if wrong:
        raise OffsetsError(
            f"group '{group}' has other offsets now than were written, of {names_of(wrong)}: "
            "somebody else has changed them since. Look at them, and repeat this"
        )


def _commit_all(
    cluster: Connection, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    everything = sorted(offsets)
    for begin in range(0, len(everything), _OFFSETS_PER_REQUEST):
        part = everything[begin : begin + _OFFSETS_PER_REQUEST]
        with cluster.admin() as admin:
            answer = admin.alter_group_offsets(group, {each: offsets[each] for each in part})
        refused = {p: error for p, error in answer.items() if error is not NoError}
        if refused:
            partition, error = next(iter(sorted(refused.items())))
            raise OffsetsError(
                f"the broker refused {len(refused)} of {len(everything)} offsets of group "
                f"'{group}', the first one of {names_of([partition])}: {error.__name__}. "
                f"{begin} were changed before. UnknownMemberIdError means that somebody has "
                "joined the group since: stop it, and repeat this"
            )
