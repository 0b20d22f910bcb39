"""Begin waits for the former transaction, and not for longer than it may (KIP-609)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Application, until

from faults.registration import HeldUp, held_up


@pytest.fixture
def held(tmp_path: Path, keep_logs: list[Path]) -> Iterator[HeldUp]:
    """Brokers of this test alone, and the query's topics."""
    with held_up(tmp_path) as held:
        keep_logs += [broker.log_file for broker in held.cluster.brokers.values()]
        yield held


@pytest.fixture
def application(tmp_path: Path, keep_logs: list[Path]) -> Iterator[Application]:
    """With one executor, where the first failure of a task is the query's."""
    folder = tmp_path / "application"
    folder.mkdir()
    settings = {"spark.task.maxFailures": "1"}
    with Application(folder, "local-cluster[1,1,1024]", settings) as application:
        yield application
        keep_logs += application.logs()


@pytest.mark.slow
def test_begin_waits_for_a_former_transaction_whose_markers_are_held_up(
    held: HeldUp, application: Application
) -> None:
    query = held.hold(application, registered=True)
    until(lambda: held.refused() > 3, "a transaction that waits", 30)
    held.leader.resume()
    query.wait_done()
    held.flow.assert_exactly_once()


@pytest.mark.slow
def test_begin_waits_no_longer_than_it_may_and_says_for_what(
    held: HeldUp, application: Application
) -> None:
    query = held.hold(application, registered=True, **{"kafka.max.block.ms": "8000"})
    error = query.wait_end().error
    assert error is not None
    assert "[EOSKAFKA_FORMER_TRANSACTION_OPEN]" in error
    assert "within 8000 ms (CONCURRENT_TRANSACTIONS)" in error
    assert held.refused() > 0
    held.leader.resume()
    held.flow.start(application).wait_done()
    held.flow.assert_exactly_once()
