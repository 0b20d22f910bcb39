"""Dead letters under crashes: one of a hundred records is wrong, and executors and drivers die."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from eoskafka.audit import read_committed
from harness import Application, Flow, Point, StartApplication
from harness.transforms import TOPICS
from harness.versions import needs_real_time
from kafka.admin import NewTopic
from streams import command

OF_TASKS: list[Point] = ["before-flush", "after-flush", "after-offsets", "after-commit"]
OF_WRITERS: list[Point] = ["after-init", "before-flush", "after-flush"]
OF_DRIVERS: list[Point] = ["before-decision", "after-decision", "half-rolled-forward", "before-log"]
PER_BATCH = 500


class Kills(NamedTuple):
    """What a query is, and where its processes die: None for a driver that dies at any point."""

    transform: str
    executors: list[Point]
    drivers: list[Point | None]
    real_time: str | None = None


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(Kills("dead_letters", OF_TASKS, [None] * 3), id="task scope"),
        pytest.param(Kills("dead_letters_in_python", OF_WRITERS, [*OF_DRIVERS]), id="epoch scope"),
        pytest.param(
            Kills("dead_letters", OF_TASKS, [None] * 2, "5 seconds"),
            id="real time",
            marks=needs_real_time,
        ),
    ],
)
def test_nothing_is_lost_or_duplicated_in_either_topic_whoever_dies(
    flow: Flow,
    start_application: StartApplication,
    capsys: pytest.CaptureFixture[str],
    kills: Kills,
) -> None:
    dead = f"{flow.name}-dead"
    with flow.admin() as admin:
        admin.create_topics([NewTopic(dead, 2, 1)])
    how: dict[str, Any] = {"transform": kills.transform, "sink": {"topic": ""}}
    if not kills.real_time:
        how["maxOffsetsPerTrigger"] = PER_BATCH
    running: dict[str, Any] = {"interval": "0 seconds", "real_time": kills.real_time}

    def application() -> Application:
        return start_application("local-cluster[2,1,1024]", {TOPICS: f"{flow.output},{dead}"})

    for driver in kills.drivers:
        spark = application()
        flow.produce(2 * PER_BATCH)
        flow.start(spark, **how, **running)
        for point in kills.executors:
            spark.faults.arm(point, "kill")
            flow.produce(2 * PER_BATCH)
            spark.faults.wait_taken(point)
        flow.produce(2 * PER_BATCH)
        if driver is not None:
            spark.faults.arm(driver, "kill")
            spark.faults.wait_taken(driver)
        spark.kill()
    flow.start(application(), **how).wait_done()
    flow.assert_nothing_is_open()

    inputs = flow.inputs()
    wrong = [r for r in inputs if (r.value or b"").endswith(b"00")]
    assert len(inputs) == flow.produced
    assert len(wrong) == (flow.produced - 1) // 100
    letters = [*read_committed(flow.servers, dead)]
    assert sorted((r.key, r.value) for r in letters) == sorted((r.key, r.value) for r in wrong)
    right = sorted((r.value or b"") + b"!" for r in inputs if r not in wrong)
    assert sorted(r.value or b"" for r in flow.outputs()) == right
    assert flow.committed() == flow.ends()
    topics = ("--input", flow.input, "--output", flow.output, "--dead-letters", dead)
    servers = ("--group", flow.group, "--bootstrap-servers", flow.servers)
    code, out, err = command(capsys, "verify", *topics, *servers, "--by", "key", "--no-order")
    assert code == 0, out + err
    print(out)
