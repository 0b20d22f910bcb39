"""How `eoskafka verify` shows its verdict, and how far it is until then."""

from __future__ import annotations

import sys

from rich import progress as bars

from eoskafka.audit import Verdict
from eoskafka.cli.output import messages


def lines_of(verdict: Verdict, order: bool) -> list[str]:
    """A verdict in words; `order` says whether the order within keys was checked."""
    lines = [str(example) for example in verdict.examples]
    if verdict.optional:
        lines.append(
            f"{verdict.optional:,} further input records may or may not be in the output: they are "
            "after the group's offsets, or before --input-from"
        )
    if order:
        lines.append(
            f"the order within keys was checked for {verdict.ordered:,} records: those with an id "
            "of their own and the same key in input and output"
        )
    number_of = {fault.value: number for fault, number in verdict.faults.items()}
    none_fits = (number_of["lost"], number_of["unexpected"]) == (verdict.inputs, verdict.outputs)
    if none_fits and verdict.inputs and verdict.outputs:
        lines.append(
            "input and output have no record in common: if the query changes what identifies a "
            "record, use --by key, --id-field or --expected"
        )
    faults = ", ".join(f"{number:,} {fault}" for fault, number in number_of.items())
    inputs = f"{verdict.inputs:,} in"
    if verdict.optional:
        inputs = f"{verdict.inputs + verdict.optional:,} in, of which {verdict.inputs:,} had to be"
        inputs += " out"
    letters = f"{verdict.dead_letters:,} dead letters, " if verdict.dead_letters else ""
    counts = f"{inputs}, {verdict.outputs:,} out, {letters}{faults}"
    if verdict.holds:
        return [*lines, f"exactly once: {counts}"]
    if verdict.is_exactly_once:
        return [*lines, f"each record once, but NOT in order within its key: {counts}"]
    return [*lines, f"NOT exactly once: {counts}"]


class Bar:
    """Shows on standard error how far it is; nothing into a pipe."""

    def __init__(self) -> None:
        self._progress = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeRemainingColumn(),
            console=messages,
            transient=True,
            # Not messages.is_terminal, which FORCE_COLOR makes true.
            disable=not sys.stderr.isatty(),
        )
        self._task = self._progress.add_task("connecting", total=None)

    def begins(self, what: str, records: int) -> None:
        self._progress.update(self._task, description=what, total=records, completed=0)

    def read(self, records: int) -> None:
        self._progress.advance(self._task, records)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
