"""The report of `make chaos` says what happened, the bad above all."""

from __future__ import annotations

from typing import Any

from faults.chaos_report import report


def broker_paused(**took: float) -> dict[str, Any]:
    return {"kind": "broker paused", "target": "broker 1", "at_s": 1.0, **took}


def outcome(seed: int, **changed: Any) -> dict[str, Any]:
    return {
        "seed": seed,
        "workload": "task scope",
        "commit": "abc",
        "is_clean": True,
        "connector": "today",
        "observations": 10,
        "seconds": 100,
        "records": 1_000,
        "longest_stall_s": 7.5,
        "spark_start_s": 9.5,
        "events": [
            broker_paused(recovery_s=2.0, stall_s=2.5),
            broker_paused(recovery_s=4.0, stall_s=4.5),
        ],
        "findings": [],
        "error": "",
        **changed,
    }


def test_recovery_is_told_by_kind_of_fault() -> None:
    text = report([outcome(1), outcome(2)], "today")
    assert "| broker paused | 4 | 3.0 s | 2.0 s | 4.0 s | 3.5 s | 4.5 s |" in text
    assert "| records | 2,000 |" in text
    assert "On the present sources: 2 rounds, 2,000 records, 4 faults" in text
    assert "| longest stall of the reader | 7.5 s |" in text


def test_a_drivers_restart_is_told_beside_sparks_own_start() -> None:
    # Its tasks were still at work for a moment.
    killed = {"kind": "driver killed", "target": "it", "at_s": 1.0}
    killed |= {"recovery_s": 0.1, "stall_s": 21.0}
    text = report([outcome(1, events=[killed]), outcome(2, spark_start_s=None)], "today")
    assert "| Spark's own start, median of 1 | 9.5 s |" in text
    assert "| killed drivers' stall beyond it, median of 1 | 11.5 s |" in text


def test_an_anomaly_and_a_round_that_broke_are_told_with_their_seeds() -> None:
    wrong = [outcome(2, findings=["duplicate: x"]), outcome(3, error="broke")]
    text = report([outcome(1), *wrong], "today")
    assert "| anomalies | 1 |" in text
    assert "| rounds not finished | 1 |" in text
    assert "## Seed 2, task scope, commit abc\n\n```\nduplicate: x" in text
    assert "## Seed 3, task scope, commit abc\n\n```\nbroke" in text


def test_rounds_on_other_sources_are_counted_apart() -> None:
    text = report([outcome(1, connector="former", commit="old"), outcome(2)], "today")
    assert "| records | 2,000 |" in text
    assert "On the present sources: 1 rounds, 1,000 records, 2 faults" in text
    assert "| old | 1 | 1,000 | 2 | 10 | 0 | 0 |" in text
    assert "| abc | 1 | 1,000 | 2 | 10 | 0 | 0 |" in text
