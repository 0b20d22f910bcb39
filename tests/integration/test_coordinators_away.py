"""A start while a partition of the transaction log has no leader.

What its coordinator has open is then in no broker's list. The partition gets a single replica here,
on a broker that is killed, so that nothing but this broker's return brings its coordinator back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from eoskafka import transactions
from eoskafka.brokers.groups import partition_of
from eoskafka.cluster import LocalCluster
from eoskafka.cluster.broker import Broker
from harness import Application, Flow, StartApplication, until
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

RECORDS = 600
STATELESS: dict[str, Any] = {"transform": "repartitioned", "maxOffsetsPerTrigger": 200}
LOG = "__transaction_state"
# So many that the writer's transaction and the decision's are hardly in one.
LOG_PARTITIONS = 50
NOBODY = -1


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three, whose transaction log takes writes with one replica."""
    properties = {
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": str(LOG_PARTITIONS),
    }
    with LocalCluster(3, tmp_path_factory.mktemp("brokers"), properties=properties) as cluster:
        yield cluster


@pytest.fixture
def flow(brokers: LocalCluster, tmp_path: Path, keep_logs: list[Path]) -> Iterator[Flow]:
    keep_logs += [broker.log_file for broker in brokers.brokers]
    yield Flow(brokers.bootstrap_servers, tmp_path / "checkpoint", replicas=3)
    for broker in brokers.brokers:
        if broker.pid is None:
            broker.start()


@pytest.fixture
def application(local_application: Application) -> Application:
    return local_application


def leave_open(flow: Flow, start_application: StartApplication) -> str:
    """The id of a writer whose driver was killed, in another partition than the decisions'."""
    flow.produce(RECORDS)
    first = start_application("local[2]")
    flow.reach(first, "before-decision", "kill", **STATELESS)
    first.kill()
    of_decisions = partition_of(flow.decision_id(), LOG_PARTITIONS)
    return next(
        name
        for name in flow.open_transactions()
        if partition_of(name, LOG_PARTITIONS) != of_decisions
    )


def others(brokers: LocalCluster, away: Broker) -> str:
    """The addresses of all but one."""
    return ",".join(broker.address for broker in brokers.brokers if broker is not away)


def take_coordinator_away(brokers: LocalCluster, transactional_id: str) -> Broker:
    """Kill the only broker that has this id's part of the transaction log.

    Returns:
        the broker, after the cluster has noticed.
    """
    number = partition_of(transactional_id, LOG_PARTITIONS)
    victim = brokers.brokers[-1]
    servers = others(brokers, victim)

    def is_kept_by(leader: int, replicas: list[int]) -> bool:
        # A client may choose the dead broker to ask.
        with (
            suppress(KafkaError),
            closing(KafkaAdminClient(bootstrap_servers=servers)) as admin,
        ):
            (topic,) = admin.describe_topics([LOG])
            (found,) = (p for p in topic["partitions"] if p["partition_index"] == number)
            return (found["leader_id"], found["replica_nodes"]) == (leader, replicas)
        return False

    only = [victim.node_id]
    with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        admin.alter_partition_reassignments({TopicPartition(LOG, number): only})
    until(lambda: is_kept_by(victim.node_id, only), f"{LOG}-{number} on one broker", 30)
    victim.kill()
    until(lambda: is_kept_by(NOBODY, only), f"{LOG}-{number} without a leader", 30)
    return victim


def producer_epoch(servers: str, transactional_id: str) -> int:
    """Of an id; 0 while its coordinator moves."""
    with (
        suppress(KafkaError),
        closing(KafkaAdminClient(bootstrap_servers=servers)) as admin,
    ):
        return int(admin.describe_transactions([transactional_id])[transactional_id].producer_epoch)
    return 0


@pytest.mark.slow
def test_a_start_waits_for_the_coordinator_of_what_a_killed_driver_left(
    application: Application,
    start_application: StartApplication,
    flow: Flow,
    brokers: LocalCluster,
) -> None:
    left = leave_open(flow, start_application)
    decisions = flow.decision_id()
    before = producer_epoch(flow.servers, decisions)
    away = take_coordinator_away(brokers, left)
    servers = others(brokers, away)
    # Its coordinator may know the transaction when it is back: it must not be called hanging.
    held = transactions.blocked(servers, [flow.output])
    assert held
    assert all(each.transactional_id or each.is_unknown for each in held), held
    query = flow.start(application, **STATELESS)
    # It initialises the id, claims its run, and next asks what is open: the broker takes seconds.
    until(lambda: producer_epoch(servers, decisions) >= before + 2, "the second run's claim", 60)
    away.start()
    query.wait_done()
    flow.assert_exactly_once()


@pytest.mark.slow
def test_a_start_without_a_coordinator_says_so_and_the_next_one_ends_what_was_open(
    application: Application,
    start_application: StartApplication,
    flow: Flow,
    brokers: LocalCluster,
) -> None:
    left = leave_open(flow, start_application)
    away = take_coordinator_away(brokers, left)
    soon = {"kafka.default.api.timeout.ms": "6000", "kafka.request.timeout.ms": "3000"}
    error = flow.start(application, sink=soon, **STATELESS).wait_end().error or ""
    assert "[EOSKAFKA_TRANSACTIONS_NOT_LISTED]" in error, error
    away.start()
    flow.start(application, **STATELESS).wait_done()
    flow.assert_exactly_once()
