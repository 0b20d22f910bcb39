"""Brokers that answer a commit before the group has its offsets: Kafka 3.9.0 (KAFKA-17507)."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from eoskafka.cluster import LocalCluster
from eoskafka.cluster.local import free_ports
from harness import Flow, StartApplication, maven, until
from harness.flow import end_one

RELEASE = "3.9.0"
# The group coordinator takes offsets over on this thread, on which it also loads partitions of
# __consumer_offsets.
THREAD = re.compile(r"\)(\d+) +group-metadata-manager-0\b")
RECORDS = 20
# For a batch that does not wait although it should.
TOO_EARLY_S = 8

pytestmark = pytest.mark.slow


class Debugger:
    """Holds up the coordinator's thread, as the load of a large partition does."""

    def __init__(self, port: int) -> None:
        self._port = port

    @contextmanager
    def held(self) -> Iterator[None]:
        """The thread does nothing while the block runs."""
        jdb = subprocess.Popen(
            ["jdb", "-attach", f"127.0.0.1:{self._port}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert jdb.stdin is not None
        assert jdb.stdout is not None
        try:
            jdb.stdin.write("threads\n")
            found = None
            while found is None:
                line = jdb.stdout.readline()
                assert line, "jdb has ended"
                found = THREAD.search(line)
            jdb.stdin.write(f"suspend {found[1]}\nwhere {found[1]}\n")
            while "(native method)" not in line:
                line = jdb.stdout.readline()
                assert line, "jdb has ended"
            yield
        finally:
            # The debugger's end lets the thread go on.
            jdb.communicate("exit\n", timeout=20)


@pytest.fixture(scope="module")
def port() -> int:
    (free,) = free_ports(1)
    return free


@pytest.fixture(scope="module")
def broker(port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One whose JVM takes a debugger."""
    agent = f"-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=127.0.0.1:{port}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", agent)
        cluster = LocalCluster(
            data_dir=tmp_path_factory.mktemp("broker"), jars=maven.kafka_jars(RELEASE)
        )
        started = cluster.__enter__()
    try:
        yield started
    finally:
        cluster.__exit__(None, None, None)


@pytest.fixture
def flow(broker: LocalCluster, tmp_path: Path, keep_logs: list[Path]) -> Flow:
    keep_logs += [each.log_file for each in broker.brokers]
    return Flow(broker.bootstrap_servers, tmp_path / "checkpoint")


def test_a_task_does_not_send_offsets_that_the_group_would_take_for_the_last_ones(
    port: int, flow: Flow, start_application: StartApplication
) -> None:
    how: dict[str, Any] = {"slots": 1}
    first = start_application("local[2]")
    flow.produce(RECORDS)
    flow.start(first, interval="100 milliseconds", **how)
    flow.wait_committed()
    with Debugger(port).held():
        # Committed, and the group has not got its offset.
        flow.produce(RECORDS, partitions=[0])
        until(lambda: len(flow.outputs()) == 2 * RECORDS, "the next batch", 30, first.tail)
        assert flow.committed() != flow.ends()
        # Another partition of the same slot, and so of the same producer.
        flow.produce(RECORDS, partitions=[1])
        first.faults.arm("after-offsets", "stop")
        with suppress(TimeoutError):
            first.faults.wait_taken("after-offsets", TOO_EARLY_S)
    first.faults.wait_taken("after-offsets")
    until(lambda: flow.committed()[0] == flow.ends()[0], "the offset of the last batch", 20)
    first.kill()
    flow.start(start_application("local[2]"), **how).wait_done()
    flow.assert_exactly_once()


@pytest.mark.parametrize("is_of_former_run", [False, True])
def test_an_epoch_does_not_send_offsets_that_the_group_would_take_for_the_last_ones(
    port: int, flow: Flow, start_application: StartApplication, is_of_former_run: bool
) -> None:
    how: dict[str, Any] = {"transform": "repartitioned"}
    running = {**how, "interval": "100 milliseconds"}
    application = start_application("local[2]")
    flow.produce(RECORDS)
    query = flow.start(application, **running)
    flow.wait_committed()
    if is_of_former_run:
        application.faults.arm("before-decision", "kill")
        flow.produce(RECORDS)
        application.faults.wait_taken("before-decision")
        application.kill()
        application = start_application("local[2]")
    with Debugger(port).held():
        if is_of_former_run:
            query = flow.start(application, **running)
        else:
            flow.produce(RECORDS)
        until(lambda: len(flow.outputs()) == 2 * RECORDS, "the epoch", 30, application.tail)
        flow.produce(RECORDS)
        application.faults.arm("before-decision", "stop")
        with suppress(TimeoutError):
            application.faults.wait_taken("before-decision", TOO_EARLY_S)
            # The decision is given up after it has sent its offsets.
            end_one(flow)
            application.resume()
            query.wait_end()
    if query.status().active:
        application.faults.wait_taken("before-decision")
        end_one(flow)
        application.resume()
    assert "[EOSKAFKA_PREPARED_GONE]" in str(query.wait_end().error)
    application.kill()
    flow.start(start_application("local[2]"), **how).wait_done()
    flow.assert_exactly_once()
