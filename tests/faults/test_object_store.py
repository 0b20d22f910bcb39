"""A checkpoint in an object store: its driver is killed, and the store fails, is slow or is silent.

The store is moto's server, which speaks S3's protocol. It shows what the connector and Hadoop do
with its answers, and nothing of the consistency of Amazon's own service.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from eoskafka.bench.peers import peer_jars
from eoskafka.cli import app
from eoskafka.cluster import LocalCluster
from harness import Application, Flow, Query, StartApplication, until
from harness.application import applications
from harness.faults import Point
from harness.object_store import (
    ABORTABLE,
    CREDENTIALS,
    MANAGER,
    ObjectStore,
    key_of,
    location,
    settings,
)
from harness.versions import HAS_REAL_TIME, needs_built_in, needs_real_time

from faults.store_proxy import ALL, Fault, Kind, StoreProxy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

FEW = 20
# So that each start of a query has several batches.
PER_BATCH = 10
REACHED_S = 60
KILLS = 10
UNDONE = (Fault.BUSY, Fault.BROKEN)

SCOPES: dict[str, dict[str, Any]] = {
    "task": {},
    "epoch": {"transform": "repartitioned"},
    "foreachBatch": {"form": "foreach_batch"},
}
REAL_TIME: dict[str, Any] = {"real_time": "5 seconds"}
MANAGERS = {"renaming": {}, "abortable": {MANAGER: ABORTABLE}}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker, which does not fail."""
    with LocalCluster(brokers=1, data_dir=tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """The object store."""
    with ObjectStore(tmp_path_factory.mktemp("store")) as store:
        yield store


@pytest.fixture
def proxy(store: ObjectStore) -> Iterator[StoreProxy]:
    """The proxy in front of the object store."""
    with StoreProxy(store.port) as proxy:
        yield proxy


@pytest.fixture
def start_application(tmp_path: Path, keep_logs: list[Path]) -> Iterator[StartApplication]:
    """As the integration tests have it."""
    with applications(tmp_path, keep_logs) as start:
        yield start


_NAMES = itertools.count()


def new_flow(brokers: LocalCluster) -> Flow:
    """A query's topics and group, with its checkpoint in the store."""
    url = location(f"{os.getpid()}/query-{next(_NAMES)}")
    return Flow(brokers.bootstrap_servers, Path("nowhere"), url=url)


@pytest.mark.parametrize("manager", MANAGERS)
def test_queries_of_each_scope_start_stop_and_continue(
    brokers: LocalCluster, store: ObjectStore, start_application: StartApplication, manager: str
) -> None:
    given = {**settings(store.url), **MANAGERS[manager]}
    how = {**SCOPES, **({"real time": REAL_TIME} if HAS_REAL_TIME else {})}
    application = start_application("local[2]", given)
    flows = {}
    for scope, options in how.items():
        flows[scope] = new_flow(brokers)
        _run(application, flows[scope], options)
        _run(application, flows[scope], options)
    application.kill()
    application = start_application("local[2]", given)
    for scope, options in how.items():
        _run(application, flows[scope], options)
        flows[scope].assert_exactly_once()
        own = [key for key in store.objects(key_of(f"{flows[scope].url}/")) if "eosk" in key]
        assert any(key.endswith("/sources/0/eoskafka-identity.json") for key in own), own
        assert not any(".tmp" in key for key in own), "they are written in place"


def _run(application: Application, flow: Flow, options: dict[str, Any]) -> None:
    flow.produce(FEW)
    if "real_time" not in options:
        flow.start(application, maxOffsetsPerTrigger=PER_BATCH, **options).wait_done()
        return
    query = flow.start(application, **options)
    flow.wait_committed()
    query.stop()


# Where the driver is killed: at a point of its own, or while the store has a request of it.
_OF_TASKS: list[Point] = ["before-log", "after-commit", "after-offsets"]
_OF_EPOCHS: list[Point] = ["before-log", "after-decision", "before-decision"]


@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize("scope", SCOPES)
def test_drivers_that_are_killed(
    brokers: LocalCluster,
    store: ObjectStore,
    proxy: StoreProxy,
    start_application: StartApplication,
    scope: str,
    manager: str,
) -> None:
    """Ten times for each scope and manager: what the store has of a dead driver, it still does."""
    flow = new_flow(brokers)
    options = {"maxOffsetsPerTrigger": PER_BATCH, "interval": "0 seconds", **SCOPES[scope]}
    points = itertools.cycle(_OF_TASKS if scope == "task" else _OF_EPOCHS)
    writes = itertools.cycle([_write_of(manager, "offsets"), _write_of(manager, "commits")])
    for number in range(KILLS):
        flow.produce(FEW)
        application = start_application("local[2]", {**settings(proxy.url), **MANAGERS[manager]})
        if number % 2:
            point = next(points)
            application.faults.arm(point, "stop")
            flow.start(application, **options)
            application.faults.wait_taken(point)
            application.kill()
        else:
            rule = proxy.arm(Fault.HELD, *next(writes))
            flow.start(application, **options)
            assert rule.reached.wait(REACHED_S), application.tail()
            application.kill()
            rule.go_on.set()
            assert rule.done.wait(REACHED_S)
        print(f"{number + 1} drivers killed")
    application = start_application("local[2]", {**settings(proxy.url), **MANAGERS[manager]})
    flow.start(application, **{**options, "interval": None}).wait_done()
    flow.assert_exactly_once()


def _write_of(manager: str, folder: str) -> tuple[Kind, str]:
    """The request that puts a file of Spark's log in place."""
    return Kind.PUT if manager == "abortable" else Kind.COPY, rf"/{folder}/\d+$"


@pytest.mark.parametrize("scope", ["task", "epoch"])
def test_a_plan_of_a_dead_driver_that_arrives_after_the_next_drivers(
    brokers: LocalCluster,
    store: ObjectStore,
    proxy: StoreProxy,
    start_application: StartApplication,
    scope: str,
) -> None:
    """The group knows better; where the log is the truth, the query stops."""
    flow = new_flow(brokers)
    assert flow.url
    given = {**settings(proxy.url), **MANAGERS["abortable"]}
    flow.produce(FEW)
    rule = proxy.arm(Fault.HELD, Kind.PUT, "/offsets/0$")
    application = start_application("local[2]", given)
    flow.start(application, **SCOPES[scope])
    assert rule.reached.wait(REACHED_S), application.tail()
    application.kill()
    flow.produce(FEW)
    application = start_application("local[2]", given)
    flow.start(application, interval="once", **SCOPES[scope]).wait_done()
    flow.assert_exactly_once()
    plan = store.read(f"{key_of(flow.url)}/offsets/0")
    rule.go_on.set()
    assert rule.done.wait(REACHED_S)
    assert store.read(f"{key_of(flow.url)}/offsets/0") != plan
    error = flow.start(application, **SCOPES[scope]).wait_end().error
    assert scope == "task" or "[EOSKAFKA_DECISION_OTHER_PLAN]" in str(error), error
    flow.assert_exactly_once()
    store.write(f"{key_of(flow.url)}/offsets/0", plan)
    flow.produce(FEW)
    flow.start(application, **SCOPES[scope]).wait_done()
    flow.assert_exactly_once()


@dataclass(frozen=True)
class Case:
    """A fault of the store, in a query that has run before, or in a new one."""

    fault: Fault
    kind: Kind
    key: str
    count: int = ALL
    is_new: bool = False

    def __str__(self) -> str:
        return f"{self.fault.name} {self.kind.name} {self.key} x{min(self.count, 99)}"


def _cases(manager: str, scope: str) -> list[Case]:
    offsets = _write_of(manager, "offsets")
    commits = _write_of(manager, "commits")
    identity = (Kind.PUT, "eoskafka-identity")
    owner = (Kind.PUT, r"eoskafka-(sink|write-.*)\.json")
    return [
        Case(Fault.BUSY, *offsets, 1),
        Case(Fault.BUSY, *offsets),
        Case(Fault.BROKEN, *offsets),
        Case(Fault.RESET, *offsets, 1),
        Case(Fault.LOST, *offsets, 1),
        Case(Fault.LOST, *offsets),
        Case(Fault.SLOW, *offsets, 2),
        Case(Fault.BUSY, *commits),
        Case(Fault.LOST, *commits, 1),
        Case(Fault.LOST, *commits),
        Case(Fault.RESET, Kind.HEAD, r"/offsets/\d+$"),
        Case(Fault.BUSY, Kind.GET, r"eoskafka-identity"),
        Case(Fault.CUT, Kind.GET, r"/offsets/\d+$", 1),
        Case(Fault.CUT, Kind.GET, r"eoskafka-identity", 1),
        Case(Fault.CUT, Kind.GET, r"eoskafka-identity"),
        Case(Fault.LOST, *identity, is_new=True),
        Case(Fault.BUSY, *identity, is_new=True),
        Case(Fault.LOST, Kind.PUT, "/sources/0/0$", is_new=True),
        Case(Fault.BROKEN, Kind.PUT, "eoskafka-topic-ids", is_new=True),
        Case(Fault.LOST, Kind.PUT, "eoskafka-topic-ids", is_new=True),
        *(
            []
            if scope == "task"
            else [
                Case(Fault.LOST, *owner, is_new=True),
                Case(Fault.BROKEN, *owner, is_new=True),
                Case(Fault.LOST, Kind.PUT, "eoskafka-last-run"),
            ]
        ),
    ]


@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize("scope", SCOPES)
def test_requests_that_fail(
    brokers: LocalCluster,
    proxy: StoreProxy,
    start_application: StartApplication,
    scope: str,
    manager: str,
) -> None:
    """Twenty and more for each scope and manager."""
    application = start_application("local[2]", {**settings(proxy.url), **MANAGERS[manager]})
    options = {"maxOffsetsPerTrigger": PER_BATCH, **SCOPES[scope]}
    old = new_flow(brokers)
    old.produce(FEW)
    old.start(application, **options).wait_done()
    lost = _write_of(manager, "offsets")
    for case in _cases(manager, scope):
        flow = new_flow(brokers) if case.is_new else old
        flow.produce(FEW)
        rule = proxy.arm(case.fault, case.kind, case.key, case.count)
        error = flow.start(application, **options).wait_end(120).error
        proxy.mend()
        print(f"{case}: {rule.taken} taken; {str(error).splitlines()[0][:200]}")
        assert rule.taken, f"{case}: no such request was made"
        if manager == "abortable" and (case.kind, case.key) == lost and case.fault in UNDONE:
            # Spark's file manager says nothing, and the batch would run without a plan in the log.
            assert case.count == 1 or "[EOSKAFKA_BATCH_NOT_LOGGED]" in str(error), error
        flow.start(application, **options).wait_done()
        flow.assert_exactly_once()


_REAL_TIME_FAULTS: list[tuple[Fault, Kind | None, str, int]] = [
    # None: the request that puts a file of Spark's log in place.
    (Fault.BUSY, None, "offsets", ALL),
    (Fault.LOST, None, "offsets", 1),
    (Fault.LOST, None, "offsets", ALL),
    (Fault.BROKEN, None, "commits", ALL),
    (Fault.LOST, None, "commits", 1),
    (Fault.LOST, None, "commits", ALL),
    (Fault.SLOW, None, "offsets", 2),
    (Fault.CUT, Kind.GET, r"/offsets/\d+$", 1),
    (Fault.BUSY, Kind.GET, "eoskafka-identity", ALL),
    (Fault.HELD, None, "offsets", 1),
    (Fault.HELD, None, "commits", 1),
]


@needs_real_time
@pytest.mark.parametrize("manager", MANAGERS)
def test_real_time_mode_while_the_store_fails_and_drivers_are_killed(
    brokers: LocalCluster,
    store: ObjectStore,
    proxy: StoreProxy,
    start_application: StartApplication,
    manager: str,
) -> None:
    """Spark logs a batch after its output; the group says where the query is."""
    flow = new_flow(brokers)
    assert flow.url
    given = {**settings(proxy.url), **MANAGERS[manager]}
    application = start_application("local[2]", given)
    flow.produce(FEW)
    query = flow.start(application, **REAL_TIME)
    _wait_batch(query)
    query.stop()
    for fault, kind, key, count in _REAL_TIME_FAULTS:
        flow.produce(FEW)
        asked = (kind, key) if kind else _write_of(manager, key)
        rule = proxy.arm(fault, *asked, count)
        query = flow.start(application, **REAL_TIME)
        assert rule.reached.wait(REACHED_S), application.tail()
        flow.produce(FEW)
        if fault is Fault.HELD:
            application.kill()
            rule.go_on.set()
            assert rule.done.wait(REACHED_S)
            application = start_application("local[2]", given)
            error = "killed"
        else:
            _wait_batch(query)
            error = str(query.stop().error)
        proxy.mend()
        print(f"{fault.name} {key} x{min(count, 99)}: {rule.taken} taken; {error[:300]}")
        if manager == "abortable" and key == "offsets" and fault in UNDONE:
            # Spark has logged the end of a batch and, without a word, not its plan.
            refusal = flow.start(application, **REAL_TIME).wait_end().error
            assert "[EOSKAFKA_REAL_TIME_REFUSED]" in str(refusal)
            last = max(store.numbers(f"{key_of(flow.url)}/offsets/"))
            for number in store.numbers(f"{key_of(flow.url)}/commits/"):
                if number > last:
                    store.delete(f"{key_of(flow.url)}/commits/{number}")
        _run(application, flow, REAL_TIME)
        flow.assert_exactly_once()


def test_spark_refuses_the_temporary_file_of_a_first_batch_that_it_could_not_log(
    brokers: LocalCluster,
    store: ObjectStore,
    proxy: StoreProxy,
    start_application: StartApplication,
) -> None:
    flow = new_flow(brokers)
    assert flow.url
    flow.produce(FEW)
    application = start_application("local[2]", settings(proxy.url))
    proxy.arm(Fault.BUSY, *_write_of("renaming", "offsets"), ALL)
    assert "made by a test" in str(flow.start(application).wait_end().error)
    proxy.mend()
    refusal = flow.start(application).wait_end().error
    assert "[STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY]" in str(refusal)
    for key in store.objects(f"{key_of(flow.url)}/offsets/"):
        store.delete(key)
    flow.start(application).wait_done()
    flow.assert_exactly_once()


def _wait_batch(query: Query) -> None:
    """Until its first batch is done, or it has failed."""

    def is_over() -> bool:
        status = query.status()
        return status.batches > 0 or not status.active

    until(is_over, "the end of a batch", REACHED_S, query.application.tail)


@needs_built_in
def test_commands_and_a_takeover_of_the_built_in_connectors_checkpoint(
    brokers: LocalCluster,
    store: ObjectStore,
    start_application: StartApplication,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": store.url}.items():
        monkeypatch.setenv(name, value)
    given = settings(store.url)
    given["spark.jars"] = ",".join([given["spark.jars"], *map(str, peer_jars())])
    application = start_application("local[2]", given)
    flow = new_flow(brokers)
    assert flow.url
    there = ["--bootstrap-servers", flow.servers]
    flow.produce(FEW)
    built_in: dict[str, Any] = {
        "origin": "kafka",
        "form": "kafka",
        "kafka.bootstrap.servers": flow.servers,
        "subscribe": flow.input,
        "startingOffsets": "earliest",
    }
    flow.start(application, **built_in).wait_done()
    adopt = ["offsets", "adopt", flow.url, "--group", flow.group, *there]
    assert _command(adopt) == 0, capfd.readouterr()
    flow.produce(FEW)
    flow.start(application, transform="repartitioned").wait_done()
    flow.assert_exactly_once()
    assert _command(adopt) == 0, capfd.readouterr()
    assert _command(["offsets", "show", "--group", flow.group, *there]) == 0, capfd.readouterr()
    proof = ["verify", "--output", flow.output, "--by", "key", *there]
    assert _command([*proof, "--checkpoint", flow.url]) == 0, capfd.readouterr()
    resolve = ["txn", "resolve", *there, "--checkpoint"]
    assert _command([*resolve, flow.url]) != 0
    assert "Copy the whole checkpoint to a folder" in " ".join(capfd.readouterr().err.split())
    for key in store.objects(f"{key_of(flow.url)}/"):
        if not key.endswith("/"):
            copy = tmp_path / "copy" / key.removeprefix(key_of(flow.url)).strip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(store.read(key))
    assert _command([*resolve, str(tmp_path / "copy")]) == 0, capfd.readouterr()
    # What was deleted in the store is missed.
    store.delete(f"{key_of(flow.url)}/sources/0/eoskafka-identity.json")
    assert _command([*proof, "--checkpoint", flow.url]) == 2
    assert "is no checkpoint of a query" in capfd.readouterr().err
    # Nobody listens there.
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert _command([*proof, "--checkpoint", flow.url]) != 0
    assert "see docs/object-stores.md" in " ".join(capfd.readouterr().err.split())


def _command(words: list[str]) -> int:
    try:
        return app.run(words)
    except SystemExit as ended:
        return int(ended.code or 0)
