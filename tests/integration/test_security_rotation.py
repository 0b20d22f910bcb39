"""Passwords, certificates and tokens that end or are replaced while a query runs."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from eoskafka import real_time_trigger
from eoskafka.audit import UndecidedError
from eoskafka.session import REAL_TIME_CHECK
from harness import Flow, StartApplication, until
from harness.log_ins import ALLOWED_URLS, LogIns
from harness.versions import HAS_REAL_TIME
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery
from sessions import settings
from streams import QUERY_S, Streams, kv

pytestmark = pytest.mark.slow

MODES = ["task", "epoch", *(["real time"] if HAS_REAL_TIME else [])]


class Running:
    """One query in one mode, with this log-in, that gets records as it runs."""

    def __init__(self, there: Streams, options: dict[str, str], mode: str) -> None:
        self.there = there
        self.mode = mode
        self.options = {
            **options,
            "kafka.request.timeout.ms": "5000",
            "kafka.delivery.timeout.ms": "20000",
            "kafka.max.block.ms": "10000",
        }
        self.job = there.job()
        self.sent = 0

    def writer(self) -> DataStreamWriter:
        given = {**self.options, "kafka.group.id": self.job.group}
        rows = kv(self.there.source(self.job.input, given))
        is_real_time = self.mode == "real time"
        scope = {} if is_real_time else {"transactionScope": self.mode}
        writer = self.there.sink(
            rows,
            self.job.output,
            self.job.checkpoint,
            {**self.options, **scope},
            mode="update" if is_real_time else "append",
        )
        if is_real_time:
            return real_time_trigger(writer, "5 seconds")
        return writer.trigger(processingTime="500 milliseconds")

    def start(self) -> StreamingQuery:
        with settings(self.there.spark, {REAL_TIME_CHECK: "false"}):
            return self.there.start(self.writer())

    def send(self) -> None:
        self.job.send(*range(self.sent, self.sent + 10))
        self.sent += 10

    def is_complete(self) -> bool:
        try:
            return self.job.written() == [*range(self.sent)]
        except UndecidedError:
            return False

    def wait_complete(self, query: StreamingQuery) -> None:
        self.there.wait_written(self.job.output, range(self.sent), query)


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def fails_to_log_in(running: Running, query: StreamingQuery) -> str:
    """It gets records until it ends with an error that says why."""

    def has_ended() -> bool:
        if query.isActive:
            running.send()
        return not query.isActive

    until(has_ended, "the end of the query", 90)
    error = str(query.exception())
    # A producer that has records tries again until their time is over, and then says no more.
    # An epoch that was decided by then says when it has to be started again.
    expected = ("EOSKAFKA_LOG_IN_FAILED", "EOSKAFKA_WRITE_FAILED", "EOSKAFKA_EPOCH_UNSETTLED")
    assert any(condition in error for condition in expected), error
    return error


def goes_on(running: Running, within_s: float = 0) -> None:
    """The next start has what is in the files then, and loses and repeats nothing.

    Args:
        within_s: how long starts may still fail.
    """
    deadline = time.monotonic() + within_s
    query = running.start()
    running.send()

    def is_complete() -> bool:
        nonlocal query
        if not query.isActive:
            assert time.monotonic() < deadline, query.exception()
            query = running.start()
        return running.is_complete()

    until(is_complete, f"{running.sent} records of the query in {running.mode}", QUERY_S)
    query.stop()
    assert running.is_complete()


@pytest.fixture
def lifetime_s(log_ins: LogIns) -> Iterator[int]:
    log_ins.tokens.lifetime_s = 15
    yield 15
    log_ins.tokens.lifetime_s = 3600
    log_ins.tokens.is_away = False


def test_a_query_outlives_its_tokens(
    there: Streams, log_ins: LogIns, lifetime_s: int, mode: str
) -> None:
    options = log_ins.options("oauth", **{"sasl.oauthbearer.scope": f"short {mode}"})
    running = Running(there, options, mode)
    before = len(log_ins.tokens.issued)
    query = running.start()

    def is_third() -> bool:
        assert query.isActive, query.exception()
        running.send()
        return len(log_ins.tokens.issued) >= before + 4

    until(is_third, "three renewals", 5 * lifetime_s)
    running.wait_complete(query)
    query.stop()
    assert running.is_complete()


def test_a_query_without_new_tokens_stops_and_goes_on_when_there_are_some(
    there: Streams, log_ins: LogIns, lifetime_s: int, mode: str
) -> None:
    options = log_ins.options("oauth", **{"sasl.oauthbearer.scope": f"away {mode}"})
    running = Running(there, options, mode)
    query = running.start()
    running.send()
    running.wait_complete(query)
    log_ins.tokens.is_away = True
    # The token that it has is good for a while.
    running.send()
    running.wait_complete(query)
    fails_to_log_in(running, query)
    log_ins.tokens.is_away = False
    # Clients that rest in this process ask again every ten seconds, and new ones share their token.
    goes_on(running, within_s=15)


def test_a_password_that_is_replaced_stops_the_query_and_the_next_start_has_the_new_one(
    there: Streams, log_ins: LogIns, mode: str, tmp_path: Path
) -> None:
    file = tmp_path / "password.properties"
    log_ins.set_password("the first one")
    file.write_text("password=the first one\n", encoding="utf-8")
    running = Running(there, log_ins.scram_by_file(file), mode)
    query = running.start()
    running.send()
    running.wait_complete(query)
    log_ins.set_password("the second one")
    assert "the first one" not in fails_to_log_in(running, query)
    file.write_text("password=the second one\n", encoding="utf-8")
    goes_on(running)


def test_a_query_outlives_its_brokers_certificate(
    there: Streams, log_ins: LogIns, mode: str
) -> None:
    running = Running(there, log_ins.options("tls"), mode)
    query = running.start()
    running.send()
    running.wait_complete(query)
    former = log_ins.broker_key.pem.read_bytes()
    log_ins.authority.issue("broker")
    assert log_ins.broker_key.pem.read_bytes() != former
    log_ins.restart_broker()
    running.send()
    running.wait_complete(query)
    query.stop()
    assert running.is_complete()


def test_a_certificate_that_ends_stops_the_query_and_the_next_start_has_the_new_one(
    there: Streams, log_ins: LogIns, mode: str, tmp_path: Path
) -> None:
    file = tmp_path / "client.pem"
    soon = datetime.now(timezone.utc) + timedelta(seconds=20)
    shutil.copy(log_ins.authority.issue("short", ends=soon).pem, file)
    options = log_ins.options("mutual-pem", **{"ssl.keystore.location": str(file)})
    running = Running(there, options, mode)
    query = running.start()
    running.send()
    running.wait_complete(query)
    # In time, but the clients that run have read the former one.
    shutil.copy(log_ins.authority.issue("short").pem, file)
    until(lambda: datetime.now(timezone.utc) > soon, "the certificate's end", 30)
    # Connections that are there stay.
    running.send()
    running.wait_complete(query)
    log_ins.restart_broker()
    fails_to_log_in(running, query)
    goes_on(running)


@pytest.mark.parametrize("kind", ["plain-file", "oauth", "mutual-jks"])
def test_executors_log_in(
    log_ins: LogIns, start_application: StartApplication, tmp_path: Path, kind: str
) -> None:
    allowed = f"-Dorg.apache.kafka.{ALLOWED_URLS}={log_ins.tokens.url}"
    application = start_application(
        "local-cluster[2,1,1024]",
        spark_driver_defaultJavaOptions=allowed,
        spark_executor_defaultJavaOptions=allowed,
    )
    options = log_ins.options(kind)
    # In task scope and in epoch scope.
    for transform in ("exclaim", "repartitioned"):
        flow = Flow(log_ins.cluster.bootstrap_servers, tmp_path / transform)
        flow.produce(100)
        flow.start(application, transform=transform, sink=options, **options).wait_done()
        flow.assert_exactly_once()
    texts = [log.read_text("utf-8", errors="replace") for log in application.logs()]
    assert any("ProducerConfig values" in text for text in texts)
    assert [s for s in log_ins.secrets() for text in texts if s in text] == []
