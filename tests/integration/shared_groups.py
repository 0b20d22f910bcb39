"""Several drivers in one group: their options, and what the tests of them wait for."""

from __future__ import annotations

import re
from typing import Any

import pytest
from eoskafka.cluster import LocalCluster
from harness import Action, Application, Flow, Point, Query, until

RECORDS = 600
PARTITIONS = 4
SHARED: dict[str, Any] = {"ownership": "shared"}
SESSION_S = 6
CLASSIC: dict[str, Any] = {
    **SHARED,
    "kafka.session.timeout.ms": str(SESSION_S * 1_000),
    "interval": "100 milliseconds",
}
# A running query's, with either protocol of the group.
PROTOCOLS = [
    pytest.param(CLASSIC, id="classic"),
    pytest.param(
        {**SHARED, "kafka.group.protocol": "consumer", "interval": "100 milliseconds"},
        id="consumer",
        marks=pytest.mark.slow,
    ),
]
# Of a broker that gives a member of either protocol up after six seconds.
IMPATIENT: dict[str, Any] = {
    "group.initial.rebalance.delay.ms": "1000",  # as real brokers have it, but for 3 s
    "group.consumer.session.timeout.ms": str(SESSION_S * 1_000),
    "group.consumer.min.session.timeout.ms": str(SESSION_S * 1_000),
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}


def until_done(how: dict[str, Any]) -> dict[str, Any]:
    """The same options for a query that ends when everything is read."""
    return {name: value for name, value in how.items() if name != "interval"}


def both_work(first: Query, second: Query, flow: Flow) -> None:
    """Wait until each driver has batches of its own; its first one may be without partitions."""
    before = [query.status().batches for query in (first, second)]

    def have_moved() -> bool:
        flow.produce(40)
        now = [query.status().batches for query in (first, second)]
        return all(n > max(b, 1) for n, b in zip(now, before, strict=True))

    until(have_moved, "batches of both drivers", 60)


def two_drivers(
    flow: Flow, application: Application, other: Application, how: dict[str, Any]
) -> tuple[Query, Query]:
    """Start a driver in each application, in one group, and wait until each has work."""
    first = flow.start(application, driver="a", **how)
    second = flow.start(other, driver="b", **how)
    both_work(first, second, flow)
    return first, second


def reach_beside(
    flow: Flow,
    application: Application,
    other: Application,
    how: dict[str, Any],
    point: Point,
    action: Action,
) -> tuple[Query, Query, int]:
    """Two drivers, and a task of the second one's at `point`, where `action` was taken.

    Returns:
        the two queries, and the pid of the JVM with the task.
    """
    first, second = two_drivers(flow, application, other, how)
    other.faults.arm(point, action)
    flow.produce(RECORDS)
    return first, second, other.faults.wait_taken(point)


def end(flow: Flow, *drivers: Query) -> None:
    """Let the drivers finish, stop them, and compare what they have written."""
    flow.wait_committed()
    for driver in drivers:
        assert driver.stop().error is None
    flow.assert_exactly_once()


def arrivals(application: Application) -> int:
    """How often its driver has found itself in a group whose partitions had moved."""
    return application.text().count("are new to this driver")


def revocations(application: Application) -> int:
    """How often its driver was asked for partitions: Kafka's client logs it, and then calls it."""
    return application.text().count("Revoke previously assigned partitions")


def has_expired(cluster: LocalCluster, group: str) -> bool:
    """Whether the broker has given up a member, of either protocol, that was not heard of."""
    log = cluster.brokers[0].log_file.read_text(encoding="utf-8")
    said = rf" group {group} has failed, removing it|\[GroupId {group}\] .* session expired"
    return re.search(said, log) is not None


def run_another(application: Application, one: Flow) -> None:
    """In a group of its own a driver starts, joins, writes something and ends.

    One that was there before, in the same application, has had time for as much.
    """
    one.produce(RECORDS)
    one.start(application, **SHARED).wait_done()
