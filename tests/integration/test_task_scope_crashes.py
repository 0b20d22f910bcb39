"""Task scope under crashes: whatever dies, every record takes effect once.

Executors are ended by the connector's own fault points, which a task reaches while its transaction
is open (or, after its commit, before its result is on the way). One Spark application serves the
tests that only lose executors; a test that loses its driver starts its own.
"""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import pytest
from eoskafka.cluster import LocalCluster
from harness import Application, Flow, Point, StartApplication, until

RECORDS = 2_000
PER_BATCH = 500

# Which of a driver's processes notices a takeover first is open: the producer of a task, a commit
# of offsets, or the driver's own membership.
FENCED = r"EOSKAFKA_(ATTEMPT_FENCED|FENCED_BY_GROUP|FENCED_BY_DRIVER)"


@pytest.mark.parametrize("point", ["before-flush", "after-flush", "after-offsets", "after-commit"])
def test_an_executor_killed_at_any_point_of_its_commit_leaves_no_duplicate(
    application: Application, flow: Flow, point: Point
) -> None:
    flow.produce(RECORDS)
    executors = {p.id.pid for p in application.executors()}
    application.faults.arm(point, "kill")
    query = flow.start(application, maxOffsetsPerTrigger=PER_BATCH)
    assert application.faults.wait_taken(point) in executors
    query.wait_done()
    flow.assert_exactly_once()


def test_a_retry_on_the_executor_that_committed_skips_the_batch(
    application: Application, flow: Flow
) -> None:
    # One slot, and a batch before: the executor that has the slot's producer gets the task and,
    # since its core is free again, the retry. To Spark it is the same if a result is lost because
    # it does not serialize.
    flow.produce(PER_BATCH)
    query = flow.start(application, interval="100 milliseconds", slots=1)
    query.wait_batches(1)
    application.faults.arm("after-commit", "fail")
    flow.produce(PER_BATCH)
    application.faults.wait_taken("after-commit")
    flow.produce(PER_BATCH)
    flow.wait_committed()
    assert query.stop().error is None
    flow.assert_exactly_once()


@pytest.mark.parametrize("point", ["after-init", "before-flush", "after-flush", "after-offsets"])
def test_an_attempt_that_fails_before_its_commit_is_aborted_and_repeated(
    application: Application, flow: Flow, point: Point
) -> None:
    flow.produce(RECORDS)
    query = flow.reach(application, point, "fail", maxOffsetsPerTrigger=PER_BATCH)
    query.wait_done()
    flow.assert_exactly_once()


def test_a_query_that_is_stopped_leaves_no_transaction_open(
    application: Application, flow: Flow
) -> None:
    # The executor is stopped for good with its transaction open, and the query is stopped by hand:
    # whoever reads the output must not wait for the transaction's timeout.
    flow.produce(RECORDS)
    application.faults.arm("after-offsets", "stop")
    query = flow.start(application)
    application.faults.wait_taken("after-offsets")
    report = lambda: str(flow.transactions())  # noqa: E731
    until(flow.open_transactions, "an open transaction", 10, report)
    query.stop()
    flow.assert_nothing_is_open()
    application.resume()
    flow.start(application).wait_done()
    flow.assert_exactly_once()


def test_slots_changed_between_a_crash_and_its_restart(
    application: Application, flow: Flow
) -> None:
    # Four slots of one partition each become one: what slots 1 to 3 left open is ended too.
    flow.produce(RECORDS)
    application.faults.arm("after-offsets", "stop")
    query = flow.start(application)
    application.faults.wait_taken("after-offsets")
    query.stop()
    application.resume()
    flow.start(application, slots=1).wait_done()
    flow.assert_exactly_once()


@pytest.mark.slow
def test_a_broker_killed_and_restarted_in_mid_batch_costs_nothing(
    application: Application, flow: Flow, cluster: LocalCluster
) -> None:
    flow.produce(RECORDS)
    application.faults.arm("after-flush", "stop")
    query = flow.start(application, maxOffsetsPerTrigger=PER_BATCH)
    executor = application.faults.wait_taken("after-flush")
    cluster.brokers[0].kill()
    application.resume(executor)
    cluster.brokers[0].start()
    query.wait_done()
    flow.assert_exactly_once()


