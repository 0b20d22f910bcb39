"""The campaign: each kind of fault once, and nothing to be seen of it in the output."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.campaign import REAL_TIME, Campaign

SEED = 1
LONG = (
    *("two brokers paused", "two brokers killed", "brokers restarted in turn"),
    *("disk full", "packets lost"),
)
# Without an executor's end at each step of a commit: test_task_scope_crashes.py has those.
IN_SHORT = [
    kind
    for kind in Campaign.kinds("exclaim")
    if not kind.startswith("executor killed ") and kind not in LONG
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("transform", "kinds"),
    [
        pytest.param("exclaim", IN_SHORT, id="in short"),
        *(
            pytest.param(each, Campaign.kinds(each), marks=pytest.mark.slow, id=each)
            for each in ("exclaim", "repartitioned", REAL_TIME)
        ),
    ],
)
def test_each_kind_of_fault_once_and_every_record_takes_effect_once(
    tmp_path: Path, keep_logs: list[Path], transform: str, kinds: list[str]
) -> None:
    try:
        with Campaign(tmp_path, transform, SEED) as campaign:
            campaign.run(kinds)
            report = campaign.finish()
    finally:
        keep_logs += [*tmp_path.glob("*.jsonl"), *tmp_path.glob("application-*/*.log")]
        keep_logs += tmp_path.glob("kafka/*/broker.log")
    assert [event.kind for event in report.events] == kinds
    assert report.findings == ()
    assert report.records > 0
    for event in report.events:
        print(event)
    print(f"longest stall {report.longest_stall_s} s, {report.records} records")
