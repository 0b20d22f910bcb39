"""Epoch scope under crashes: at every step of an epoch somebody dies, and nothing shows."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from eoskafka.cluster import LocalCluster
from harness import Application, Flow, Point, Query, StartApplication, hidden, until
from kafka import KafkaProducer, TopicPartition
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


@pytest.mark.parametrize(
    "point",
    [
        "before-decision",
        pytest.param("after-decision", marks=SLOW),
        pytest.param("half-rolled-forward", marks=SLOW),
        pytest.param("before-log", marks=SLOW),
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


@SLOW
def test_records_of_a_topic_that_was_created_again_are_not_those_of_a_decided_epoch(
    start_application: StartApplication, application: Application, flow: Flow
) -> None:
    first = start_application("local[2]")
    flow.produce(RECORDS)
    flow.reach(first, "after-decision", "kill", **STATELESS)
    first.kill()
    flow.create_again()
    flow.produce(RECORDS)
    flow.start(application, failOnDataLoss="false", **STATELESS).wait_done()
    flow.assert_nothing_is_open()
    numbers = [*range(PER_BATCH), *range(RECORDS, 2 * RECORDS)]
    assert sorted((r.value or b"").decode() for r in flow.outputs()) == sorted(
        f"v{number}!" for number in numbers
    )


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
    application = start_application(
        "local-cluster[2,1,1024]",
        spark_executor_heartbeatInterval="1s",
        spark_network_timeout="5s",
        spark_network_timeoutInterval="1s",
    )
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
    ended = flow.open_transactions()[0]
    with closing(KafkaProducer(bootstrap_servers=flow.servers, transactional_id=ended)) as producer:
        producer.init_transactions()
    first.resume()
    error = query.wait_end().error
    assert error is not None
    assert "[EOSKAFKA_PREPARED_GONE]" in error, error
    assert ended in error
    flow.assert_nothing_is_open()
    assert flow.outputs() == []
    flow.start(application, **STATEFUL).wait_done()
    flow.assert_exactly_once()


# ---- decided, and timed out before it could be committed

SHORT = {"kafka.transaction.timeout.ms": "12000", "recoveryReserveMs": "1000"}
# A driver waits so long for the ends of transactions that it has decided.
ROLL_FORWARD_S = 72
# Less than that remains when a decision of 3 s, a second for the brokers' look and one for a
# restart are taken off.
TOO_LONG_S = 9.0


@pytest.fixture(scope="module")
def impatient_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker that looks for transactions past their timeout every second."""
    often = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}
    with LocalCluster(
        brokers=1, data_dir=tmp_path_factory.mktemp("impatient"), properties=often
    ) as cluster:
        yield cluster


@pytest.fixture
def impatient(impatient_cluster: LocalCluster, tmp_path: Path) -> Flow:
    """A query's topics, group and checkpoint on that broker."""
    return Flow(impatient_cluster.bootstrap_servers, tmp_path / "checkpoint")


def time_out(first: Application, flow: Flow, point: Point, **how: Any) -> Query:
    """Decide an epoch, not the first one, and rest until its transactions have timed out."""
    flow.produce(PER_BATCH)
    flow.start(first, sink=SHORT, **how).wait_done()
    flow.produce(RECORDS)
    query = flow.reach(first, point, "stop", sink=SHORT, **how)
    until(lambda: not flow.open_transactions(), "the timeout of the transactions", 60)
    return query


@SLOW
@pytest.mark.parametrize("point", ["after-decision", "half-rolled-forward"])
def test_an_epoch_that_timed_out_after_its_decision_is_written_again(
    start_application: StartApplication,
    application: Application,
    impatient: Flow,
    point: Point,
) -> None:
    first = start_application("local[2]")
    time_out(first, impatient, point, **STATELESS)
    first.kill()
    impatient.start(application, sink=SHORT, **STATELESS).wait_done()
    impatient.assert_exactly_once()


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


@SLOW
def test_a_driver_says_that_its_epoch_has_timed_out_after_its_decision(
    start_application: StartApplication, application: Application, impatient: Flow
) -> None:
    first = start_application("local[2]")
    query = time_out(first, impatient, "after-decision", **STATELESS)
    first.resume()
    error = str(query.wait_end().error)
    assert "[EOSKAFKA_EPOCH_TIMED_OUT]" in error, error
    query = impatient.reach(first, "before-decision", "stop", sink=SHORT, **STATELESS)
    time.sleep(TOO_LONG_S)
    first.resume()
    error = str(query.wait_end().error)
    assert "[EOSKAFKA_EPOCH_TOO_LONG_AGAIN]" in error, error
    impatient.start(application, sink=SHORT, **STATELESS).wait_done()
    impatient.assert_exactly_once()


