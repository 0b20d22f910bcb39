"""What the demo's output should be, and the verdict on what it is.

The transformation is written a second time here, from its description: an audit that called the
job's own function would agree with every mistake in it.
"""

from __future__ import annotations

from dataclasses import dataclass

from eoskafka.audit import Fault, Record, Report, compare, read_committed
from eoskafka.bench.peers import EOSKAFKA
from eoskafka.demo.follow import State
from eoskafka.demo.killer import DRIVER_KILLS, EXECUTOR_KILLS, Kill

LEAST_BATCHES = 20


@dataclass(frozen=True)
class Outcome:
    """All that the demo has to say of a connector at its end."""

    report: Report
    kills: tuple[Kill, ...]
    batches: int
    seconds: float
    seed: int
    connector: str = EOSKAFKA.name
    history: tuple[State, ...] = ()

    @property
    def shortcomings(self) -> list[str]:
        """Why the demo shows less than it should although every record may be right."""
        drivers = sum(kill.victim == "driver" for kill in self.kills)
        found = []
        if drivers < DRIVER_KILLS or len(self.kills) < DRIVER_KILLS + EXECUTOR_KILLS:
            found.append(
                f"{len(self.kills)} kills, {drivers} of them the driver's, where "
                f"{DRIVER_KILLS + EXECUTOR_KILLS} and {DRIVER_KILLS} were planned"
            )
        if self.batches < LEAST_BATCHES:
            found.append(f"{self.batches} batches where at least {LEAST_BATCHES} were planned")
        return found

    @property
    def holds(self) -> bool:
        """True if every record came out exactly once under all the kills that were planned."""
        return self.report.is_exactly_once and not self.shortcomings

    @property
    def verdict(self) -> str:
        """One line."""
        counts = [f"{self.report.inputs} in", f"{self.report.outputs} out"]
        counts += [
            f"{count} {fault.value}"
            for fault, count in self.report.faults.items()
            if count or fault in (Fault.LOST, Fault.DUPLICATED)
        ]
        counts.append(f"{len(self.kills)} kills")
        if self.holds:
            return f"exactly once: {', '.join(counts)}"
        found = "NOT exactly once" if not self.report.is_exactly_once else "not shown"
        return f"{found}: {', '.join(counts)}"


def audit(bootstrap_servers: str, input_topic: str, output_topic: str) -> Report:
    """Read both topics and compare them; UndecidedError if that cannot be done."""
    return compare(
        read_committed(bootstrap_servers, input_topic),
        read_committed(bootstrap_servers, output_topic),
        expected_value,
    )


def expected_value(record: Record) -> bytes:
    """Length in characters, a colon, and the characters in capitals, last one first."""
    characters = list((record.value or b"").decode("utf-8"))
    capitals = "".join(characters).upper()
    return b"%d:%s" % (len(characters), "".join(reversed(capitals)).encode("utf-8"))
