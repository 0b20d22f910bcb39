"""Releases of Kafka's brokers: after a kill -9 of the driver each record is there once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eoskafka import doctor
from eoskafka.cluster import LocalCluster
from eoskafka.cluster.jars import KAFKA_VERSION
from eoskafka.doctor import Level
from harness import Flow, Point, StartApplication, maven
from harness.strangers import stranger

RECORDS = 2_000
PER_BATCH = 500
SCOPES: dict[str, tuple[Point, dict[str, object]]] = {
    # Dies with its transaction open, and with a decision made of which nothing is committed.
    "task": ("after-offsets", {"transform": "exclaim"}),
    "epoch": ("after-decision", {"transform": "repartitioned"}),
}
# Kafka's release, and the levels of transaction.version that it knows.
RELEASES = [
    ("3.0.2", None),
    ("3.3.2", None),
    ("3.9.2", None),
    *((release, level) for release in ("4.0.2", KAFKA_VERSION, "4.4.0") for level in (1, 2)),
]
# Others to try, with commas between them.
if chosen := os.environ.get("KAFKA_RELEASES"):
    RELEASES = [(release, None) for release in chosen.split(",")]

pytestmark = pytest.mark.slow


def name(release: tuple[str, int | None]) -> str:
    version, level = release
    return version if level is None else f"{version}-transaction.version-{level}"


@pytest.fixture(scope="module", params=RELEASES, ids=name)
def brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    """One broker of a release."""
    version, level = request.param
    with LocalCluster(
        data_dir=tmp_path_factory.mktemp("brokers"),
        # Kafka 3.0 has no default for the controller's listener.
        properties={"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"},
        features={} if level is None else {"transaction.version": level},
        jars=None if version == KAFKA_VERSION else maven.kafka_jars(version),
    ) as cluster:
        yield cluster


@pytest.mark.parametrize("scope", SCOPES)
def test_a_query_killed_in_the_middle_leaves_each_record_once(
    brokers: LocalCluster,
    start_application: StartApplication,
    tmp_path: Path,
    keep_logs: list[Path],
    scope: str,
) -> None:
    looked_at = doctor.cluster(brokers.bootstrap_servers)
    assert [each for each in looked_at if each.level is Level.PROBLEM] == []
    keep_logs += [broker.log_file for broker in brokers.brokers]
    flow = Flow(brokers.bootstrap_servers, tmp_path / "checkpoint")
    point, plan = SCOPES[scope]
    how: dict[str, Any] = {
        **plan,
        "sink": {"transactionScope": scope},
        "maxOffsetsPerTrigger": PER_BATCH,
    }
    flow.produce(RECORDS)
    first = start_application("local[2]")
    flow.reach(first, point, "kill", **how)
    first.kill()
    second = start_application("local[2]")
    flow.start(second, **how).wait_done()
    flow.assert_exactly_once()


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_a_group_that_has_another_member_is_refused(
    brokers: LocalCluster,
    start_application: StartApplication,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    kind: str,
) -> None:
    version, _ = request.node.callspec.params["brokers"]
    if kind == "consumer" and version.startswith("3."):
        pytest.skip("KIP-848 came with Kafka 4.0")
    flow = Flow(brokers.bootstrap_servers, tmp_path / "checkpoint")
    flow.produce(RECORDS)
    with stranger(kind, flow.servers, flow.input, flow.group, tmp_path / "log") as other:
        other.wait_given()
        error = flow.start(start_application("local[2]")).wait_end().error
        # The second where its client has not committed yet.
        assert re.search(r"\[EOSKAFKA_(OFFSET_WITHOUT_STAMP|FOREIGN_MEMBER)\]", str(error)), error
        assert f"consumer-{flow.group}" in str(error)
        assert other.partitions() == 2
    assert list(flow.outputs()) == []
