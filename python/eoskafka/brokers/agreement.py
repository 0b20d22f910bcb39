"""Asks all brokers that are connected to the controllers.

A broker that is cut off from the controllers still answers clients. It returns the id that a topic
had before it was deleted and created again, and claims to be the leader of partitions for which
another broker was elected. The connector has the same rules (`io.eoskafka.wire.ConnectedBrokers`,
`AgreedTopicIds` and `NewestLeaders`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.protocol.metadata import MetadataRequest

from eoskafka.brokers.connection import Connection
from eoskafka.brokers.topics import ids_of, names_of, nodes, permitted

# After a broker goes down, the others still list it for up to nine seconds.
_WAIT_S = 15.0
_RETRY_S = 0.5

# What to do then, at the end of a message.
WAY_OUT = (
    "Repeat the command in a minute. If that does not help, repair or stop the broker that is cut "
    "off"
)


@dataclass(frozen=True)
class Answer:
    """The answer of one broker.

    Attributes:
        brokers: the brokers that it considers alive: their addresses by their ids.
        topics: the topics that it was asked about, as it describes them.
    """

    brokers: Mapping[int, str]
    topics: list[dict[str, Any]]

    def topic_ids(self) -> dict[TopicPartition, str]:
        """The partitions of all topics that exist, with their topics' ids.

        Raises:
            TopicAuthorizationFailedError: this user may not describe one.
        """
        return ids_of(permitted(self.topics))

    def leader_epochs(self) -> dict[TopicPartition, int]:
        """The leader epoch of each partition."""
        return {
            TopicPartition(topic["name"], each["partition_index"]): each["leader_epoch"]
            for topic in self.topics
            for each in topic["partitions"]
        }


# By the names of the brokers, for a message.
_Connected: TypeAlias = "Mapping[str, Answer]"


def answer_of(
    cluster: Connection, broker: int, address: str, topics: Collection[str]
) -> Answer | None:
    """What this broker knows of others and of these topics; None if it does not answer.

    It has a client of its own, which knows the broker even if the others do not list it.
    """
    try:
        with cluster.admin(address) as admin:
            found = admin._manager.run(_metadata, admin, broker, sorted(topics))
    except (KafkaError, OSError):
        return None
    return Answer(
        {each["node_id"]: f"{each['host']}:{each['port']}" for each in found["brokers"]},
        found["topics"],
    )


async def _metadata(admin: KafkaAdminClient, broker: int, topics: list[str]) -> Any:
    # This client's own method asks any broker.
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics],
        allow_auto_topic_creation=False,
    )
    response = await admin._manager.send(request, node_id=broker)
    return response.to_dict()


def disagreement_on_ids(
    cluster: Connection, ids: Mapping[TopicPartition, str], topics: Collection[str]
) -> str:
    """Why these topic ids cannot be trusted; empty if all connected brokers return them.

    While there is a reason, it asks again for some time, because brokers learn of a new topic one
    after the other. Ids have no order, so all connected brokers must return the same ones.

    Args:
        ids: the topic id of each partition, as one broker returned it.
        topics: the topics with these ids, and those that should have had one.
    """
    problem = _asked_again(cluster, topics, lambda found: _other_id(ids, found))
    return problem and (
        f"{problem}. A broker that is cut off from the controllers still reports the old id of a "
        "topic that was deleted and created again"
    )


def former_leader(cluster: Connection, epochs: Mapping[TopicPartition, int]) -> str:
    """Why these log ends cannot be trusted; empty if the newest leaders returned them.

    Args:
        epochs: for each partition, the leader epoch of the broker that returned its end.
    """
    topics = {partition.topic for partition in epochs}
    return _asked_again(cluster, topics, lambda found: _newer_leader(epochs, found))


def _asked_again(
    cluster: Connection, topics: Collection[str], problem_of: Callable[[_Connected], str]
) -> str:
    deadline = time.monotonic() + _WAIT_S
    while topics:
        brokers, answers = _ask_all(cluster, topics)
        connected, problem = _connected(brokers, answers)
        problem = problem or problem_of(connected)
        if not problem or time.monotonic() > deadline:
            return problem
        time.sleep(_RETRY_S)
    return ""


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


def _connected(brokers: Mapping[int, str], answers: Mapping[int, Answer]) -> tuple[_Connected, str]:
    """What the connected brokers answer, by their names; or why that is not known.

    The others do not list a broker that is cut off, but its own list, which is outdated, has them.
    A broker is therefore certainly connected if all answers list it, or if all answers of such
    brokers list it. If one does not answer, it may be the only one that knows the present state.
    """
    core = _in_each_list(brokers, answers.values())
    connected = _in_each_list(brokers, [answers[each] for each in core & answers.keys()])
    if not core:
        return {}, "no broker is listed by all other brokers"
    for each in sorted(connected - answers.keys()):
        return {}, f"broker {each} at {brokers[each]} does not answer, and the others list it"
    return {f"broker {each} at {brokers[each]}": answers[each] for each in sorted(connected)}, ""


def _in_each_list(brokers: Collection[int], answers: Iterable[Answer]) -> set[int]:
    found = set(brokers)
    for answer in answers:
        found &= answer.brokers.keys()
    return found


def _other_id(ids: Mapping[TopicPartition, str], connected: _Connected) -> str:
    for broker, answer in connected.items():
        others = answer.topic_ids()
        differing = [p for p in {*ids, *others} if ids.get(p) != others.get(p)]
        if differing:
            first = min(differing)
            return (
                f"{broker} names the topic id {others.get(first, 'none')} of {names_of([first])}, "
                f"and the broker that was asked first names {ids.get(first, 'none')}"
            )
    return ""


def _newer_leader(epochs: Mapping[TopicPartition, int], connected: _Connected) -> str:
    for broker, answer in connected.items():
        newest = answer.leader_epochs()
        former = [p for p, epoch in epochs.items() if newest.get(p, epoch) > epoch]
        if former:
            first = min(former)
            return (
                f"a former leader has named the end of {names_of([first])}: its leader epoch is "
                f"{epochs[first]}, and {broker} knows of {newest[first]}"
            )
    return ""
