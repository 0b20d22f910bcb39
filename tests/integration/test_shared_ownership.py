"""`ownership=shared`: several drivers in one group, and partitions that go from one to another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from eoskafka.cluster import LocalCluster
from harness import Application, Flow, Point, StartApplication, until
from harness.flow import exclaimed
from shared_groups import (
    CLASSIC,
    PARTITIONS,
    PROTOCOLS,
    RECORDS,
    SHARED,
    arrivals,
    both_work,
    end,
    has_expired,
    reach_beside,
    revocations,
    run_another,
    two_drivers,
    until_done,
)

SLOW = pytest.mark.slow


@pytest.fixture
def flow(short_session_cluster: LocalCluster, tmp_path: Path, keep_logs: list[Path]) -> Flow:
    """Four input partitions."""
    keep_logs += [broker.log_file for broker in short_session_cluster.brokers]
    return Flow(
        short_session_cluster.bootstrap_servers, tmp_path / "checkpoint", partitions=PARTITIONS
    )


@pytest.fixture(params=PROTOCOLS)
def how(request: pytest.FixtureRequest) -> Any:
    """A running query's options, with either protocol of the group."""
    return request.param


@pytest.fixture
def one(short_session_cluster: LocalCluster, tmp_path: Path) -> Flow:
    """One input partition: a second driver brings a new generation, and gets nothing."""
    return Flow(short_session_cluster.bootstrap_servers, tmp_path / "one", partitions=1)


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
    short_session_cluster: LocalCluster,
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
    until(lambda: has_expired(short_session_cluster, flow.group), "its session's end", 60)
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


@SLOW
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
