"""`ownership=shared`: several drivers in one group, and partitions that go from one to another."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from eoskafka.cluster import LocalCluster
from harness import Action, Application, Flow, Point, Query, StartApplication, until
from harness.flow import exclaimed
from kafka import KafkaProducer
from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter
from streams import Streams, kv

RECORDS = 600
PARTITIONS = 4
SHARED: dict[str, Any] = {"ownership": "shared"}
SESSION_S = 6
CLASSIC: dict[str, Any] = {
    **SHARED,
    "kafka.session.timeout.ms": str(SESSION_S * 1_000),
    "interval": "100 milliseconds",
}
SLOW = pytest.mark.slow


@pytest.fixture(scope="module")
def impatient_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker that gives a member of either protocol up after six seconds."""
    soon: dict[str, Any] = {
        "group.initial.rebalance.delay.ms": "1000",  # as real brokers have it, but for 3 s
        "group.consumer.session.timeout.ms": str(SESSION_S * 1_000),
        "group.consumer.min.session.timeout.ms": str(SESSION_S * 1_000),
        "group.consumer.heartbeat.interval.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "500",
    }
    with LocalCluster(
        brokers=1, data_dir=tmp_path_factory.mktemp("impatient"), properties=soon
    ) as cluster:
        yield cluster


@pytest.fixture
def flow(impatient_cluster: LocalCluster, tmp_path: Path, keep_logs: list[Path]) -> Flow:
    """Four input partitions."""
    keep_logs += [broker.log_file for broker in impatient_cluster.brokers]
    return Flow(impatient_cluster.bootstrap_servers, tmp_path / "checkpoint", partitions=PARTITIONS)


@pytest.fixture(params=["classic", pytest.param("consumer", marks=SLOW)])
def how(request: pytest.FixtureRequest) -> dict[str, str]:
    """A running query's options, with either protocol of the group."""
    if request.param == "consumer":
        return {**SHARED, "kafka.group.protocol": "consumer", "interval": "100 milliseconds"}
    return CLASSIC


def until_done(how: dict[str, Any]) -> dict[str, Any]:
    """The same options for a query that ends when everything is read."""
    return {name: value for name, value in how.items() if name != "interval"}


def both_work(first: Query, second: Query, flow: Flow) -> None:
    """Wait until each driver has batches of its own."""
    before = [query.status().batches for query in (first, second)]

    def have_moved() -> bool:
        flow.produce(40)
        now = [query.status().batches for query in (first, second)]
        return all(n > b for n, b in zip(now, before, strict=True))

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


@pytest.fixture
def one(impatient_cluster: LocalCluster, tmp_path: Path) -> Flow:
    """One input partition: a second driver brings a new generation, and gets nothing."""
    return Flow(impatient_cluster.bootstrap_servers, tmp_path / "one", partitions=1)


def test_one_driver_alone(application: Application, flow: Flow) -> None:
    for _ in range(2):
        flow.produce(RECORDS)
        flow.start(application, **SHARED).wait_done()
        flow.assert_exactly_once()
    assert "time out after 300000 ms, its members after 45000 ms" in application.text()


@SLOW
def test_a_driver_joins_and_leaves_again(
    start_application: StartApplication, application: Application, flow: Flow, how: dict[str, Any]
) -> None:
    first = flow.start(application, driver="a", **how)
    flow.produce(RECORDS)
    flow.wait_committed()
    second = flow.start(start_application("local[2]"), driver="b", **how)
    both_work(first, second, flow)
    assert second.stop().error is None
    flow.produce(RECORDS)
    end(flow, first)


@pytest.mark.parametrize("starting", ["earliest", "in JSON"])
@SLOW
def test_two_drivers_that_begin_a_group_together(
    start_application: StartApplication,
    application: Application,
    flow: Flow,
    how: dict[str, Any],
    starting: str,
) -> None:
    flow.produce(RECORDS)
    offsets = json.dumps({flow.input: {str(p): -2 for p in range(PARTITIONS)}})
    begun: dict[str, Any] = {
        **how,
        "startingOffsets": offsets if starting == "in JSON" else starting,
    }
    other = start_application("local[2]")
    queries = [
        flow.start(each, driver=name, **begun) for name, each in (("a", application), ("b", other))
    ]
    flow.wait_committed()
    both_work(queries[0], queries[1], flow)
    end(flow, *queries)


