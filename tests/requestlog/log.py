"""Reads the request log of a broker, and reduces it to what does not depend on timing.

A broker whose logger `kafka.request.logger` is at DEBUG writes one line for each request that it
has answered, with the request's header and body as JSON.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

LOGGER = "kafka.request.logger"
_LINE = re.compile(r"Completed request:\s*(\{.*\}) \(kafka\.request\.logger\)$")

# A client sends these on a timer, when it connects, or again until an answer has what it waits for.
# So timing decides how many of them there are, and the report leaves them out. A consumer that
# leaves does not wait for the answer, without which the broker logs nothing.
TIMED = frozenset(
    {
        "API_VERSIONS",
        "CONSUMER_GROUP_HEARTBEAT",
        "FETCH",
        "FIND_COORDINATOR",
        "HEARTBEAT",
        "LEAVE_GROUP",
        "METADATA",
    }
)
# The same of one client only: a task that reads nothing for a while asks whether its topics are
# still there; a driver looks at its topics and its group's members again after some seconds.
_TIMED_OF = {
    "eoskafka-executor": frozenset({"DESCRIBE_CLUSTER", "DESCRIBE_TOPIC_PARTITIONS"}),
    "eoskafka-driver-RUN": frozenset(
        {
            "CONSUMER_GROUP_DESCRIBE",
            "DESCRIBE_CLUSTER",
            "DESCRIBE_GROUPS",
            "DESCRIBE_TOPIC_PARTITIONS",
        }
    ),
}
# Brokers are asked for their transactions until all coordinators have loaded theirs, by several
# threads.
_LISTS = "eoskafka-transaction-lists"
# A thread of a shared group's driver sends these after a rebalance, by the client of the query's
# thread.
AFTER_REBALANCE = frozenset({"INIT_PRODUCER_ID"})

# What differs from run to run in a client id, and what the report says in its place.
_NAMES = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "RUN"),
    (re.compile(r"\bg[0-9a-f]{10}\b"), "GROUP"),
    (re.compile(r"(?<=-)[\w-]{22}(?=-|$)"), "IDENTITY"),
    (re.compile(r"[0-9]{10,}"), "NUMBER"),
)


class Request(NamedTuple):
    """One request.

    Attributes:
        client: its client id, without what differs from run to run.
        name: of its API, as Kafka's protocol spells it, and what tells two of its uses apart.
    """

    client: str
    name: str


def parse(text: str) -> list[Request]:
    """The requests of the connector's clients in a broker's log, in the order of the answers."""
    lines = (_LINE.search(line) for line in text.splitlines())
    entries = (json.loads(line[1]) for line in lines if line)
    return [_request(entry) for entry in entries if _is_of_java_client(entry)]


def _is_of_java_client(entry: Mapping[str, Any]) -> bool:
    """Brokers are clients of each other, and of themselves; the tests' own clients are Python's."""
    client: str = entry["requestHeader"]["clientId"]
    return "eoskafka" in client or _NAMES[0][0].match(client) is not None


def _request(entry: Mapping[str, Any]) -> Request:
    header = entry["requestHeader"]
    client: str = header["clientId"]
    for pattern, name in _NAMES:
        client = pattern.sub(name, client)
    return Request(client, _name(header["requestApiKeyName"], entry["request"]))


def _name(api: str, body: Mapping[str, Any]) -> str:
    if api == "OFFSET_FETCH":
        return f"{api} ({'stable' if body['requireStable'] else 'plain'})"
    if api == "END_TXN":
        return f"{api} ({'commit' if body['committed'] else 'abort'})"
    return api


def sequences(requests: Iterable[Request], unordered: Collection[str] = ()) -> list[str]:
    """One line for each client: its requests in order, without those that depend on timing.

    Several requests of one kind in a row are named once.

    Args:
        unordered: requests that several threads of a driver send. They are named once, at the end.
    """
    lines = []
    for client, names in sorted(_by_client(requests).items()):
        apart = {n for n in names if client.startswith("eoskafka-driver") and n in unordered}
        if client == _LISTS:
            lines.append(f"{client}: in any order {', '.join(sorted(set(names)))}")
            continue
        line = " → ".join(name for name, _ in groupby(n for n in names if n not in apart))
        if apart:
            line += f", and at some time {', '.join(sorted(apart))}"
        lines.append(f"{client}: {line}")
    return lines


def once(requests: Iterable[Request]) -> list[Request]:
    """The requests of each client, without those that depend on timing, and without repetitions.

    For queries in real-time mode, where timing decides how many transactions there are.
    """
    return [
        Request(client, name)
        for client, names in _by_client(requests).items()
        for name in unrepeated(names)
    ]


def _by_client(requests: Iterable[Request]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for client, name in requests:
        if name not in TIMED and name not in _TIMED_OF.get(client, ()):
            found[client].append(name)
    return found


def unrepeated(names: Sequence[str]) -> list[str]:
    """The same without a group of names that follows directly on the same group."""
    kept = [*names]
    for size in range(1, len(kept) // 2 + 1):
        at = 0
        while at + 2 * size <= len(kept):
            if kept[at : at + size] == kept[at + size : at + 2 * size]:
                del kept[at : at + size]
            else:
                at += 1
    return kept
