"""Real-time mode under crashes: whatever dies in the middle of a batch, each record comes once.

Records are written while the query runs, so that a crash meets transactions at work. Batches are
longer than the tests: where a run goes on is told by the group alone.
"""

from __future__ import annotations

import re

import pytest
from eoskafka.audit import UndecidedError
from eoskafka.cluster import LocalCluster
from harness import Action, Application, Flow, Point, Query, StartApplication, until

LONG = "10 minutes"
SHORT = "5 seconds"
OUTPUT_S = 90
FENCED = r"EOSKAFKA_(ATTEMPT_FENCED|FENCED_BY_GROUP|FENCED_BY_DRIVER)"


def wait_written(flow: Flow) -> None:
    """Until as many records are out as are in, and one at least: the batch's end is far then."""

    wanted = max(flow.produced, 1)

    def are_out() -> bool:
        try:
            return len(flow.outputs()) >= wanted
        except UndecidedError:
            return False

    until(are_out, "all output", OUTPUT_S)


def finish(flow: Flow, query: Query) -> None:
    wait_written(flow)
    assert query.stop().error is None
    flow.assert_exactly_once()


def meet(application: Application, flow: Flow, point: Point, action: Action) -> None:
    """Once a task has got to `point` of a commit, where `action` is taken, all comes to rest."""
    query = flow.start(application, real_time=LONG)
    with flow.feeding(100, 0.05):
        wait_written(flow)
        application.faults.arm(point, action)
        application.faults.wait_taken(point)
    finish(flow, query)


@pytest.mark.parametrize(
    "point",
    [
        *(
            pytest.param(p, marks=pytest.mark.slow)
            for p in ("before-flush", "after-flush", "after-offsets")
        ),
        "after-commit",
    ],
)
def test_an_executor_killed_at_any_point_of_a_commit(
    application: Application, flow: Flow, point: Point
) -> None:
    meet(application, flow, point, "kill")


@pytest.mark.slow
@pytest.mark.parametrize("point", ["after-flush", "after-offsets"])
def test_an_attempt_that_fails_is_repeated_from_the_last_commit(
    application: Application, flow: Flow, point: Point
) -> None:
    meet(application, flow, point, "fail")


@pytest.mark.slow
def test_batches_end_and_begin_under_load(application: Application, flow: Flow) -> None:
    query = flow.start(application, real_time=SHORT)
    with flow.feeding(100, 0.05):
        query.wait_batches(3)
    finish(flow, query)


def test_a_driver_killed_in_mid_batch_is_followed_from_the_groups_offsets(
    start_application: StartApplication, flow: Flow
) -> None:
    first = start_application("local-cluster[2,1,1024]")
    flow.start(first, real_time=LONG)
    with flow.feeding(100, 0.05):
        wait_written(flow)
        first.kill_driver()
    # Spark's log has no batch.
    assert not list((flow.checkpoint / "offsets").glob("[0-9]*"))
    second = start_application("local-cluster[2,1,1024]")
    finish(flow, flow.start(second, real_time=LONG))


@pytest.mark.slow
@pytest.mark.parametrize("point", ["before-join", "after-join", "before-init", "after-init"])
def test_a_query_that_is_stopped_while_it_starts_moves_no_offset(
    start_application: StartApplication, flow: Flow, point: Point
) -> None:
    first = start_application("local-cluster[2,1,1024]")
    flow.start(first, real_time=LONG)
    with flow.feeding(100, 0.05):
        wait_written(flow)
    wait_written(flow)
    flow.wait_committed()
    first.kill_driver()
    second = start_application("local-cluster[2,1,1024]")
    second.faults.arm(point, "slow")
    query = flow.start(second, real_time=LONG)
    second.faults.wait_taken(point)
    query.stop()
    flow.assert_exactly_once()


@pytest.mark.slow
def test_a_driver_killed_in_mid_batch_may_be_followed_by_micro_batches_and_they_by_it(
    start_application: StartApplication, flow: Flow
) -> None:
    # In micro-batches the last driver, by then, has planned what it has not logged.
    for real_time in (LONG, None, LONG):
        driver = start_application("local[2]")
        flow.start(driver, real_time=real_time, interval="0 seconds")
        with flow.feeding(100, 0.05):
            wait_written(flow)
            driver.faults.arm("after-offsets", "kill")
            driver.faults.wait_taken("after-offsets")
        driver.kill()
    last = start_application("local[2]")
    finish(flow, flow.start(last, real_time=LONG))


