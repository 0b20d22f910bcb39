"""The campaign: each kind of fault once, and nothing to be seen of it in the output."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.campaign import Campaign
from faults.kinds import kinds
from faults.workloads import WORKLOADS, Workload

SEED = 1
LONG = (
    *("two brokers paused", "two brokers killed", "brokers restarted in turn"),
    *("disk full", "packets lost"),
)
TASK_SCOPE = WORKLOADS["task scope"]
# What the crash tests do one by one, each with the same verdict: an executor or a driver that is
# killed at a step of a commit, or is paused, or goes on when others have its work.
IN_OTHER_TESTS = (
    *("executor killed ", "driver killed ", "executor paused", "driver paused"),
    *("executor given up", "driver replaced"),
)
# What leaves brokers and clients with the same to do as other kinds (a coordinator that is killed,
# a broker that is paused), or as a test of its own.
ALIKE = (
    *("controller killed", "replies delayed"),
    *("driver killed", "END_TXN reply lost", "INIT_PRODUCER_ID reply lost"),
    "leader of the output cut off before-flush",
)
IN_SHORT = [
    kind
    for kind in kinds(TASK_SCOPE)
    if not kind.startswith(IN_OTHER_TESTS) and kind not in (*LONG, *ALIKE)
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("workload", "chosen"),
    [
        pytest.param(TASK_SCOPE, IN_SHORT, id="in short"),
        *(
            pytest.param(each, kinds(each), marks=pytest.mark.slow, id=each.name)
            for each in WORKLOADS.values()
        ),
    ],
)
def test_each_kind_of_fault_once_and_every_record_takes_effect_once(
    tmp_path: Path, keep_logs: list[Path], workload: Workload, chosen: list[str]
) -> None:
    try:
        with Campaign(tmp_path, workload, SEED) as campaign:
            campaign.run(chosen)
            report = campaign.finish()
    finally:
        keep_logs += [*tmp_path.glob("*.jsonl"), *tmp_path.glob("application-*/*.log")]
        keep_logs += tmp_path.glob("kafka/*/broker.log")
    assert [event.kind for event in report.events] == chosen
    assert report.findings == ()
    assert report.records > 0
    assert report.observations > 0
    for event in report.events:
        print(event)
    print(f"longest stall {report.longest_stall_s} s, {report.records} records")
