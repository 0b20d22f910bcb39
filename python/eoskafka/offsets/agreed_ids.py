"""The ids of topics on which all brokers agree that are connected to the controllers.

Ids of topics have no order. A broker that is cut off from the controllers still names the id that a
topic had before it was created again. With that id in its stamps, a query would read the new topic
from its beginning. The connector has the same rules (`io.eoskafka.wire.ConnectedBrokers` and
`AgreedTopicIds`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping

from kafka import TopicPartition

from eoskafka.errors import OffsetsError
from eoskafka.groups import Answer, Connection, answer_of, nodes
from eoskafka.offsets.model import names_of
from eoskafka.offsets.standing import Snapshot

# The others list a broker that is down for nine seconds at most.
_WAIT_S = 15.0
_RETRY_S = 0.5


def require_agreed_ids(cluster: Connection, group: Snapshot) -> None:
    """Refuse ids of topics that are not those which all connected brokers name.

    Raises:
        OffsetsError: a connected broker names others, or does not answer.
    """
    topics = {partition.topic for partition in (*group.positions, *group.topic_ids)}
    if not topics:
        return
    deadline = time.monotonic() + _WAIT_S
    while problem := _problem(group.topic_ids, *_ask_all(cluster, topics)):
        if time.monotonic() > deadline:
            raise OffsetsError(
                f"it is not known which ids the topics of group '{group.standing.group}' have: "
                f"{problem}. A broker that is cut off from the controllers still names the former "
                "id of a topic that was created again, and with that id in its offsets the query "
                "could read the topic twice. Nothing was changed. Repeat the command in a minute. "
                "If that does not help, repair or stop the broker that is cut off"
            )
        time.sleep(_RETRY_S)


def _ask_all(
    cluster: Connection, topics: Collection[str]
) -> tuple[dict[int, str], dict[int, Answer]]:
    """Ask every broker that any of them knows; the addresses of all, and the answers of some."""
    with cluster.admin() as admin:
        left = {int(each["broker_id"]): f"{each['host']}:{each['port']}" for each in nodes(admin)}
    brokers: dict[int, str] = {}
    answers: dict[int, Answer] = {}
    while left:
        broker, address = left.popitem()
        brokers[broker] = address
        answer = answer_of(cluster, broker, address, topics)
        if answer is not None:
            answers[broker] = answer
            left |= {each: at for each, at in answer.brokers.items() if each not in brokers}
    return brokers, answers


def _problem(
    ids: Mapping[TopicPartition, str], brokers: Mapping[int, str], answers: Mapping[int, Answer]
) -> str:
    """Why these ids are not believed; empty if every connected broker names them.

    A broker that is cut off is not in the lists of the others, but they are in its own list, which
    is an old one. So those brokers are surely connected that each answer lists, and those that
    these list. One of them that does not answer may be the only one that knows the present ids.
    """
    core = _in_each_list(brokers, answers.values())
    connected = _in_each_list(brokers, [answers[each] for each in core & answers.keys()])
    if not core:
        return "no broker is in the lists of all others"
    silent = sorted(connected - answers.keys())
    if silent:
        return f"broker {silent[0]} at {brokers[silent[0]]} does not answer, and the others list it"
    for broker in sorted(connected):
        others = answers[broker].topic_ids()
        differing = [p for p in {*ids, *others} if ids.get(p) != others.get(p)]
        if differing:
            first = min(differing)
            return (
                f"broker {broker} at {brokers[broker]} names the topic id "
                f"{others.get(first, 'none')} of {names_of([first])}, and the broker that was asked"
                f" first names {ids.get(first, 'none')}"
            )
    return ""


def _in_each_list(brokers: Collection[int], answers: Iterable[Answer]) -> set[int]:
    found = set(brokers)
    for answer in answers:
        found &= answer.brokers.keys()
    return found
