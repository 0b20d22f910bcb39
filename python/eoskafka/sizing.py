"""What a query costs the brokers, reckoned from what was measured (`costs.json`).

The costs of a batch have a part for each batch, one for each of its tasks, and one for each
partition that a task reads or writes to. `make costs` measures batches and fits these parts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from eoskafka.errors import ConfigurationError

Scope = Literal["task", "epoch"]
_DAY_S = 24 * 60 * 60


@dataclass(frozen=True)
class Workload:
    """One query, or several ones that are alike.

    Attributes:
        scope: the scope of its transactions.
        tasks: the tasks that write in a batch: the slots in task scope, the writers in epoch scope.
        input_partitions: the partitions that a batch reads.
        output_partitions: the partitions that each task writes to.
        batch_s: the time from the start of a batch to the start of the next one, in seconds; in
            real-time mode, the commit interval.
        queries: how many such queries there are.
    """

    scope: Scope
    tasks: int
    input_partitions: int
    output_partitions: int
    batch_s: float
    queries: int = 1


@dataclass(frozen=True)
class Load:
    """What queries cost the brokers.

    Attributes:
        transactions_per_s: how many begin and end.
        requests_per_s: that the connector sends, without those that fetch records, look for
            coordinators or leaders, or say that a member is alive.
        markers_per_s: control records in the output's partitions.
        transaction_log_bytes_per_s: written to Kafka's transaction log, by one replica.
        offsets_bytes_per_s: written to the topic of the group's offsets, by one replica.
        decision_bytes_per_s: written to the decision topic, by one replica; zero in task scope.
        transactional_ids: that the brokers know of one run, for seven days by default.
        producer_states: producers that each replica of the output's partitions remembers, summed
            over these, for a day by default.
    """

    transactions_per_s: float
    requests_per_s: float
    markers_per_s: float
    transaction_log_bytes_per_s: float
    offsets_bytes_per_s: float
    decision_bytes_per_s: float
    transactional_ids: int
    producer_states: int

    @property
    def bytes_per_day(self) -> float:
        """Written to the three topics by one replica, before they are compacted."""
        return _DAY_S * (
            self.transaction_log_bytes_per_s + self.offsets_bytes_per_s + self.decision_bytes_per_s
        )


def load_of(workload: Workload) -> Load:
    """What a workload costs the brokers.

    Raises:
        ConfigurationError: a number is not positive, or tasks have nothing to read.
    """
    _require_possible(workload)
    in_epochs = workload.scope == "epoch"
    per_s = workload.queries / workload.batch_s
    transactions = workload.tasks + in_epochs
    return Load(
        transactions_per_s=transactions * per_s,
        requests_per_s=_of_batch(workload, "requests") * per_s,
        markers_per_s=_of_batch(workload, "markers") * per_s,
        transaction_log_bytes_per_s=_of_batch(workload, "transactionLogBytes") * per_s,
        offsets_bytes_per_s=_of_batch(workload, "offsetsBytes") * per_s,
        decision_bytes_per_s=_of_batch(workload, "decisionBytes") * per_s,
        transactional_ids=workload.queries * transactions,
        producer_states=workload.queries * workload.tasks * workload.output_partitions,
    )


def _require_possible(workload: Workload) -> None:
    for name in ("tasks", "input_partitions", "output_partitions", "batch_s", "queries"):
        if getattr(workload, name) <= 0:
            raise ConfigurationError(f"{name} must be greater than 0")
    if workload.scope == "task" and workload.tasks > workload.input_partitions:
        raise ConfigurationError(
            f"in task scope each slot reads at least one partition: with "
            f"{workload.input_partitions} input partitions there are at most as many slots, not "
            f"{workload.tasks}"
        )


def _of_batch(workload: Workload, cost: str) -> float:
    parts: dict[str, float] = costs()["fits"][workload.scope][cost]
    written = workload.tasks * workload.output_partitions
    return max(
        0.0,
        parts["batch"]
        + parts["task"] * workload.tasks
        + parts["input"] * workload.input_partitions
        + parts["output"] * written,
    )


@cache
def costs() -> dict[str, Any]:
    """What `make costs` has written."""
    text = files("eoskafka").joinpath("costs.json").read_text(encoding="utf-8")
    found = json.loads(text)
    assert isinstance(found, dict)
    return found
