"""The short campaign: each kind of fault once, and nothing to be seen of it in the output."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.campaign import Campaign

SEED = 1


@pytest.mark.timeout(600)
def test_each_kind_of_fault_once_and_every_record_takes_effect_once(
    tmp_path: Path, keep_logs: list[Path]
) -> None:
    try:
        with Campaign(tmp_path, "exclaim", SEED) as campaign:
            campaign.run(list(Campaign.KINDS))
            report = campaign.finish()
    finally:
        keep_logs += [*tmp_path.glob("*.jsonl"), *tmp_path.glob("application-*/*.log")]
        keep_logs += tmp_path.glob("kafka/*/broker.log")
    assert [event.kind for event in report.events] == list(Campaign.KINDS)
    assert report.findings == ()
    assert report.records > 0
    for event in report.events:
        print(event)
    print(f"longest stall {report.longest_stall_s} s, {report.records} records")
