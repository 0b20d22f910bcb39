"""Epoch scope where a broker dies, or its answer is lost, while the driver decides or commits.

Three brokers behind proxies. The driver stops at a point, the fault is made, and the driver goes
on: it has to finish by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from eoskafka.cluster import LocalCluster
from faults.cluster import FaultyCluster
from faults.proxy import Api
from harness import Application, Flow, Point, StartApplication
from harness.raw_requests import RawConnection

RECORDS = 600
STATELESS: dict[str, Any] = {"transform": "repartitioned", "maxOffsetsPerTrigger": 200}

SLOW = pytest.mark.slow


@pytest.fixture(scope="module")
def shared_faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyCluster]:
    """Three brokers; use `faulty`."""
    with FaultyCluster(tmp_path_factory.mktemp("faulty")) as cluster:
        yield cluster


@pytest.fixture
def faulty(shared_faulty: FaultyCluster, keep_logs: list[Path]) -> Iterator[FaultyCluster]:
    """Healthy, before and after."""
    keep_logs += [broker.log_file for broker in shared_faulty.brokers.values()]
    yield shared_faulty
    for proxy in shared_faulty.proxies.values():
        proxy.mend()
    for broker in shared_faulty.brokers.values():
        if broker.pid is None:
            broker.start()


@pytest.fixture
def flow(faulty: FaultyCluster, tmp_path: Path) -> Flow:
    return Flow(faulty.bootstrap_servers, tmp_path / "checkpoint", replicas=3)


@pytest.fixture
def application(local_application: Application) -> Application:
    return local_application


@SLOW
@pytest.mark.parametrize("point", ["before-decision", "after-decision"])
def test_the_coordinator_dies(
    application: Application, flow: Flow, faulty: FaultyCluster, point: Point
) -> None:
    flow.produce(RECORDS)
    query = flow.reach(application, point, "stop", **STATELESS)
    name = flow.decision_id() if point == "before-decision" else flow.open_transactions()[0]
    faulty.brokers[faulty.transaction_coordinator(name)].kill()
    application.resume()
    query.wait_done()
    flow.assert_exactly_once()


@SLOW
@pytest.mark.parametrize("point", ["before-decision", "after-decision"])
def test_the_answer_to_the_end_of_a_transaction_is_lost(
    application: Application, flow: Flow, faulty: FaultyCluster, point: Point
) -> None:
    flow.produce(RECORDS)
    query = flow.reach(application, point, "stop", **STATELESS)
    name = flow.decision_id() if point == "before-decision" else flow.open_transactions()[0]
    proxy = faulty.proxies[faulty.transaction_coordinator(name)]
    lost = proxy.drop_reply(Api.END_TXN)
    application.resume()
    query.wait_done()
    assert lost.happened.is_set()
    flow.assert_exactly_once()


# ---- producer epochs

# After it a producer gets another id: when it is initialised, or when a transaction ends.
LAST_EPOCH = 32766


def initialise(port: int, transactional_id: str, until_epoch: int) -> None:
    """Let the coordinator count a transactional id's epoch up, by one request again and again."""
    with closing(RawConnection(port)) as connection:
        while connection.initialise(transactional_id) < until_epoch:
            pass


def producer_ids(flow: Flow, ids: list[str]) -> dict[str, int]:
    """Of each transactional id; another one after its epochs came to their end."""
    with flow.admin() as admin:
        return {name: t.producer_id for name, t in admin.describe_transactions(ids).items()}


@SLOW
@pytest.mark.timeout(600)
@pytest.mark.parametrize("last", [LAST_EPOCH - 1, LAST_EPOCH], ids=["at the end", "at the start"])
def test_a_producers_epochs_come_to_their_end(
    cluster: LocalCluster,
    start_application: StartApplication,
    application: Application,
    tmp_path: Path,
    last: int,
) -> None:
    flow = Flow(cluster.bootstrap_servers, tmp_path / "checkpoint")
    flow.produce(RECORDS)
    flow.start(application, **STATELESS).wait_done()
    used = flow.transactional_ids()
    # The second run's writers, and the producer that decides.
    ids = [re.sub(r"-w(\d+)\.", lambda run: f"-w{int(run[1]) + 1}.", name) for name in used]
    (broker,) = cluster.brokers
    with ThreadPoolExecutor(len(ids)) as pool:
        list(pool.map(lambda name: initialise(broker.port, name, last), ids))
    before = producer_ids(flow, ids)
    flow.produce(RECORDS)
    first = start_application("local[2]")
    flow.reach(first, "half-rolled-forward", "kill", **STATELESS)
    first.kill()
    flow.start(application, **STATELESS).wait_done()
    flow.produce(RECORDS)
    flow.start(application, **STATELESS).wait_done()
    flow.assert_exactly_once()
    after = producer_ids(flow, ids)
    assert all(after[name] != before[name] for name in ids), (before, after)


def test_a_start_fences_hundreds_of_writers_of_the_last_run(
    cluster: LocalCluster, application: Application, tmp_path: Path
) -> None:
    flow = Flow(cluster.bootstrap_servers, tmp_path / "checkpoint")
    flow.produce(RECORDS)
    flow.start(application, **STATELESS).wait_done()
    writer = max(name for name in flow.transactional_ids() if re.search(r"-w\d+\.", name))
    more = [f"{writer.rpartition('.')[0]}.{number}" for number in range(100, 300)]
    (broker,) = cluster.brokers
    for name in more:
        initialise(broker.port, name, 0)
    flow.produce(RECORDS)
    # With one request after the other, and the client's pause after each, they take 50 s.
    timeouts = {"kafka.default.api.timeout.ms": "15000", "kafka.request.timeout.ms": "15000"}
    flow.start(application, sink=timeouts, **STATELESS).wait_done()
    flow.assert_exactly_once()
    with flow.admin() as admin:
        found = admin.describe_transactions(more)
    assert {each.producer_epoch for each in found.values()} == {1}