@SLOW
def test_one_that_dies_before_its_first_starts_are_committed_begins_at_the_same_ones(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    flow.produce(RECORDS)
    offsets = json.dumps({flow.input: {str(p): 10 for p in range(PARTITIONS)}})
    begun: dict[str, Any] = {
        **CLASSIC,
        "kafka.session.timeout.ms": "30000",
        "startingOffsets": offsets,
    }
    other, again = start_application("local[2]"), start_application("local[2]")
    # Both have found the group empty, and each has partitions.
    other.faults.arm("after-join", "kill")
    flow.reach(other, "before-join", "stop", driver="b", **begun)
    first = flow.reach(application, "after-join", "slow", driver="a", **begun)
    other.resume()
    other.faults.wait_taken("after-join")
    other.kill()
    second = flow.start(again, driver="b", **begun)
    flow.wait_committed()
    both_work(first, second, flow)
    flow.wait_committed()
    for query in (first, second):
        assert query.stop().error is None
    wanted = [exclaimed(record) for record in flow.inputs() if record.offset >= 10]
    assert sorted(str(r.value) for r in flow.outputs()) == sorted(map(str, wanted))


@SLOW
def test_a_driver_that_ends_when_all_is_read_waits_for_the_others(
    start_application: StartApplication,
    application: Application,
    flow: Flow,
    one: Flow,
    how: dict[str, Any],
) -> None:
    first = flow.start(application, driver="a", **how)
    flow.produce(RECORDS)
    flow.wait_committed()
    application.faults.arm("after-flush", "stop")
    flow.produce(RECORDS)
    executor = application.faults.wait_taken("after-flush")
    other = start_application("local[2]")
    second = flow.start(other, driver="b", **until_done(how))
    until(lambda: arrivals(other), "the second driver", 60)
    # It has nothing to do, and the first one has.
    run_another(other, one)
    assert second.status().active
    application.resume(executor)
    second.wait_done()
    assert flow.committed() == flow.ends()
    assert first.stop().error is None
    flow.assert_exactly_once()


@SLOW
def test_a_driver_alone_that_is_paused_for_longer_than_its_session_goes_on(
    start_application: StartApplication,
    impatient_cluster: LocalCluster,
    flow: Flow,
    how: dict[str, Any],
) -> None:
    application = start_application("local[2]")
    query = flow.start(application, **how)
    flow.produce(RECORDS)
    flow.wait_committed()
    application.faults.arm("after-flush", "stop")
    flow.produce(RECORDS)
    application.faults.wait_taken("after-flush")
    until(lambda: has_expired(impatient_cluster, flow.group), "its session's end", 60)
    application.resume()
    end(flow, query)


@pytest.mark.parametrize(
    "point",
    [pytest.param("after-flush", marks=SLOW), "after-offsets"],
)
def test_a_driver_that_is_killed_leaves_its_partitions_to_the_other(
    start_application: StartApplication,
    application: Application,
    flow: Flow,
    how: dict[str, Any],
    point: Point,
) -> None:
    other = start_application("local[2]")
    first, _, _ = reach_beside(flow, application, other, how, point, "kill")
    other.kill()
    end(flow, first)


@SLOW
@pytest.mark.parametrize("point", ["after-flush", "after-offsets"])
def test_a_driver_that_is_paused_for_longer_than_its_session_goes_on_with_what_it_gets_then(
    start_application: StartApplication,
    application: Application,
    flow: Flow,
    how: dict[str, Any],
    point: Point,
) -> None:
    other = start_application("local[2]")
    first, second, _ = reach_beside(flow, application, other, how, point, "stop")
    flow.wait_committed()
    other.resume()
    both_work(first, second, flow)
    end(flow, first, second)


@SLOW
def test_a_driver_that_was_paused_before_its_first_commit_moves_no_offset_back(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    # With the consumer protocol: another driver comes and goes, and the group is empty.
    how = {**SHARED, "kafka.group.protocol": "consumer"}
    paused = start_application("local[2]")
    flow.produce(RECORDS)
    paused.faults.arm("before-starts", "stop-slow")
    query = flow.start(paused, driver="a", **how, interval="100 milliseconds")
    paused.faults.wait_taken("before-starts")
    flow.start(application, driver="b", **how).wait_done()
    until(lambda: not flow.members(), "an empty group", 60)
    paused.resume()
    flow.produce(RECORDS)
    end(flow, query)


@SLOW
def test_a_driver_between_two_batches_ends_what_a_killed_one_has_left_open(
    start_application: StartApplication, application: Application, flow: Flow, how: dict[str, Any]
) -> None:
    rarely: dict[str, Any] = {**how, "interval": "10 minutes"}
    flow.produce(RECORDS)
    first = flow.start(application, driver="a", **rarely)
    flow.wait_committed()
    other = start_application("local[2]")
    second = flow.start(other, driver="b", **how)

    def has_work() -> bool:
        flow.produce(40)
        return second.status().batches > 0

    until(has_work, "work for the second driver", 60)
    other.faults.arm("after-offsets", "kill")
    flow.produce(RECORDS)
    other.faults.wait_taken("after-offsets")
    other.kill()
    until(lambda: not flow.open_transactions(), "the end of what it has left", 30)
    assert first.stop().error is None
    flow.start(application, driver="a", **SHARED).wait_done()
    flow.assert_exactly_once()


@SLOW
def test_a_partition_is_given_up_when_the_transaction_that_has_read_it_has_ended(
    start_application: StartApplication,
    application: Application,
    flow: Flow,
    one: Flow,
    how: dict[str, Any],
) -> None:
    flow.produce(RECORDS)
    application.faults.arm("after-offsets", "stop")
    first = flow.start(application, driver="a", slots=1, **how)
    executor = application.faults.wait_taken("after-offsets")
    producers = flow.transactional_ids()
    other = start_application("local[2]")
    second = flow.start(other, driver="b", **how)
    until(lambda: arrivals(other), "the second driver", 60)
    until(lambda: revocations(application), "the call for its partitions", 60)
    flow.produce(RECORDS)
    run_another(other, one)
    assert flow.transactional_ids() == producers
    application.resume(executor)
    both_work(first, second, flow)
    end(flow, first, second)


@SLOW
def test_a_partition_is_given_up_after_a_minute_though_its_transaction_has_not_ended(
    start_application: StartApplication, application: Application, flow: Flow, how: dict[str, Any]
) -> None:
    flow.produce(RECORDS)
    first = flow.reach(application, "after-offsets", "stop", driver="a", slots=1, **how)
    executor = application.faults.wait_taken("after-offsets")
    second = flow.start(start_application("local[2]"), driver="b", **how)
    until(lambda: "are aborted" in application.text(), "the end of its patience", 90)
    # What goes over is what was asked for; the rest is still the first one's.
    until(lambda: second.status().batches, "work for the second driver", 30)
    application.resume(executor)
    both_work(first, second, flow)
    end(flow, first, second)


@SLOW
@pytest.mark.parametrize("point", ["after-lease", "after-offsets"])
def test_an_executor_whose_driver_has_lost_its_partitions_commits_nothing(
    start_application: StartApplication,
    application: Application,
    flow: Flow,
    how: dict[str, Any],
    point: Point,
) -> None:
    # The executor has the fence, and goes on while its driver is still away.
    other = start_application("local-cluster[1,1,1024]")
    first, second, executor = reach_beside(flow, application, other, how, point, "stop")
    other.pause_driver()
    flow.wait_committed()
    before = sorted(flow.outputs())
    other.resume(executor)
    refused = "Transiting to fatal error state"
    until(lambda: refused in other.executor_log.read_text(), "the refusal of its commit", 60)
    assert sorted(flow.outputs()) == before
    other.resume()
    both_work(first, second, flow)
    end(flow, first, second)


def hold_a_lease(
    one: Flow,
    application: Application,
    start_application: StartApplication,
    how: dict[str, Any],
) -> tuple[int, Query, Query]:
    """Stop an executor that has the fence, and let a second driver join.

    Returns:
        the executor's pid, the first driver's query, the second one's.
    """
    first = one.start(application, driver="a", **how)
    one.produce(RECORDS)
    first.wait_batches(1)
    one.wait_committed()
    application.faults.arm("after-lease", "stop")
    one.produce(RECORDS)
    executor = application.faults.wait_taken("after-lease")
    other = start_application("local[2]")
    second = one.start(other, driver="b", **how)
    until(lambda: arrivals(other), "the second driver", 60)
    return executor, first, second


@SLOW
def test_a_transaction_whose_partitions_stay_outlives_a_rebalance(
    start_application: StartApplication, application: Application, one: Flow, how: dict[str, Any]
) -> None:
    executor, first, second = hold_a_lease(one, application, start_application, how)
    application.resume(executor)
    one.wait_committed()
    assert "was aborted" not in application.text()
    end(one, first, second)


@SLOW
def test_one_that_was_fenced_during_a_rebalance_is_not_taken_for_its_successor(
    start_application: StartApplication, application: Application, one: Flow
) -> None:
    # The consumer protocol takes the offsets of a partition that stayed, and refuses nothing.
    executor, first, second = hold_a_lease(one, application, start_application, CLASSIC)
    application.faults.arm("after-refusal", "stop")
    application.resume(executor)
    assert application.faults.wait_taken("after-refusal") == executor
    (name,) = one.open_transactions()
    # As another attempt would; it has written a part when the first one goes on.
    successor = KafkaProducer(bootstrap_servers=one.servers, transactional_id=name)
    with closing(successor):
        successor.init_transactions()
        successor.begin_transaction()
        successor.send(one.output, value=b"a part of it").get(30)
        application.resume(executor)
        until(lambda: "EOSKAFKA_ATTEMPT_FENCED" in application.text(), "the attempt's end", 40)
        assert b"a part of it" not in [record.value for record in one.outputs()]
    end(one, first, second)


@SLOW
def test_an_executor_that_is_lost_between_offsets_and_commit(
    start_application: StartApplication, application: Application, flow: Flow, how: dict[str, Any]
) -> None:
    first, second = two_drivers(flow, application, start_application("local[2]"), how)
    application.faults.arm("after-offsets", "kill")
    flow.produce(RECORDS)
    application.faults.wait_taken("after-offsets")
    end(flow, first, second)


@SLOW
def test_partitions_that_are_added(
    start_application: StartApplication, application: Application, flow: Flow, how: dict[str, Any]
) -> None:
    refresh = {**how, "kafka.metadata.max.age.ms": "1000"}
    first, second = two_drivers(flow, application, start_application("local[2]"), refresh)
    flow.add_partitions(7)
    flow.produce(RECORDS)
    end(flow, first, second)


@SLOW
def test_a_storm_of_drivers_that_join_and_leave(
    start_application: StartApplication, application: Application, flow: Flow, how: dict[str, Any]
) -> None:
    first = flow.start(application, driver="a", **how)
    other = start_application("local[2]")
    end = time.monotonic() + 180
    joined = 0
    while time.monotonic() < end:
        second = flow.start(other, driver="b", **how)
        joined += 1
        for _ in range(2):
            flow.produce(120)
            time.sleep(0.5)
        assert second.stop().error is None
    assert first.status().active, first.status().error
    flow.wait_committed()
    assert joined >= 30
    assert first.stop().error is None
    flow.assert_exactly_once()


@SLOW
def test_a_driver_that_has_had_nothing_to_do_yet_knows_that_the_groups_offsets_are_gone(
    start_application: StartApplication, application: Application, one: Flow
) -> None:
    first = one.start(application, driver="a", **CLASSIC)
    one.produce(RECORDS)
    first.wait_batches(1)
    other = start_application("local[2]")
    second = one.start(other, driver="b", **CLASSIC)
    identity = Path(f"{one.checkpoint}b") / "sources" / "0" / "eoskafka-identity.json"
    until(identity.exists, "the second driver", 60)
    for query in (second, first):
        assert query.stop().error is None
    with one.admin() as admin:
        until(lambda: not one.members(), "the end of the members", 30)
        admin.delete_groups([one.group])
    before = one.outputs()
    error = one.start(other, driver="b", **CLASSIC).wait_end().error
    assert "[EOSKAFKA_OFFSETS_GONE]" in str(error), error
    assert one.outputs() == before


@SLOW
def test_a_start_that_another_driver_has_committed_is_known_when_the_groups_offsets_are_gone(
    start_application: StartApplication, application: Application, one: Flow
) -> None:
    one.produce(RECORDS)
    died = start_application("local[2]")
    # It has found no offset in the group, and has committed none.
    one.reach(died, "after-join", "kill", driver="b", **CLASSIC)
    one.start(application, driver="a", **until_done(CLASSIC)).wait_done()
    other = start_application("local[2]")
    one.start(other, driver="b", **until_done(CLASSIC)).wait_done()
    one.assert_exactly_once()
    with one.admin() as admin:
        until(lambda: not one.members(), "the end of the members", 30)
        admin.delete_groups([one.group])
    error = one.start(other, driver="b", **CLASSIC).wait_end().error
    assert "[EOSKAFKA_OFFSETS_GONE]" in str(error), error


# ---- a new version takes over


def test_a_driver_hands_over_to_its_successor_and_ends(
    start_application: StartApplication, application: Application, flow: Flow, how: dict[str, Any]
) -> None:
    first = flow.start(application, driver="a", **how)
    flow.produce(RECORDS)
    flow.wait_committed()
    second = flow.start(start_application("local[2]"), driver="b", handover="true", **how)

    def has_ended() -> bool:
        flow.produce(40)
        return not first.status().active

    until(has_ended, "the end of the first driver", 60)
    assert first.status().error is None
    # One that is started after it belongs to it.
    third = flow.start(application, driver="c", **how)

    def has_looked() -> bool:
        # Batches are 100 ms apart or more, and it looks for a successor every 500 ms.
        flow.produce(40)
        assert third.status().active
        return all(query.status().batches >= 30 for query in (second, third))

    until(has_looked, "thirty batches", 60)
    end(flow, second, third)


@SLOW
def test_a_driver_that_is_started_again_to_take_over_does_so_from_its_former_place(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    # The broker would keep the client id of the first time, which tells no handover.
    long: dict[str, Any] = {**CLASSIC, "kafka.session.timeout.ms": "30000"}
    other, again = start_application("local[2]"), start_application("local[2]")
    first, _ = two_drivers(flow, application, other, long)
    other.kill()
    second = flow.start(again, driver="b", handover="true", **long)

    def has_ended() -> bool:
        flow.produce(40)
        return not first.status().active

    until(has_ended, "the end of the first driver", 60)
    assert first.status().error is None
    end(flow, second)


@SLOW
def test_three_drivers_of_which_one_is_killed_and_one_leaves(
    start_application: StartApplication, application: Application, flow: Flow, how: dict[str, Any]
) -> None:
    others = [start_application("local[1]") for _ in range(2)]
    first, second = two_drivers(flow, application, others[0], how)
    third = flow.start(others[1], driver="c", **how)
    both_work(second, third, flow)
    others[1].faults.arm("after-offsets", "kill")
    flow.produce(RECORDS)
    others[1].faults.wait_taken("after-offsets")
    others[1].kill()
    flow.produce(RECORDS)
    assert second.stop().error is None
    flow.produce(RECORDS)
    end(flow, first)


# ---- a driver that is started again


@SLOW
def test_a_second_driver_on_the_same_checkpoint_fences_the_first(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    first = flow.start(application, driver="a", **CLASSIC)
    flow.produce(RECORDS)
    first.wait_batches(1)
    before = flow.members()
    second = flow.start(start_application("local[2]"), driver="a", **CLASSIC)
    until(lambda: flow.members() - before, "the second driver", 60)
    error = first.wait_end().error
    assert "[EOSKAFKA_FENCED_BY_DRIVER]" in str(error), error
    assert all(member in str(error) for member in flow.members())
    flow.produce(RECORDS)
    end(flow, second)


@SLOW
def test_a_driver_that_is_started_again_takes_its_place_without_a_rebalance(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    how: dict[str, Any] = {**SHARED, "interval": "100 milliseconds"}
    other = start_application("local[2]")
    first, _ = two_drivers(flow, application, other, how)

    before = arrivals(application)
    assert before
    other.kill()
    again = flow.start(start_application("local[2]"), driver="b", **how)
    both_work(first, again, flow)
    assert arrivals(application) == before
    end(flow, first, again)


@SLOW
def test_what_its_former_run_was_giving_up_goes_to_somebody_when_a_driver_starts_again(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    # Within its session the broker gives it its former place, and the partition to nobody.
    long: dict[str, Any] = {**CLASSIC, "kafka.session.timeout.ms": "30000"}
    flow.produce(RECORDS)
    killed, again = start_application("local-cluster[1,1,1024]"), start_application("local[2]")
    flow.reach(killed, "after-offsets", "stop", driver="a", slots=1, **long)
    second = flow.start(application, driver="b", **long)
    until(lambda: arrivals(application), "the second driver", 60)
    # It holds its partitions until its task has ended.
    until(lambda: revocations(killed), "the call for its partitions", 60)
    killed.kill()
    first = flow.start(again, driver="a", **long)
    flow.wait_committed()
    flow.produce(RECORDS)
    end(flow, first, second)


@SLOW
def test_a_paused_driver_whose_checkpoint_another_run_has_taken_up_ends(
    start_application: StartApplication, application: Application, flow: Flow, how: dict[str, Any]
) -> None:
    paused = start_application("local[2]")
    flow.produce(RECORDS)
    first = flow.start(paused, driver="a", **how)
    first.wait_batches(1)
    paused.pause_all()
    # No news: or the first one finds in Spark's log that it is not alone, and ends of that.
    second = flow.start(application, driver="a", **how)
    until(lambda: arrivals(application), "the second run", 60)
    paused.resume()
    error = first.wait_end().error
    assert "[EOSKAFKA_FENCED_BY_DRIVER]" in str(error), error
    flow.produce(RECORDS)
    end(flow, second)


# ---- refusals


def counted(rows: DataFrame) -> DataFrame:
    """With state."""
    return rows.groupBy("key").count().selectExpr("key", "cast(count as string) value")


@pytest.mark.parametrize(
    ("query", "sink", "reason"),
    [
        (counted, {}, "it keeps state or shuffles, Aggregate"),
        (lambda rows: kv(rows).repartition(2), {}, "it keeps state or shuffles, Repartition"),
        (lambda rows: kv(rows).union(kv(rows)), {}, "it reads another source, or one twice"),
        (kv, {"transactionScope": "epoch"}, "transactionScope=epoch"),
    ],
    ids=["state", "a shuffle", "read twice", "epoch scope"],
)
def test_what_is_not_for_task_scope_cannot_be_shared_and_goes_on_alone(
    streams: Streams,
    query: Callable[[DataFrame], DataFrame],
    sink: dict[str, str],
    reason: str,
) -> None:
    topic, output, checkpoint = streams.topic(records=20), streams.topic(), streams.checkpoint()
    alone = {"kafka.group.id": streams.group()}

    def writer(source: dict[str, str]) -> DataStreamWriter:
        rows = query(streams.source(topic, source))
        return streams.sink(rows, output, checkpoint, sink, mode="update")

    error = streams.failure(writer({**alone, **SHARED}))
    assert "[EOSKAFKA_SHARED_REFUSED]" in error, error
    assert reason in error
    assert streams.values(output) == []
    streams.run(writer(alone))
    assert len(streams.values(output)) == (40 if "twice" in reason else 20)


@SLOW
def test_without_the_plugin_nothing_is_shared(
    start_application: StartApplication, flow: Flow
) -> None:
    application = start_application("local[2]", spark_plugins="")
    error = flow.start(application, **SHARED).wait_end().error
    assert "[EOSKAFKA_SHARED_REFUSED]" in str(error), error
    assert "set spark.plugins=io.eoskafka.EosKafkaPlugin" in str(error)
    assert not flow.members()


def test_a_sink_that_is_not_ours_cannot_share(streams: Streams) -> None:
    topic, group = streams.topic(records=20), streams.group()
    rows = kv(streams.source(topic, {"kafka.group.id": group, **SHARED}))
    writer = (
        rows.writeStream.format("noop")
        .option("checkpointLocation", str(streams.checkpoint()))
        .trigger(availableNow=True)
    )
    error = streams.failure(writer)
    assert "[EOSKAFKA_SHARED_REFUSED]" in error, error
    assert "its sink is not eoskafka" in error


def test_a_group_goes_from_exclusive_to_shared_and_not_back(streams: Streams) -> None:
    topic, output, group = streams.topic(records=20), streams.topic(), streams.group()
    checkpoint = streams.checkpoint()
    alone = {"kafka.group.id": group}
    streams.copy(topic, output, checkpoint, alone)
    streams.send(topic, 20)
    streams.copy(topic, output, checkpoint, {**alone, **SHARED})
    streams.send(topic, 21)
    rows = kv(streams.source(topic, alone))
    assert "[EOSKAFKA_OWNERSHIP_CHANGED]" in streams.failure(streams.sink(rows, output, checkpoint))
    assert "[EOSKAFKA_GROUP_IS_SHARED]" in streams.failure(streams.sink(rows, output))
    streams.copy(topic, output, checkpoint, {**alone, **SHARED})
    assert streams.numbers(output) == [*range(22)]


@SLOW
def test_what_a_dead_exclusive_driver_has_left_is_ended_by_a_shared_one(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    soon: dict[str, Any] = {"kafka.session.timeout.ms": str(SESSION_S * 1_000)}
    flow.produce(RECORDS)
    first = start_application("local[2]")
    flow.reach(first, "after-offsets", "kill", **soon)
    first.kill()
    assert flow.open_transactions()
    error = flow.start(application, **soon, **SHARED).wait_end().error
    assert "[EOSKAFKA_FOREIGN_MEMBER]" in str(error), error
    until(lambda: not flow.members(), "the end of its membership", 30)
    flow.start(application, **soon, **SHARED).wait_done()
    flow.assert_exactly_once()


def test_two_sources_of_a_query_cannot_share_one_group(streams: Streams) -> None:
    topic, group = streams.topic(records=20), streams.group()
    shared = {"kafka.group.id": group, **SHARED}
    left = kv(streams.source(topic, shared))
    right = kv(streams.source(topic, {**shared, "maxOffsetsPerTrigger": 5}))
    error = streams.failure(streams.sink(left.union(right), streams.topic()))
    assert "[EOSKAFKA_SHARED_REFUSED]" in error, error
    assert "two of its sources are in one group" in error


@pytest.mark.parametrize(("running", "coming"), [({}, SHARED), (SHARED, {})])
def test_a_driver_of_the_other_kind_is_refused_beside_a_running_one(
    streams: Streams, running: dict[str, str], coming: dict[str, str]
) -> None:
    topic, output, group = streams.topic(records=20), streams.topic(), streams.group()
    alone = {"kafka.group.id": group}
    rows = kv(streams.source(topic, {**alone, **running}))
    query = streams.start(streams.sink(rows, output).trigger(processingTime="100 milliseconds"))
    until(lambda: len(streams.numbers(output)) == 20, "the first batch", 60)
    error = streams.failure(streams.sink(kv(streams.source(topic, {**alone, **coming})), output))
    named = "[EOSKAFKA_FOREIGN_STAMP]" if coming else "[EOSKAFKA_GROUP_IS_SHARED]"
    assert named in error, error
    assert "(client eoskafka-" in error  # who is in the group
    streams.send(topic, 20)
    until(lambda: len(streams.numbers(output)) == 21, "the next batch", 60)
    assert streams.finished(query, output) == [*range(21)]