def test_a_commit_without_a_clear_answer_is_settled_before_the_batch_goes_on(
    application: Application, flow: Flow, cluster: LocalCluster
) -> None:
    flow.produce(RECORDS)
    application.faults.arm("after-offsets", "stop")
    query = flow.start(
        application, maxOffsetsPerTrigger=PER_BATCH, sink={"kafka.max.block.ms": "4000"}
    )
    executor = application.faults.wait_taken("after-offsets")
    cluster.brokers[0].pause()
    try:
        application.resume(executor)
        until(
            lambda: "EOSKAFKA_COMMIT_UNKNOWN" in application.text(),
            "a commit that times out",
            30,
        )
    finally:
        cluster.brokers[0].resume()
    query.wait_done()
    flow.assert_exactly_once()


def test_a_transaction_past_its_timeout_fails_its_attempt_alone(
    application: Application, flow: Flow
) -> None:
    flow.produce(RECORDS)
    application.faults.arm("after-offsets", "stop")
    query = flow.start(
        application,
        maxOffsetsPerTrigger=PER_BATCH,
        sink={"kafka.transaction.timeout.ms": "3000"},
    )
    executor = application.faults.wait_taken("after-offsets")
    until(lambda: flow.transactional_ids(["CompleteAbort"]), "the broker's abort", 30)
    application.resume(executor)
    query.wait_done()
    assert "EOSKAFKA_ATTEMPT_FENCED" in application.text()
    flow.assert_exactly_once()