@SLOW
def test_a_driver_that_cannot_see_what_has_timed_out_says_so(
    start_application: StartApplication, application: Application, impatient: Flow
) -> None:
    first = start_application("local[2]")
    impatient.produce(PER_BATCH)
    impatient.start(first, sink=SHORT, **STATELESS).wait_done()
    with impatient.admin() as admin:
        (decisions,) = admin.describe_topics(["__eoskafka_decisions"])
    # Where writers leave their markers, before they do.
    odd = range(1, len(decisions["partitions"]), 2)
    with hidden(impatient.servers, [TopicPartition("__eoskafka_decisions", n) for n in odd]):
        query = time_out(first, impatient, "after-decision", **STATELESS)
        first.resume()
        error = str(query.wait_end(2 * ROLL_FORWARD_S).error)
    assert "[EOSKAFKA_EPOCH_UNSETTLED]" in error, error
    assert "an open transaction hides" in error
    impatient.start(application, sink=SHORT, **STATELESS).wait_done()
    impatient.assert_exactly_once()


@SLOW
def test_an_epoch_that_is_written_again_is_split_as_it_was(
    start_application: StartApplication,
    application: Application,
    impatient: Flow,
) -> None:
    eight: dict[str, Any] = {"slots": 8, "minPartitions": 8, **IN_BATCHES}
    first = start_application("local[2]")
    time_out(first, impatient, "half-rolled-forward", **eight)
    first.kill()
    impatient.start(application, sink=SHORT, **{**eight, "minPartitions": 3}).wait_done()
    impatient.assert_exactly_once()


@SLOW
def test_an_epoch_that_timed_out_and_cannot_be_repeated_stops_the_query(
    start_application: StartApplication,
    application: Application,
    impatient: Flow,
) -> None:
    first = start_application("local[2]")
    time_out(first, impatient, "half-rolled-forward", **RANDOM)
    first.kill()
    before = impatient.outputs()
    assert before, "the half that was committed"
    for _ in range(2):
        status = impatient.start(application, sink=SHORT, **RANDOM).wait_end()
        assert status.error is not None
        assert "[EOSKAFKA_EPOCH_NOT_REPEATABLE]" in status.error, status.error
        assert impatient.outputs() == before
        impatient.assert_nothing_is_open()


# What is left of a minute for an epoch, and for a restart after its decision.
RESERVED = {"kafka.transaction.timeout.ms": "60000", "recoveryReserveMs": "40000"}


@SLOW
def test_an_epoch_decided_at_the_last_moment_survives_a_restart_within_the_reserve(
    start_application: StartApplication, application: Application, impatient: Flow
) -> None:
    first = start_application("local[2]")
    how: dict[str, Any] = {"sink": RESERVED, **RANDOM}
    impatient.produce(PER_BATCH)
    impatient.start(first, **how).wait_done()
    impatient.produce(RECORDS)
    impatient.reach(first, "before-decision", "stop", **how)
    first.faults.arm("after-decision", "kill")
    # Of the 60 s a decision takes 10, the brokers' look 1 and the restart 40: 9 are left.
    time.sleep(7)
    first.resume()
    first.faults.wait_taken("after-decision")
    first.kill()
    # Long for a restart, and within the reserve.
    time.sleep(25)
    assert impatient.open_transactions()
    impatient.start(application, **how).wait_done()
    impatient.assert_nothing_is_open()
    written = Counter(record.key for record in impatient.outputs())
    assert written == Counter(record.key for record in impatient.inputs())


def test_an_epoch_that_would_use_up_the_reserve_is_given_up_undecided(
    start_application: StartApplication, application: Application, impatient: Flow
) -> None:
    first = start_application("local[2]")
    how: dict[str, Any] = {"sink": RESERVED, **STATELESS}
    impatient.produce(RECORDS)
    query = impatient.reach(first, "before-decision", "stop", **how)
    time.sleep(10)  # an epoch that takes long, not a wait for something
    first.resume()
    error = str(query.wait_end().error)
    assert "[EOSKAFKA_EPOCH_TOO_LONG]" in error, error
    assert "40000 ms are kept for a restart" in error, error
    impatient.assert_nothing_is_open()
    assert impatient.outputs() == []
    more = {"kafka.transaction.timeout.ms": "60000"}
    impatient.start(application, sink=more, **STATELESS).wait_done()
    impatient.assert_exactly_once()


@SLOW
def test_an_epoch_that_comes_near_its_timeout_is_given_up_undecided(
    start_application: StartApplication,
    application: Application,
    impatient: Flow,
) -> None:
    first = start_application("local[2]")
    impatient.produce(RECORDS)
    query = impatient.reach(first, "before-decision", "stop", sink=SHORT, **STATELESS)
    time.sleep(TOO_LONG_S)  # an epoch that takes long, not a wait for something
    first.resume()
    error = query.wait_end().error
    assert error is not None
    assert "[EOSKAFKA_EPOCH_TOO_LONG]" in error, error
    impatient.assert_nothing_is_open()
    assert impatient.outputs() == []
    # The way to smaller batches that the error tells.
    (impatient.checkpoint / "offsets" / "0").unlink()
    (impatient.checkpoint / "offsets" / ".0.crc").unlink()
    smaller: dict[str, Any] = {**STATELESS, "maxOffsetsPerTrigger": PER_BATCH // 4}
    done = impatient.start(application, sink=SHORT, **smaller).wait_done()
    assert done.batches >= RECORDS // (PER_BATCH // 4)
    impatient.assert_exactly_once()
