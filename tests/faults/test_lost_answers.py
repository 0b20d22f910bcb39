"""An answer is lost, or a request comes late: what is then known, and said."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eoskafka import jobs
from eoskafka.jobs import Outcome
from harness import Application, Flow, Query

from faults.cluster import FaultyCluster
from faults.proxy import Api

RECORDS = 100
SOON: dict[str, Any] = {"kafka.max.block.ms": "5000"}
# More than are asked until a producer gives up.
ALL = 1_000_000


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyCluster]:
    """One broker behind a proxy."""
    with FaultyCluster(tmp_path_factory.mktemp("faulty"), brokers=1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """One process, whose driver can be stopped."""
    with Application(tmp_path_factory.mktemp("application"), "local[2]") as application:
        yield application


@pytest.fixture
def flow(faulty: FaultyCluster, tmp_path: Path) -> Flow:
    """A query's topics, group and checkpoint."""
    return Flow(faulty.bootstrap_servers, tmp_path / "checkpoint")


def assert_unmoved(application: Application, flow: Flow, query: Query, how: dict[str, Any]) -> None:
    """The group is where it was, and the next run begins there."""
    assert flow.committed() == flow.ends()
    assert query.stop().error is None
    flow.start(application, **how).wait_done()
    flow.assert_exactly_once()


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({}, id="exclusive"),
        pytest.param({"ownership": "shared"}, marks=pytest.mark.slow, id="shared"),
        pytest.param(
            {"ownership": "shared", "kafka.group.protocol": "consumer"},
            marks=pytest.mark.slow,
            id="shared-consumer",
        ),
    ],
)
def test_a_commit_of_starts_that_comes_late_moves_no_offset_back(
    faulty: FaultyCluster,
    shared: Application,
    flow: Flow,
    keep_logs: list[Path],
    how: dict[str, Any],
) -> None:
    (proxy,) = faulty.proxies.values()
    flow.produce(RECORDS)
    often: dict[str, Any] = {"interval": "100 milliseconds", **how}
    with shared.lent(keep_logs) as application:
        starts = proxy.hold_request(Api.OFFSET_COMMIT)
        error = str(flow.start(application, **often).wait_end().error)
        assert "[EOSKAFKA_COMMIT_UNANSWERED]" in error, error
        assert flow.committed() == {}
        query = flow.start(application, **often)
        flow.wait_committed()
        proxy.deliver(starts)
        assert_unmoved(application, flow, query, how)


@pytest.mark.slow
def test_a_commit_of_an_epoch_that_comes_late_moves_no_offset_back(
    faulty: FaultyCluster, shared: Application, flow: Flow, keep_logs: list[Path]
) -> None:
    (proxy,) = faulty.proxies.values()
    how: dict[str, Any] = {"transform": "repartitioned"}
    flow.produce(RECORDS)
    with shared.lent(keep_logs) as application:
        assert flow.reach(application, "before-log", "fail", **how).wait_end().error
        # The epoch is decided, and Spark runs it again.
        epoch = proxy.hold_request(Api.OFFSET_COMMIT)
        error = str(flow.start(application, **how).wait_end().error)
        assert "[EOSKAFKA_COMMIT_UNANSWERED]" in error, error
        query = flow.start(application, interval="100 milliseconds", **how)
        flow.wait_committed()
        flow.produce(RECORDS)
        flow.wait_committed()
        proxy.deliver(epoch)
        assert_unmoved(application, flow, query, how)


@pytest.mark.slow
def test_a_decision_without_an_answer(
    faulty: FaultyCluster, shared: Application, flow: Flow, keep_logs: list[Path]
) -> None:
    (proxy,) = faulty.proxies.values()
    flow.produce(RECORDS)
    with shared.lent(keep_logs) as application:
        how: dict[str, Any] = {"transform": "repartitioned"}
        query = flow.reach(application, "before-decision", "stop", sink=SOON, **how)
        proxy.drop_reply(Api.END_TXN, ALL)
        application.resume()
        error = str(query.wait_end().error)
        proxy.mend()
        assert "[EOSKAFKA_DECISION_UNKNOWN]" in error, error
        assert "whether epoch 0 took effect" in error
        flow.start(application, **how).wait_done()
        flow.assert_exactly_once()


@pytest.mark.slow
def test_a_jobs_decision_without_an_answer(
    faulty: FaultyCluster, shared: Application, flow: Flow, keep_logs: list[Path]
) -> None:
    (proxy,) = faulty.proxies.values()
    options: dict[str, Any] = {
        "kafka.bootstrap.servers": flow.servers,
        "topic": flow.output,
        "transactionalIdPrefix": f"eoskafka-{flow.name}",
    }

    def write() -> None:
        with pytest.raises(RuntimeError):
            application.write(RECORDS, **options, **SOON)

    with shared.lent(keep_logs) as application:
        application.faults.arm("before-decision", "stop")
        writing = threading.Thread(target=write)
        writing.start()
        application.faults.wait_taken("before-decision")
        proxy.drop_reply(Api.END_TXN, ALL)
        application.resume()
        writing.join(90)
        proxy.mend()
        said = application.text()
    assert "[EOSKAFKA_JOB_UNSETTLED]" in said
    # What it says is to be done, with the name that it gives.
    (job,) = set(
        re.findall(r"EOSKAFKA_JOB_UNSETTLED] .* decision on the batch write '(\S+)' was made", said)
    )
    found = jobs.resolve(job, options)
    assert found.outcome in (Outcome.COMMITTED, Outcome.UNDECIDED)
    done = found.outcome is Outcome.COMMITTED
    assert sorted(int(record.value or b"") for record in flow.outputs()) == [
        *range(RECORDS if done else 0)
    ]
    flow.assert_nothing_is_open()
