"""Task scope while several attempts of a task run: under speculation, or when one is given up.

Whatever order they commit in, every record takes effect once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import (
    IMPATIENT_DRIVER,
    Application,
    Flow,
    Point,
    Query,
    StartApplication,
    until,
)

RECORDS = 2_000
PER_BATCH = 500


SPECULATING = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.0",
    # Longer than a slot takes that nobody stops.
    "spark.speculation.minTaskRuntime": "3s",
}
# What a query under speculation is in if it says so.
TASK = {"transactionScope": "task"}


@pytest.fixture(scope="module")
def shared_speculating_application(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Application]:
    """Two executors on two hosts, and a second attempt for whatever takes long."""
    folder = tmp_path_factory.mktemp("speculating")
    with Application(folder, "two-hosts", SPECULATING) as application:
        yield application


@pytest.fixture
def speculating_application(
    shared_speculating_application: Application, keep_logs: list[Path]
) -> Iterator[Application]:
    """Shared, with both executors there and nothing armed."""
    with shared_speculating_application.lent(keep_logs) as lent:
        lent.wait_executors(2)
        yield lent


@pytest.mark.slow
@pytest.mark.parametrize("point", ["after-offsets", "after-commit"])
def test_an_attempt_paused_and_overtaken_by_another_changes_nothing_when_it_goes_on(
    speculating_application: Application, flow: Flow, point: Point
) -> None:
    application = speculating_application
    flow.produce(RECORDS)
    application.faults.arm(point, "stop")
    query = flow.start(application, sink=TASK)
    executor = application.faults.wait_taken(point)
    # The batch can only end by a second attempt, on the other executor.
    query.wait_done()
    flow.assert_exactly_once()
    application.resume(executor)
    flow.produce(RECORDS)
    flow.start(application, maxOffsetsPerTrigger=PER_BATCH, sink=TASK).wait_done()
    flow.assert_exactly_once()


def test_an_attempt_overtaken_by_another_cannot_commit_though_nobody_calls_it_off(
    speculating_application: Application, flow: Flow
) -> None:
    # It has written its records and not sent its offsets; the driver, which is stopped before the
    # copy begins to write, would have it killed.
    application = speculating_application
    query, first, copy = hold_both_attempts(application, flow, "before-flush")
    application.pause_driver()
    application.resume(copy)
    flow.wait_committed()
    ended = application.ended_attempts()
    application.resume(first)
    until(lambda: application.ended_attempts() > ended, "the end of the first attempt", 30)
    application.resume()
    query.wait_done()
    flow.assert_exactly_once()


def test_an_attempt_that_commits_while_its_copy_begins_is_not_repeated_by_the_copy(
    speculating_application: Application, flow: Flow
) -> None:
    # The copy has seen that nothing is committed, and is held before it initialises its producer.
    application = speculating_application
    query, first, copy = hold_both_attempts(application, flow, "after-offsets")
    application.pause_driver()
    ended = application.ended_attempts()
    application.resume(first)
    until(lambda: application.ended_attempts() > ended, "the end of the first attempt", 30)
    flow.wait_committed()
    application.resume(copy)
    until(lambda: application.ended_attempts() > ended + 1, "the end of the copy", 30)
    application.resume()
    query.wait_done()
    flow.assert_exactly_once()


def hold_both_attempts(
    application: Application, flow: Flow, point: Point
) -> tuple[Query, int, int]:
    """Stop an attempt's executor at a point, and that of its copy before its `initTransactions`.

    Returns:
        the query, and the pids of the first attempt's executor and of the copy's.
    """
    flow.produce(RECORDS)
    application.faults.arm(point, "stop")
    query = flow.start(application, sink=TASK)
    first = application.faults.wait_taken(point)
    wait_for_the_other_slot(flow)
    application.faults.arm("before-init", "stop")
    copy = application.faults.wait_taken("before-init")
    assert copy != first
    return query, first, copy


def wait_for_the_other_slot(flow: Flow) -> None:
    """While one of the two is stopped, wait until the other has committed its end."""
    ends = set(flow.ends().values())
    until(lambda: ends & set(flow.committed().values()), "the other slot", 30)


@pytest.mark.parametrize("ownership", ["exclusive", pytest.param("shared", marks=pytest.mark.slow)])
def test_an_attempt_fenced_by_another_fails_alone(
    speculating_application: Application, flow: Flow, ownership: str
) -> None:
    application = speculating_application
    flow.produce(RECORDS)
    application.faults.arm("before-flush", "stop")
    query = flow.start(application, ownership=ownership, sink=TASK)
    first = application.faults.wait_taken("before-flush")
    wait_for_the_other_slot(flow)
    application.faults.arm("after-init", "stop")
    second = application.faults.wait_taken("after-init")
    assert first != second
    application.resume(first)
    until(lambda: "EOSKAFKA_ATTEMPT_FENCED" in application.text(), "the first one's end", 30)
    application.resume(second)
    query.wait_done()
    # In the batch that both had tried.
    assert not re.search(r"slot \d+ was aborted", application.text())
    flow.assert_exactly_once()


@pytest.mark.slow
def test_a_slow_attempt_and_its_speculative_copy_write_once(
    speculating_application: Application, flow: Flow
) -> None:
    flow.produce(RECORDS)
    application = speculating_application
    flow.start(application, transform="slow_first_attempt", sink=TASK).wait_done()
    flow.assert_exactly_once()


def test_speculation_fences_no_task_of_a_query_that_need_not_be_in_task_scope(
    speculating_application: Application, flow: Flow
) -> None:
    # Each attempt takes five seconds, and gets a copy after three.
    application = speculating_application
    flow.produce(RECORDS)
    flow.start(application, transform="slow_slot").wait_done()
    assert "EOSKAFKA_ATTEMPT_FENCED" not in application.text()
    assert flow.decision_id()
    flow.assert_exactly_once()


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["auto", "task"])
def test_a_slot_that_takes_longer_than_the_others_under_speculation(
    start_application: StartApplication, flow: Flow, scope: str
) -> None:
    # As many hosts as a task may fail, and one: a host gets one attempt of a task.
    application = start_application("five-hosts", SPECULATING)
    application.wait_executors(5)
    flow.produce(RECORDS)
    flow.start(application).wait_done()
    for _ in range(3):
        flow.produce(RECORDS)
        how: dict[str, Any] = {"transform": "slow_slot", "sink": {"transactionScope": scope}}
        error = flow.start(application, **how).wait_end().error
        assert (error is not None) == (scope == "task"), error
        assert ("[EOSKAFKA_ATTEMPT_FENCED]" in application.text()) == (scope == "task")
    assert ("spark.speculation=true and task scope" in application.text()) == (scope == "task")
    if scope == "task":
        flow.start(start_application("local[2]")).wait_done()
    flow.assert_exactly_once()


@pytest.mark.slow
def test_an_executor_given_up_by_its_driver_cannot_commit_any_more(
    start_application: StartApplication, flow: Flow
) -> None:
    application = start_application("local-cluster[2,1,1024]", IMPATIENT_DRIVER)
    flow.produce(RECORDS)
    application.faults.arm("after-offsets", "stop")
    query = flow.start(application)
    executor = application.faults.wait_taken("after-offsets")
    query.wait_done()
    application.resume(executor)
    flow.assert_exactly_once()
    flow.produce(RECORDS)
    flow.start(application, maxOffsetsPerTrigger=PER_BATCH).wait_done()
    flow.assert_exactly_once()
