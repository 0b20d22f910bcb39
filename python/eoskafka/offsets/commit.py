"""Committing offsets for a group whose query is stopped."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import GroupAuthorizationFailedError, NoError
from kafka.structs import OffsetAndMetadata

from eoskafka.brokers.connection import REFUSALS, Connection, lacks
from eoskafka.brokers.groups import stable
from eoskafka.brokers.topics import names_of
from eoskafka.errors import AuthorizationError, OffsetsError
from eoskafka.offsets.model import Standing, State

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
    if any(each.state is State.PENDING for each in standing.positions):
        raise OffsetsError(
            f"an open transaction holds offsets of group '{standing.group}': "
            f"{holders_of(standing)}. Nothing was changed. Start the query and stop it, which "
            "aborts what its executors have left open, or wait until it times out"
        )


def holders_of(standing: Standing) -> str:
    """The transactions that may hold offsets of a group, for a message."""
    if standing.pending_in:
        return f"one of {', '.join(standing.pending_in)}"
    return (
        "one that the brokers do not list, because its coordinator is moving, or because this user "
        "lacks Describe on its transactional id, or on the topics __transaction_state and "
        "__consumer_offsets"
    )


def commit_offsets(
    cluster: Connection,
    group: str,
    before: Mapping[TopicPartition, OffsetAndMetadata],
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> None:
    """Commit these offsets, and read them back.

    Args:
        before: the group's offsets at the time when the new ones were chosen.

    Raises:
        OffsetsError: the group's offsets are no longer `before`, the broker refused some, or others
            have changed them since.
        AuthorizationError: this user may not commit them.
        UnreachableError: the broker did not say whether it has them.
    """
    if not offsets:
        return
    look = f"look with `eoskafka offsets show --group {group}`"
    with cluster.admin() as admin:
        # A client keeps the coordinator that it has found. If that one was deposed, it may be where
        # `before` comes from, but it cannot accept offsets.
        _require_unchanged(admin, group, before, offsets)
        with cluster.changing(f"group '{group}'", look, "Read", group):
            _commit_all(admin, group, offsets)
            there, _ = stable(admin, group, offsets)
    wrong = [
        partition for partition, each in offsets.items() if not _are_same(there, offsets, partition)
    ]
    if wrong:
        raise OffsetsError(
            f"group '{group}' no longer has the offsets that this command has written, of "
            f"{names_of(wrong)}: another client has changed them since. Look at them, and repeat "
            "the command"
        )


def _require_unchanged(
    admin: KafkaAdminClient,
    group: str,
    before: Mapping[TopicPartition, OffsetAndMetadata],
    offsets: Collection[TopicPartition],
) -> None:
    now, is_open = stable(admin, group, offsets)
    changed = sorted(p for p in offsets if p in is_open or not _are_same(now, before, p))
    if changed:
        raise OffsetsError(
            f"the offsets of {names_of(changed)} in group '{group}' have changed while the command "
            "was reading them, or a former coordinator of the group has answered the first "
            "request. No offset was changed. If the query has run meanwhile, keep it stopped; "
            "then repeat the command"
        )


def _are_same(
    some: Mapping[TopicPartition, OffsetAndMetadata],
    others: Mapping[TopicPartition, OffsetAndMetadata],
    partition: TopicPartition,
) -> bool:
    one, other = some.get(partition), others.get(partition)
    if one is None or other is None:
        return one is other
    return (one.offset, one.metadata) == (other.offset, other.metadata)


def _commit_all(
    admin: KafkaAdminClient, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    everything = sorted(offsets)
    for begin in range(0, len(everything), _OFFSETS_PER_REQUEST):
        part = everything[begin : begin + _OFFSETS_PER_REQUEST]
        answer = admin.alter_group_offsets(group, {each: offsets[each] for each in part})
        refused = {p: error for p, error in answer.items() if error is not NoError}
        if refused:
            partition, error = next(iter(sorted(refused.items())))
            # A broker decides on each partition of a request.
            changed = begin + len(part) - len(refused)
            if error in REFUSALS:
                what = group if error is GroupAuthorizationFailedError else partition.topic
                raise AuthorizationError(
                    f"{lacks('Read', error, what)}, and the broker refused {len(refused)} of "
                    f"{len(part)} offsets of group '{group}'. Of the {len(everything)} offsets, "
                    f"{changed} were changed and stay so. Do not start the query before you have "
                    "granted the right and repeated the command without an error"
                )
            raise OffsetsError(
                f"the broker refused {len(refused)} of {len(part)} offsets of group '{group}', the "
                f"first one of {names_of([partition])}: {error.__name__}. Of the {len(everything)} "
                f"offsets, {changed} were changed and stay so. Do not start the query before you "
                "have repeated the command without an error. UnknownMemberIdError means that a "
                "consumer has joined the group since: stop it first"
            )
