"""`eoskafka size`: what a query costs the brokers, reckoned from what was measured."""

from __future__ import annotations

import json
from typing import Any

import pytest
from eoskafka import ConfigurationError
from eoskafka.sizing import Load, Workload, costs, load_of
from typer.testing import CliRunner

COSTS = {
    "requests": "requests_per_s",
    "markers": "markers_per_s",
    "transactionLogBytes": "transaction_log_bytes_per_s",
    "offsetsBytes": "offsets_bytes_per_s",
    "decisionBytes": "decision_bytes_per_s",
}
# A query that commits each second.
WORKLOAD = Workload("task", 4, 8, 16, 1.0)


@pytest.mark.parametrize("case", costs()["cases"], ids=lambda case: json.dumps(case)[:80])
def test_what_was_measured_is_what_is_reckoned(case: dict[str, Any]) -> None:
    of_inputs = case["tasks"] * case["inputs"]
    found = load_of(Workload(case["scope"], case["tasks"], of_inputs, case["outputs"], 1.0))
    for cost, name in COSTS.items():
        away = abs(getattr(found, name) - case[cost]) / max(case[cost], 1)
        assert away <= 0.15, f"{cost}: {getattr(found, name):.1f}, measured {case[cost]:.1f}"


def test_costs_grow_with_batches_and_queries() -> None:
    one = load_of(WORKLOAD)
    twice = load_of(Workload("task", 4, 8, 16, 0.5))
    two = load_of(Workload("task", 4, 8, 16, 1.0, queries=2))
    for name in (*COSTS.values(), "transactions_per_s"):
        assert getattr(twice, name) == getattr(two, name) == 2 * getattr(one, name)
    assert (twice.transactional_ids, two.transactional_ids) == (4, 8)
    assert (one.producer_states, two.producer_states) == (64, 128)
    assert two.bytes_per_day == pytest.approx(2 * one.bytes_per_day)


def test_an_epoch_has_a_transaction_more_for_its_decision() -> None:
    found = load_of(Workload("epoch", 200, 8, 16, 10.0))
    assert (found.transactions_per_s, found.transactional_ids) == (20.1, 201)
    assert found.decision_bytes_per_s > 0
    assert load_of(WORKLOAD).decision_bytes_per_s == 0


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        (Workload("task", 9, 8, 16, 1.0), "at most as many slots, not 9"),
        (Workload("epoch", 1, 1, 1, 0.0), "batch_s must be greater than 0"),
        (Workload("epoch", 1, 1, 0, 1.0), "output_partitions must be greater than 0"),
    ],
)
def test_a_workload_that_cannot_be_is_refused(workload: Workload, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        load_of(workload)


def test_the_command_says_what_is_reckoned() -> None:
    from eoskafka.cli.app import app

    given = ["size", "--input-partitions=64", "--output-partitions=100", "--tasks=8"]
    given.append("--batch-seconds=2")
    said = CliRunner().invoke(app, [*given, "--format", "json"])
    assert said.exit_code == 0, said.output
    load = json.loads(said.stdout)["load"]
    assert Load(**load) == load_of(Workload("task", 8, 64, 100, 2.0))
    text = CliRunner().invoke(app, given).stdout
    assert "4.0/s" in text
    assert "transactional ids" in text
