"""Epoch scope under crashes: at every step of an epoch somebody dies, and nothing shows."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import Any

import pytest
from harness import IMPATIENT_DRIVER, Application, Flow, Point, StartApplication
from harness.flow import end_one
from kafka.admin import MemberToRemove

RECORDS = 600
PER_BATCH = 200

IN_BATCHES = {"maxOffsetsPerTrigger": PER_BATCH}
STATELESS: dict[str, Any] = {"transform": "repartitioned", **IN_BATCHES}
STATEFUL: dict[str, Any] = {"transform": "grouped", "mode": "update", **IN_BATCHES}
RANDOM: dict[str, Any] = {"transform": "random", **IN_BATCHES}

SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("before-init", marks=SLOW),
        pytest.param("after-init", marks=SLOW),
        pytest.param("before-flush", marks=SLOW),
        "after-flush",
    ],
)
def test_an_executor_killed_at_any_point_before_it_has_reported(
    application: Application, flow: Flow, point: Point
) -> None:
    flow.produce(RECORDS)
    executors = {p.id.pid for p in application.executors()}
    application.faults.arm(point, "kill")
    query = flow.start(application, **STATEFUL)
    assert application.faults.wait_taken(point) in executors
    query.wait_done()
    flow.assert_exactly_once()


@pytest.mark.parametrize(
    "how",
    [pytest.param(STATEFUL, id="stateful"), pytest.param(STATELESS, id="stateless", marks=SLOW)],
)
@pytest.mark.parametrize(
    "point",
    [
        pytest.param("before-init", marks=SLOW),
        pytest.param("after-flush", marks=SLOW),
        pytest.param("before-decision", marks=SLOW),
        pytest.param("after-decision", marks=SLOW),
        "half-rolled-forward",
        pytest.param("before-log", marks=SLOW),
    ],
)
def test_a_driver_killed_at_any_step_of_an_epoch(
    start_application: StartApplication,
    application: Application,
    flow: Flow,
    point: Point,
    how: dict[str, Any],
) -> None:
    flow.produce(RECORDS)
    first = start_application("local[2]")
    flow.start(first, **how).wait_done()
    flow.produce(RECORDS)
    flow.reach(first, point, "kill", **how)
    first.kill()
    flow.start(application, **how).wait_done()
    flow.assert_exactly_once()


@SLOW
def test_a_driver_killed_in_its_first_epoch(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    first = start_application("local[2]")
    flow.produce(RECORDS)
    flow.reach(first, "after-decision", "kill", **STATEFUL)
    first.kill()
    flow.start(application, **STATEFUL).wait_done()
    flow.assert_exactly_once()


@SLOW
@pytest.mark.parametrize(
    "point",
    [
        "before-decision",
        "after-decision",
        "half-rolled-forward",
        "before-log",
    ],
)
def test_a_driver_that_wakes_up_after_another_has_taken_over_changes_nothing(
    start_application: StartApplication, application: Application, flow: Flow, point: Point
) -> None:
    first = start_application("local[2]")
    flow.produce(RECORDS)
    query = flow.reach(first, point, "stop", **STATEFUL)
    flow.start(application, **STATEFUL).wait_done()
    flow.produce(RECORDS)
    first.resume()
    assert query.wait_end().error is not None
    flow.start(application, **STATEFUL).wait_done()
    flow.assert_exactly_once()


@SLOW
def test_a_driver_that_wakes_up_and_does_not_know_the_new_partitions_changes_nothing(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    first = start_application("local[2]")
    flow.produce(RECORDS)
    query = flow.reach(first, "before-decision", "stop", **STATELESS)
    flow.add_partitions(4)
    flow.produce(RECORDS)
    flow.start(application, **STATELESS).wait_done()
    first.resume()
    assert query.wait_end().error is not None
    flow.produce(RECORDS)
    flow.start(application, **STATELESS).wait_done()
    flow.assert_exactly_once()


@SLOW
def test_records_of_a_decided_epoch_that_are_gone_at_the_restart_are_not_read_again(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    first = start_application("local[2]")
    flow.produce(RECORDS)
    flow.reach(first, "after-decision", "kill", **STATELESS)
    first.kill()
    decided = flow.committed()
    assert sum(decided.values()) == PER_BATCH
    wanted = sorted(f"{(r.value or b'').decode()}!" for r in flow.inputs())
    flow.delete_records({p: offset - 50 for p, offset in decided.items()})
    error = flow.start(application, **STATELESS).wait_end().error
    assert "[EOSKAFKA_DATA_LOSS]" in str(error), error
    assert len(flow.outputs()) == PER_BATCH  # what was decided is there for its readers
    how: dict[str, Any] = {"failOnDataLoss": "false", **STATELESS}
    error = flow.start(application, **{**how, "transform": "fail_all"}).wait_end().error
    assert "fails" in str(error), error
    assert flow.committed() == decided
    second = start_application("local[2]")
    second.faults.arm("before-decision", "kill")  # on the next batch
    flow.start(second, **how)
    second.faults.wait_taken("before-decision")
    second.kill()
    flow.start(application, **how).wait_done()
    flow.assert_nothing_is_open()
    assert sorted(f"{(r.value or b'').decode()}" for r in flow.outputs()) == wanted
    assert flow.committed() == flow.ends()


@SLOW
def test_a_decided_epoch_is_committed_though_its_input_is_gone(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    first = start_application("local[2]")
    flow.produce(RECORDS)
    flow.reach(first, "after-decision", "kill", **STATELESS)
    first.kill()
    with flow.admin() as admin:
        admin.delete_topics([flow.input])
    error = flow.start(application, **STATELESS).wait_end().error
    assert "[EOSKAFKA_NO_SUCH_TOPIC]" in str(error), error
    flow.assert_nothing_is_open()
    assert len(flow.outputs()) == PER_BATCH


def decide_of_a_former_topic(start_application: StartApplication, flow: Flow) -> None:
    """Leave a decided epoch that Spark runs again, and records in a new topic of the same name."""
    first = start_application("local[2]")
    flow.produce(RECORDS)
    flow.reach(first, "after-decision", "kill", **STATELESS)
    first.kill()
    flow.create_again()
    flow.produce(RECORDS)


def assert_outputs(flow: Flow, *numbers: range) -> None:
    """The output has these records and no others, and nothing is left open."""
    flow.assert_nothing_is_open()
    assert sorted((r.value or b"").decode() for r in flow.outputs()) == sorted(
        f"v{number}!" for several in numbers for number in several
    )


@SLOW
@pytest.mark.parametrize(
    "points",
    [
        pytest.param((), id="at once"),
        # The later starts are told by the checkpoint, and the last one that the batch is done.
        pytest.param(("before-log", "after-decision"), id="after two more"),
    ],
)
def test_records_of_a_topic_that_was_created_again_are_not_those_of_a_decided_epoch(
    start_application: StartApplication,
    application: Application,
    flow: Flow,
    points: tuple[Point, ...],
) -> None:
    decide_of_a_former_topic(start_application, flow)
    for point in points:
        later = start_application("local[2]")
        flow.reach(later, point, "kill", failOnDataLoss="false", **STATELESS)
        later.kill()
    flow.start(application, failOnDataLoss="false", **STATELESS).wait_done()
    assert_outputs(flow, range(PER_BATCH), range(RECORDS, 2 * RECORDS))


@SLOW
def test_nor_are_they_after_a_start_with_another_sink(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    """It is refused, and leaves nothing behind that says where the new topic is read from."""
    decide_of_a_former_topic(start_application, flow)
    other = start_application("local[2]")
    refused = flow.start(other, form="noop", failOnDataLoss="false", **STATELESS).wait_end()
    assert "[EOSKAFKA_BATCH_UNFINISHED]" in str(refused.error), refused.error
    other.kill()
    flow.start(application, failOnDataLoss="false", **STATELESS).wait_done()
    assert_outputs(flow, range(PER_BATCH), range(RECORDS, 2 * RECORDS))


@SLOW
def test_nor_are_those_of_a_topic_that_is_created_again_while_the_epoch_runs_again(
    start_application: StartApplication, flow: Flow
) -> None:
    decide_of_a_former_topic(start_application, flow)
    later = start_application("local[2]")
    query = flow.reach(later, "before-log", "stop", failOnDataLoss="false", **STATELESS)
    flow.create_again()
    flow.produce(RECORDS)
    later.resume()
    query.wait_done()
    assert_outputs(flow, range(PER_BATCH), range(2 * RECORDS, 3 * RECORDS))


@SLOW
def test_a_driver_that_decides_while_another_one_starts_is_not_repeated(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    # The second one has chosen the batch to run again, and has not yet put its id into the
    # checkpoint, which would stop the first one's next epoch.
    first = start_application("local[2]")
    flow.produce(RECORDS)
    running = flow.reach(first, "before-decision", "stop", interval="200 milliseconds", **STATEFUL)
    second = start_application("local[2]")
    query = flow.reach(second, "before-last-run", "stop", **STATEFUL)
    first.resume()
    running.wait_batches(2)
    second.resume()
    status = query.wait_end()
    assert status.error is not None
    assert "[EOSKAFKA_EPOCH_TAKEN]" in status.error, status.error
    first.kill()
    flow.start(application, **STATEFUL).wait_done()
    flow.assert_exactly_once()


@SLOW
def test_a_first_epoch_is_not_written_after_another_driver_has_started(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    # The second driver has found no sign of epoch scope, so it would not settle what the first one
    # decides.
    first = start_application("local[2]")
    flow.produce(RECORDS)
    writing = flow.reach(first, "before-run", "stop", **STATELESS)
    second = start_application("local[2]")
    query = flow.reach(second, "before-join", "stop", **IN_BATCHES)
    first.resume()
    error = writing.wait_end().error
    assert error is not None
    assert "[EOSKAFKA_CHECKPOINT_TAKEN]" in error, error
    second.resume()
    query.wait_done()
    flow.assert_exactly_once()


@SLOW
def test_an_executor_that_wakes_up_after_its_epoch_was_decided_without_it_changes_nothing(
    start_application: StartApplication, flow: Flow
) -> None:
    # It is stopped before it initialises its producer; the driver gives it up, and later epochs run
    # with its writer's number.
    application = start_application("local-cluster[2,1,1024]", IMPATIENT_DRIVER)
    application.wait_executors(2)
    flow.produce(RECORDS)
    application.faults.arm("before-init", "stop")
    query = flow.start(application, **STATEFUL)
    executor = application.faults.wait_taken("before-init")
    query.wait_done()
    application.resume(executor)
    flow.produce(RECORDS)
    flow.start(application, **STATEFUL).wait_done()
    flow.assert_exactly_once()


@pytest.mark.parametrize(
    "lost",
    [
        pytest.param("everything", marks=SLOW),
        "the last batch",
        pytest.param("the last offset file", marks=SLOW),
    ],
)
def test_a_checkpoint_that_has_gone_back_behind_a_decision_stops_the_query(
    application: Application, flow: Flow, lost: str
) -> None:
    flow.produce(RECORDS)
    flow.start(application, **STATEFUL).wait_done()
    copy = flow.checkpoint.with_name("copy")
    shutil.copytree(flow.checkpoint, copy)
    flow.produce(RECORDS)
    flow.start(application, **STATEFUL).wait_done()
    if lost == "the last offset file":
        offsets = [
            *(flow.checkpoint / "offsets").iterdir(),
            *(flow.checkpoint / "commits").iterdir(),
        ]
        last = max(int(file.name) for file in offsets if file.name.isdigit())
        for file in offsets:
            if file.name.strip(".").startswith(f"{last}"):
                file.unlink()
    else:
        shutil.rmtree(flow.checkpoint)
        if lost == "the last batch":
            shutil.copytree(copy, flow.checkpoint)
    before = flow.outputs()
    flow.produce(10)
    status = flow.start(application, **STATEFUL).wait_end()
    assert status.error is not None
    assert "[EOSKAFKA_DECISION_NEWER]" in status.error, status.error
    assert flow.outputs() == before


@SLOW
def test_another_plan_of_a_decided_epoch_stops_the_query(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    first = start_application("local[2]")
    flow.produce(RECORDS)
    flow.reach(first, "before-log", "kill", **STATEFUL)
    first.kill()
    planned = flow.checkpoint / "offsets" / "0"
    (flow.checkpoint / "offsets" / ".0.crc").unlink(missing_ok=True)
    planned.write_text(planned.read_text().replace('"0":100', '"0":99'))
    status = flow.start(application, **STATEFUL).wait_end()
    assert status.error is not None
    assert "[EOSKAFKA_DECISION_OTHER_PLAN]" in status.error, status.error
    assert len(flow.outputs()) == PER_BATCH


def test_a_failure_after_the_decision_takes_nothing_back(
    application: Application, flow: Flow
) -> None:
    # Its rows are others when it runs again: what was decided cannot be made anew.
    flow.produce(RECORDS)
    query = flow.reach(application, "after-decision", "fail", **RANDOM)
    assert "fault after-decision" in str(query.wait_end().error)
    flow.start(application, **RANDOM).wait_done()
    flow.assert_nothing_is_open()
    assert Counter(record.key for record in flow.outputs()) == Counter(
        record.key for record in flow.inputs()
    )
    assert flow.committed() == flow.ends()


def test_a_query_stopped_after_its_decision_commits_what_it_has_decided(
    application: Application, flow: Flow
) -> None:
    # Spark interrupts the query's thread, which ends every call of Kafka's clients.
    in_one: dict[str, Any] = {"transform": "grouped", "mode": "update"}
    flow.produce(RECORDS)
    query = flow.reach(application, "after-decision", "slow", **in_one)
    assert query.stop().error is None
    assert len(flow.outputs()) == RECORDS
    flow.start(application, **in_one).wait_done()
    flow.assert_exactly_once()


@SLOW
def test_a_prepared_transaction_that_somebody_has_ended_is_not_decided_on(
    application: Application, start_application: StartApplication, flow: Flow
) -> None:
    first = start_application("local[2]")
    flow.produce(RECORDS)
    query = flow.reach(first, "before-decision", "stop", **STATEFUL)
    ended = end_one(flow)
    first.resume()
    error = query.wait_end().error
    assert error is not None
    assert "[EOSKAFKA_PREPARED_GONE]" in error, error
    assert ended in error
    flow.assert_nothing_is_open()
    assert flow.outputs() == []
    flow.start(application, **STATEFUL).wait_done()
    flow.assert_exactly_once()


@SLOW
def test_a_prepared_transaction_that_somebody_aborts_after_the_decision_is_written_again(
    application: Application, start_application: StartApplication, flow: Flow
) -> None:
    # Its rows are the same when it runs again.
    how: dict[str, Any] = {"transform": "repartitioned"}
    first = start_application("local[2]")
    flow.produce(RECORDS)
    query = flow.reach(first, "after-decision", "stop", **how)
    end_one(flow)
    first.resume()
    error = str(query.wait_end().error)
    assert "[EOSKAFKA_EPOCH_TIMED_OUT]" in error, error
    assert "or somebody with Write on their transactional ids has aborted them" in error
    flow.start(application, **how).wait_done()
    flow.assert_exactly_once()


def test_a_decided_epoch_whose_group_is_gone_is_not_written_again(
    application: Application, flow: Flow
) -> None:
    how: dict[str, Any] = {"transform": "repartitioned"}
    flow.produce(RECORDS)
    query = flow.reach(application, "before-log", "fail", **how)
    assert query.wait_end().error
    with flow.admin() as admin:
        members = admin.describe_groups([flow.group])[flow.group]["members"]
        gone = [MemberToRemove(group_instance_id=each["group_instance_id"]) for each in members]
        if gone:
            admin.remove_group_members(flow.group, gone)
        admin.delete_groups([flow.group])
    # One run for the epoch that is decided, and nothing after it.
    flow.start(application, **how).wait_done()
    assert flow.committed() == flow.ends()
    flow.produce(RECORDS)
    flow.start(application, **how).wait_done()
    flow.assert_exactly_once()


def test_a_writer_without_rows_waits_until_its_id_is_initialised(
    start_application: StartApplication, flow: Flow
) -> None:
    epoch = {"transactionScope": "epoch"}
    flow.produce(RECORDS)
    flow.start(start_application("local[2]"), transform="as_is", sink=epoch).wait_done()
    former = flow.transactional_ids()
    flow.produce(RECORDS)
    application = start_application("local[2]")
    application.faults.arm("before-init", "slow")
    flow.start(application, transform="drop_all", sink=epoch).wait_done()
    # Both writers had rows before. One was kept from initialising its id for three seconds.
    assert len(set(flow.transactional_ids()) - set(former)) == 2
