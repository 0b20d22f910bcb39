"""Declarative pipelines: the sample project in notebooks/pipeline, run by `spark-pipelines`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from eoskafka.audit import Record, compare
from harness import Flow
from harness.connect import ConnectServer
from harness.faults import Point
from harness.pipelines import Pipeline
from harness.versions import needs_pipelines

pytestmark = [pytest.mark.slow, needs_pipelines]

RECORDS = 120
PER_BATCH = 40
SMALL_BATCHES = {"50_000": str(PER_BATCH)}
CAPITALS = '.alias("value"))'


def upper(record: Record) -> bytes | None:
    """The value that the sample makes."""
    return None if record.value is None else record.value.upper()


def assert_exactly_once(flow: Flow) -> None:
    """Every input record is in the output once, and the group's offsets are the input's ends."""
    flow.assert_nothing_is_open()
    inputs = flow.inputs()
    assert len(inputs) == flow.produced
    report = compare(inputs, flow.outputs(), upper)
    assert report.is_exactly_once, report.faults
    assert flow.committed() == flow.ends()


def scopes(flow: Flow) -> set[str]:
    """By the stamps of the group's offsets."""
    with flow.admin() as admin:
        offsets = admin.list_group_offsets([flow.group])[flow.group]
    return {offset.metadata.split(":")[2] for offset in offsets.values()}


def table_of(flow: Flow) -> list[tuple[str, str]]:
    """What the sample's table must have."""
    return sorted((r.key.decode(), r.value.decode()) for r in flow.inputs() if r.key and r.value)


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    ("changes", "scope", "points"),
    [
        pytest.param({}, "t", ("after-offsets", "after-commit", "before-flush"), id="task scope"),
        pytest.param(
            {CAPITALS: f"{CAPITALS}.repartition(2)"},
            "e",
            ("before-decision", "after-decision", "half-rolled-forward"),
            id="epoch scope",
        ),
    ],
)
def test_a_pipeline_killed_in_three_updates_writes_every_record_once(
    flow: Flow,
    tmp_path: Path,
    keep_logs: list[Path],
    changes: dict[str, str],
    scope: str,
    points: tuple[Point, ...],
) -> None:
    pipeline = Pipeline(tmp_path / "project", flow, {**SMALL_BATCHES, **changes})
    keep_logs.append(pipeline.log)
    flow.produce(RECORDS)
    for point in points:
        pipeline.kill_at(point)
    assert flow.committed() != flow.ends()
    for _ in range(2):
        assert pipeline.update() == ""
        assert_exactly_once(flow)
        assert pipeline.rows() == table_of(flow)
        flow.produce(RECORDS)
    assert scopes(flow) == {scope}


@pytest.mark.timeout(1500)
def test_a_full_refresh_is_refused_if_it_would_write_everything_again(
    flow: Flow, tmp_path: Path, keep_logs: list[Path]
) -> None:
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.pipelines.maxFlowRetryAttempts": "0",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
    }
    with ConnectServer(tmp_path, settings) as server:
        pipeline = Pipeline(tmp_path / "project", flow, SMALL_BATCHES, server.url)
        keep_logs += [server.log, pipeline.log]
        flow.produce(RECORDS)
        assert pipeline.update() == ""
        assert_exactly_once(flow)

        # As it is asked for, and in every update from then on.
        for arguments in (["--full-refresh-all"], []):
            assert "[EOSKAFKA_FULL_REFRESH]" in pipeline.update(*arguments)
        assert_exactly_once(flow)
        assert pipeline.rows(tmp_path / "warehouse") == table_of(flow)

        # The way back.
        flows = pipeline.checkpoints / "payments_clean" / "clean"
        shutil.move(flows / "1", tmp_path / "refused")
        flow.produce(RECORDS)
        assert pipeline.update() == ""
        assert_exactly_once(flow)
        assert pipeline.rows(tmp_path / "warehouse") == table_of(flow)

        # The way to a second copy of all records.
        pipeline.configure(group=f"{flow.group}-2")
        assert pipeline.update("--full-refresh-all") == ""
        assert len(flow.outputs()) == 2 * flow.produced
