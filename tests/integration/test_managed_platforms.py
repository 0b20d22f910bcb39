"""As on managed platforms: checkpoints on no local disk, and sessions without the plugin.

The file system is `faults.volume`. It needs root, /dev/fuse and Debian's package fuse3.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eoskafka.cluster import LocalCluster
from faults.volume import Volume
from harness import Application, Flow, Point, StartApplication

pytestmark = pytest.mark.slow

RECORDS = 300
IN_BATCHES = {"maxOffsetsPerTrigger": 100}
KINDS: dict[str, dict[str, Any]] = {
    "task scope": {**IN_BATCHES},
    "epoch scope": {"transform": "grouped", "mode": "update", **IN_BATCHES},
    "foreachBatch": {"form": "foreach_batch", **IN_BATCHES},
}
POINTS: dict[str, Point] = {
    "task scope": "before-log",
    "epoch scope": "half-rolled-forward",
    "foreachBatch": "half-rolled-forward",
}


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    with Volume(tmp_path / "volume", sequential_only=True) as volume:
        yield volume


@pytest.fixture
def flow(cluster: LocalCluster, volume: Volume) -> Flow:
    return Flow(cluster.bootstrap_servers, volume.on / "checkpoint")


@pytest.mark.parametrize("kind", KINDS)
def test_a_volume_is_a_place_for_checkpoints(
    kind: str,
    start_application: StartApplication,
    local_application: Application,
    flow: Flow,
    volume: Volume,
) -> None:
    how = KINDS[kind]
    for _ in range(2):
        flow.produce(RECORDS)
        first = start_application("local[2]")
        flow.reach(first, POINTS[kind], "kill", **how)
        first.kill()
    flow.produce(RECORDS)
    flow.start(local_application, **how).wait_done()
    flow.assert_exactly_once()
    assert volume.refused() == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_may_have_another_scheme(
    kind: str,
    start_application: StartApplication,
    cluster: LocalCluster,
    tmp_path: Path,
) -> None:
    """As `dbfs:` has it: the path's scheme is no local one, and no other program knows the path."""
    behind = tmp_path / "behind"
    behind.mkdir()
    mounted = {"spark.hadoop.fs.viewfs.mounttable.default.link./checkpoints": behind.as_uri()}
    flow = Flow(cluster.bootstrap_servers, Path("viewfs:/checkpoints/query"))
    how = KINDS[kind]
    flow.produce(RECORDS)
    first = start_application("local[2]", mounted)
    flow.reach(first, POINTS[kind], "kill", **how)
    first.kill()
    flow.produce(RECORDS)
    flow.start(start_application("local[2]", mounted), **how).wait_done()
    flow.assert_exactly_once()
    assert (behind / "query" / "offsets").is_dir()


@pytest.mark.parametrize("kind", KINDS)
def test_without_the_plugin_a_query_is_exactly_once(
    kind: str, start_application: StartApplication, flow: Flow
) -> None:
    """As on compute of Databricks whose access mode is Standard."""
    how = KINDS[kind]
    flow.produce(RECORDS)
    first = start_application("local-cluster[1,2,1024]", spark_plugins="")
    flow.reach(first, POINTS[kind], "kill", **how)
    first.kill()
    flow.produce(RECORDS)
    again = start_application("local-cluster[1,2,1024]", spark_plugins="")
    flow.start(again, **how).wait_done()
    flow.assert_exactly_once()


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("call", "path"),
    [
        ("rename", "/offsets/1$"),
        ("rename", "/commits/1$"),
        ("rename", "/eoskafka-identity"),
        ("rename", "/eoskafka-sink"),
        ("rename", "/eoskafka-last-run"),
        ("write", r"/offsets/\.1\."),
        ("write", "eoskafka-topic-ids"),
        ("create", "eoskafka-sink"),
        ("rename", "/state/"),
    ],
)
def test_a_call_that_fails_before_or_after_its_effect_loses_nothing(
    call: str, path: str, done: bool, local_application: Application, flow: Flow, volume: Volume
) -> None:
    how = KINDS["epoch scope"]
    flow.produce(RECORDS)
    volume.fail(call, path, done=done)
    flow.start(local_application, **how).wait_end()
    assert len(volume.hits()) == 1
    flow.produce(RECORDS)
    flow.start(local_application, **how).wait_done()
    flow.assert_exactly_once()


@pytest.mark.parametrize("kind", KINDS)
def test_a_slow_file_system_delays_a_query_and_no_more(
    kind: str, local_application: Application, flow: Flow, volume: Volume
) -> None:
    flow.produce(RECORDS)
    volume.fail("rename", ".", times=12, error=0, delay_s=2.0)
    flow.start(local_application, **KINDS[kind]).wait_done()
    assert len(volume.hits()) == 12
    flow.assert_exactly_once()


def test_a_full_file_system_stops_a_query_and_loses_nothing(
    local_application: Application, flow: Flow, volume: Volume
) -> None:
    how = KINDS["task scope"]
    flow.produce(RECORDS)
    volume.fail("write", "eoskafka-topic-ids", times=10, error=errno.ENOSPC)
    ended = flow.start(local_application, **how).wait_end()
    assert "No space left on device" in str(ended.error)
    volume.fail("write", "nothing", times=0)
    flow.start(local_application, **how).wait_done()
    flow.assert_exactly_once()