def test_driver_and_executors_killed_with_a_transaction_open_do_not_block_the_restart(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    flow.produce(RECORDS)
    first = start_application("local[2]")
    flow.reach(first, "after-offsets", "kill", maxOffsetsPerTrigger=PER_BATCH)
    first.kill()
    assert flow.open_transactions()
    began = time.monotonic()
    flow.start(application, maxOffsetsPerTrigger=PER_BATCH).wait_done()
    # The transaction's timeout is 300 s.
    assert time.monotonic() - began < 45
    flow.assert_exactly_once()


@pytest.mark.slow
def test_an_executor_that_outlives_its_driver_cannot_commit_after_the_restart(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    flow.produce(RECORDS)
    first = start_application("local-cluster[2,1,1024]")
    first.faults.arm("after-offsets", "stop")
    flow.start(first, maxOffsetsPerTrigger=PER_BATCH)
    executor = first.faults.wait_taken("after-offsets")
    first.kill_driver()
    assert flow.open_transactions()
    flow.start(application, maxOffsetsPerTrigger=PER_BATCH).wait_done()
    first.resume(executor)
    until(lambda: not first.executors(), "the end of executors without a driver", 60)
    flow.assert_exactly_once()


@pytest.mark.slow
def test_a_driver_stopped_between_batches_learns_who_has_taken_over(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    flow.produce(PER_BATCH)
    first = start_application("local[2]")
    query = flow.start(first, interval="100 milliseconds")
    query.wait_batches(1)
    first.pause_all()
    members = flow.members()
    second = flow.start(application, interval="100 milliseconds")
    until(lambda: flow.members() not in (members, set()), "the takeover", 30)
    first.resume()
    error = query.wait_end().error
    assert error is not None
    assert "EOSKAFKA_FENCED_BY_DRIVER" in error
    assert re.search(r"now owned by \S+ \(client eoskafka-", error), error
    flow.produce(PER_BATCH)
    flow.wait_committed()
    assert second.stop().error is None
    flow.assert_exactly_once()


@pytest.mark.slow
def test_a_driver_stopped_while_another_came_and_left_takes_the_group_back_and_repeats_nothing(
    start_application: StartApplication, application: Application, flow: Flow, tmp_path: Path
) -> None:
    # The second one has a copy of the checkpoint: only the group can tell them apart, since Spark
    # would notice two drivers that log the same batch. It leaves the group when it ends.
    flow.produce(PER_BATCH)
    first = start_application("local[2]")
    query = flow.start(first, interval="100 milliseconds")
    query.wait_batches(1)
    first.pause_all()
    own = flow.checkpoint
    flow.checkpoint = shutil.copytree(own, tmp_path / "copy")
    flow.produce(PER_BATCH)
    flow.start(application).wait_done()
    flow.produce(PER_BATCH)
    first.resume()
    # What of the first one's is refused before it knows may end its query; a restart goes on.
    until(lambda: flow.committed() == flow.ends() or not query.status().active, "an outcome", 60)
    error = query.stop().error
    assert error is None or re.search(FENCED, error), error
    flow.checkpoint = own
    flow.start(application).wait_done()
    flow.assert_exactly_once()


def test_a_driver_stopped_in_mid_batch_is_fenced_by_the_second_one_and_leaves_it_alone(
    start_application: StartApplication, flow: Flow
) -> None:
    flow.produce(RECORDS)
    first = start_application("local[2]")
    fenced = flow.reach(
        first, "after-offsets", "stop", interval="100 milliseconds", maxOffsetsPerTrigger=PER_BATCH
    )
    # The second one has one attempt for each task, and a transaction open when the first one ends.
    second = start_application("local[2]")
    query = flow.reach(
        second, "before-flush", "stop", interval="100 milliseconds", maxOffsetsPerTrigger=PER_BATCH
    )
    owner = flow.owner()
    first.resume()
    error = fenced.wait_end().error
    assert error is not None
    assert re.search(r"EOSKAFKA_FENCED_BY_(GROUP|DRIVER)", error), error
    assert owner in error
    second.resume()
    flow.wait_committed()
    assert query.stop().error is None
    flow.assert_exactly_once()


def test_invariant_8_a_driver_stopped_before_it_logs_a_batch_learns_who_has_taken_over(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    flow.produce(PER_BATCH)
    first = start_application("local[2]")
    query = flow.reach(first, "before-log", "stop", interval="100 milliseconds")
    flow.produce(PER_BATCH)
    second = flow.start(application, interval="100 milliseconds")
    second.wait_batches(2)
    first.resume()
    error = query.wait_end().error
    assert error is not None
    assert "EOSKAFKA_FENCED_BY_DRIVER" in error
    assert flow.owner() in error
    flow.wait_committed()
    assert second.stop().error is None
    flow.assert_exactly_once()


def test_a_driver_silent_for_longer_than_its_session_is_told_so_and_loses_nothing(
    application: Application, flow: Flow
) -> None:
    flow.produce(RECORDS)
    session = {"kafka.session.timeout.ms": 3_000, "kafka.heartbeat.interval.ms": 500}
    query = flow.reach(
        application, "after-flush", "stop", maxOffsetsPerTrigger=PER_BATCH, **session
    )
    application.pause_driver()
    until(lambda: not flow.members(), "the end of the membership", 30)
    application.resume()
    error = query.wait_end().error
    assert error is not None
    assert "EOSKAFKA_MEMBERSHIP_EXPIRED" in error
    flow.start(application, maxOffsetsPerTrigger=PER_BATCH).wait_done()
    flow.assert_exactly_once()


@pytest.mark.slow
def test_a_fenced_driver_that_retries_its_tasks_does_not_end_the_query_that_took_over(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    flow.produce(RECORDS)
    first = start_application("local[2,4]")  # four attempts for each task
    fenced = flow.reach(first, "after-offsets", "stop", interval="100 milliseconds")
    # The second one holds the same slots' producers in an open transaction when the first goes on.
    application.faults.arm("before-flush", "stop")
    second = flow.start(application, interval="100 milliseconds", maxOffsetsPerTrigger=PER_BATCH)
    executor = application.faults.wait_taken("before-flush")
    first.resume()
    assert fenced.wait_end().error is not None
    application.resume(executor)
    flow.wait_committed()
    assert second.stop().error is None
    flow.assert_exactly_once()


def test_an_executor_of_a_former_driver_cannot_commit_what_another_slot_has_now(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    # With another number of slots a partition has another producer, so no producer's id stands in
    # the way of the former driver's executor: the fence in its offsets does.
    flow.produce(RECORDS, partitions=[1])
    application.faults.arm("before-init", "stop")
    flow.start(application, slots=2)
    executor = application.faults.wait_taken("before-init")
    application.pause_driver()
    second = start_application("local[1]")
    query = flow.reach(second, "before-flush", "stop", slots=1)
    ended = application.ended_attempts()
    application.resume(executor)
    until(lambda: application.ended_attempts() > ended, "the end of its attempt", 30)
    second.resume()
    query.wait_done()
    flow.assert_exactly_once()
