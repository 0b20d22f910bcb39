"""Epochs whose transactions time out: after their decision, or before there was time for one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eoskafka.cluster import LocalCluster
from harness import Application, Flow, Point, Query, StartApplication, hidden, until
from kafka import TopicPartition

RECORDS = 600
PER_BATCH = 200

IN_BATCHES = {"maxOffsetsPerTrigger": PER_BATCH}
STATELESS: dict[str, Any] = {"transform": "repartitioned", **IN_BATCHES}
RANDOM: dict[str, Any] = {"transform": "random", **IN_BATCHES}

SLOW = pytest.mark.slow

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


@SLOW
def test_an_epoch_that_would_use_up_the_reserve_is_given_up_undecided(
    start_application: StartApplication, impatient: Flow
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
    impatient.start(first, sink=more, **STATELESS).wait_done()
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
