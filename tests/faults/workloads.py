"""`Workload`: what the query of a campaign does, and what must come out of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from eoskafka.audit import Record
from harness.flow import Flow
from harness.functions import OTHER
from harness.transforms import PARTNER, TOPICS


@dataclass(frozen=True)
class Workload:
    """One kind of query, from a topic to one topic or two.

    Attributes:
        name: in reports and journals.
        how: of `Flow.start`, without what depends on the flow.
        in_epoch_scope: whether the driver decides on its transactions, so that it can be killed at
            the steps of a decision.
        keeps_state: whether it keeps something of every record.
        in_order: whether the outputs of a key are in the order of their inputs.
        offsets_with_output: whether one transaction, or one decision, has outputs and offsets.
        second: what goes to the second topic: nothing, the same as to the first one, or the
            records that are no output, as dead letters.
        may_end_with: the query may end with an error that has this text, and is started again then.
            Empty: it may not end.
        of_pair: the number of the record of a pair (see `Feeder`) that its one output comes with,
            1 or 2; 0 where records have no partners.
    """

    name: str
    how: dict[str, Any] = field(default_factory=dict)
    in_epoch_scope: bool = False
    keeps_state: bool = False
    in_order: bool = True
    offsets_with_output: bool = True
    second: str = ""
    may_end_with: str = ""
    of_pair: int = 0

    def topics(self, flow: Flow) -> list[str]:
        """The output topics; the first one is the flow's."""
        return [flow.output, f"{flow.name}-{self.second}"] if self.second else [flow.output]

    def start(self, flow: Flow) -> dict[str, Any]:
        """The arguments of `Flow.start` that make this query, besides the addresses of brokers."""
        how = {"interval": "100 milliseconds", "sink": {}, **self.how}
        if self.second == _COPY:
            how["sink"] = {**how["sink"], OTHER: self.topics(flow)[1]}
        elif self.second == _DEAD:
            # The rows name their topics.
            how["sink"] = {**how["sink"], "topic": ""}
            how["conf"] = {TOPICS: ",".join(self.topics(flow))}
        return how

    def effective(self, inputs: Iterable[Record]) -> Iterator[Record]:
        """The inputs that have outputs; those of a partition come in their order."""
        seen: Counter[bytes] = Counter()
        for record in inputs:
            number = (record.value or b"").removesuffix(PARTNER.encode())
            seen[number] += 1
            if self.of_pair in (0, seen[number]):
                yield record

    def expected(self, record: Record) -> list[list[tuple[bytes, bytes]]]:
        """Key and value of the outputs of an effective input, by topic."""
        key, value = record.key or b"", (record.value or b"").removesuffix(PARTNER.encode())
        output = [(key, value + b"!")]
        if self.second == _COPY:
            return [output, output]
        if self.second == _DEAD:
            return [[], [(key, value)]] if value.endswith(b"00") else [output, []]
        return [output]


_COPY = "copy"
_DEAD = "dead"

# Batches of the real-time mode end under the faults as well.
_BATCH = "20 seconds"

# A pause is longer than half of it, and so a task ends before its planned end.
_SHORT_TRANSACTION = {"kafka.transaction.timeout.ms": "5000"}
# A broker is paused for longer, and so the client gives up a record that this broker must take. If
# that is a decision, the query ends.
_SHORT_DELIVERY = {"kafka.request.timeout.ms": "1500", "kafka.delivery.timeout.ms": "2500"}

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        # More slots than cores: Spark moves those that wait for an executor that is paused.
        Workload("task scope", {"slots": 4}),
        Workload("Python function", {"transform": "exclaim_in_pandas", "sink": _SHORT_TRANSACTION}),
        Workload(
            "epoch scope",
            {"transform": "repartitioned", "sink": _SHORT_DELIVERY},
            in_epoch_scope=True,
            may_end_with="TimeoutException: Expiring",
        ),
        Workload("real time", {"real_time": _BATCH}),
        Workload(
            "foreachBatch, two writes",
            {"form": "two_writes"},
            in_epoch_scope=True,
            offsets_with_output=False,
            second=_COPY,
        ),
        Workload(
            "deduplication",
            {"transform": "deduplicated"},
            in_epoch_scope=True,
            keeps_state=True,
            in_order=False,
            of_pair=1,
        ),
        Workload(
            "join of two streams",
            {"transform": "joined"},
            in_epoch_scope=True,
            keeps_state=True,
            in_order=False,
            of_pair=2,
        ),
        Workload(
            "aggregation",
            {"transform": "counted", "mode": "update"},
            in_epoch_scope=True,
            keeps_state=True,
            in_order=False,
            of_pair=2,
        ),
        Workload(
            "dead letters",
            {"transform": "dead_letters", "sink": {"commitIntervalMs": "20"}},
            second=_DEAD,
        ),
    )
}