@pytest.mark.slow
def test_a_driver_killed_between_a_batchs_commits_and_its_log(
    start_application: StartApplication, flow: Flow
) -> None:
    first = start_application("local[2]")
    first.faults.arm("before-log", "kill")
    flow.start(first, real_time=SHORT)
    with flow.feeding(100, 0.05):
        first.faults.wait_taken("before-log")
    first.kill()
    second = start_application("local[2]")
    finish(flow, flow.start(second, real_time=SHORT))


@pytest.mark.slow
def test_a_second_driver_takes_over(start_application: StartApplication, flow: Flow) -> None:
    first, second = (start_application("local[2]") for _ in range(2))
    former = flow.start(first, real_time=LONG)
    with flow.feeding(100, 0.05):
        wait_written(flow)
        query = flow.start(second, real_time=LONG)
        error = former.wait_end().error
    assert error is not None
    assert re.search(FENCED, error), error
    finish(flow, query)


@pytest.mark.slow
def test_what_was_decided_is_committed_by_a_start_that_is_refused(
    start_application: StartApplication, flow: Flow
) -> None:
    flow.produce(100)
    first = start_application("local[2]")
    flow.reach(first, "after-decision", "kill", transform="repartitioned")
    first.kill()
    second = start_application("local[2]")
    refused = flow.start(second, real_time=LONG).wait_end()
    assert "[EOSKAFKA_REAL_TIME_REFUSED]" in str(refused.error), refused.error
    assert len(flow.outputs()) == 100
    flow.start(second, transform="repartitioned").wait_done()
    flow.assert_exactly_once()


@pytest.mark.slow
def test_a_batch_of_foreach_batch_that_is_decided_while_real_time_mode_starts_is_not_forgotten(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    # The second driver has not put its id into the checkpoint, which would stop the first one's
    # next write.
    first, second = (start_application("local[2]") for _ in range(2))
    flow.produce(100)
    flow.start(first, form="foreach_batch", interval="200 milliseconds").wait_batches(1)
    query = flow.reach(second, "before-last-run", "stop", real_time=LONG)
    first.faults.arm("after-decision", "kill")
    flow.produce(100)
    first.faults.wait_taken("after-decision")
    second.resume()
    error = query.wait_end().error
    assert error is not None
    assert "[EOSKAFKA_REAL_TIME_REFUSED]" in error, error
    assert len(flow.outputs()) == 200
    flow.start(application, form="foreach_batch").wait_done()
    flow.assert_exactly_once()


@pytest.mark.slow
def test_an_executor_that_was_paused_past_its_successors_commits(
    application: Application, flow: Flow
) -> None:
    query = flow.start(application, real_time=LONG)
    with flow.feeding(100, 0.05):
        wait_written(flow)
        application.faults.arm("after-offsets", "stop")
        paused = application.faults.wait_taken("after-offsets")
        # Another driver would wait as long for what this one has open.
        assert query.stop().error is None
        again = flow.start(application, real_time=LONG, slots=1)
        wait_written(flow)
        application.resume(paused)
    finish(flow, again)


@pytest.mark.slow
def test_an_attempt_that_wakes_up_in_a_later_batch_changes_nothing(
    start_application: StartApplication, flow: Flow
) -> None:
    # A batch's tasks end after five seconds, but for one that is stopped: it gets a copy.
    copies = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.task.duration.threshold": "8s",
        "spark.executor.cores": "1",
        # The copy may ask the executor that is stopped for the plan, and then another one.
        "spark.shuffle.io.connectionTimeout": "5s",
    }
    application = start_application("two-hosts", copies)
    query = flow.start(application, real_time=SHORT, slots=1)
    with flow.feeding(100, 0.05):
        wait_written(flow)
        application.faults.arm("after-offsets", "stop")
        stopped = application.faults.wait_taken("after-offsets")
        batches = query.status().batches
        query.wait_batches(batches + 2)
        ended = application.ended_attempts(stopped)
        application.resume(stopped)
        until(lambda: application.ended_attempts(stopped) > ended, "the end of it", OUTPUT_S)
    finish(flow, query)


@pytest.mark.slow
def test_a_broker_killed_and_started_again(
    application: Application, flow: Flow, cluster: LocalCluster
) -> None:
    flow.produce(1_000)
    query = flow.start(application, real_time=LONG)
    wait_written(flow)
    application.faults.arm("after-flush", "stop")
    flow.produce(1_000)
    executor = application.faults.wait_taken("after-flush")
    cluster.brokers[0].kill()
    application.resume(executor)
    cluster.brokers[0].start()
    flow.produce(1_000)
    finish(flow, query)


@pytest.mark.slow
def test_partitions_that_are_added_come_with_the_next_batch(
    application: Application, flow: Flow
) -> None:
    flow.produce(200)
    query = flow.start(application, real_time=SHORT)
    wait_written(flow)
    flow.add_partitions(4)
    flow.produce(200)
    finish(flow, query)
