"""`eoskafka demo`: kills a job again and again, and proves that each record took effect once."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from eoskafka.audit import UndecidedError
from eoskafka.bench.errors import BenchError
from eoskafka.bench.peers import BUILT_IN, EOSKAFKA, Peer, missing, peer_jars
from eoskafka.cli.output import (
    Exit,
    Format,
    OutputFormat,
    data,
    messages,
    print_json,
    print_table,
    require_plottable,
)
from eoskafka.demo import Outcome, Settings, State, run
from eoskafka.demo.records import FEWEST_RECORDS

_PICTURE = Path("demo-compare.png")
_RECORDS = 200_000
# Of two jobs, one after the other, which should also end within three minutes.
_RECORDS_EACH = 60_000
_COLUMNS = ("records in", "records out", "duplicates", "lost", "kills")
_LUCKY = (
    "it had no duplicate in this run. Nothing in it prevents them: another --seed may show some."
)


def demo(
    input_file: Annotated[
        Path | None,
        typer.Option(
            "--input",
            help="A text file, each line of which becomes an input record.",
            show_default="source files of the installed libraries",
            exists=True,
            dir_okay=False,
            readable=True,
        ),
    ] = None,
    records: Annotated[
        int | None,
        typer.Option(
            help="How many input records there are if --input is not given.",
            show_default=f"{_RECORDS}, or {_RECORDS_EACH} with --compare",
            min=FEWEST_RECORDS,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="A number that determines which processes are killed, and when. Give the number "
            "that an earlier run has printed to repeat its kills.",
            show_default="a random number",
        ),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="Keep the logs, the checkpoint and the topics. By default, they are deleted "
            "unless records were lost or duplicated.",
        ),
    ] = False,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="First run the same records and kills with Spark's built-in connector, and plot "
            "the duplicates of both. This needs a checkout, Maven and eoskafka[bench].",
        ),
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="With --compare, the file of the picture, .png or .svg.",
            show_default="demo-compare.png, with --compare",
            dir_okay=False,
        ),
    ] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Kill a job repeatedly, and check that each record took effect exactly once.

    The demo starts a Kafka broker, runs a Spark job that reads and writes Kafka, kills executors
    and the driver while their transactions are open, and compares the output with the input.

    With --compare, the exit code depends only on the result for eoskafka.
    """
    if plot is not None and not compare:
        raise typer.BadParameter("a picture is drawn only with --compare", param_hint="--plot")
    picture = (plot or _PICTURE) if compare else None
    if picture is not None:
        _require_comparable(picture)
    chosen = random.SystemRandom().randrange(10**6) if seed is None else seed
    messages.print(f"seed {chosen}: --seed {chosen} repeats these kills in this order")
    connectors = (BUILT_IN, EOSKAFKA) if compare else (EOSKAFKA,)
    count = records or (_RECORDS_EACH if compare else _RECORDS)
    try:
        with _Display(connectors) as display:
            outcomes = run(Settings(input_file, count, chosen, keep, connectors), display)
    except UndecidedError as error:
        messages.print(f"undecided: {error}", markup=False)
        raise typer.Exit(Exit.UNREACHABLE) from error
    ours = outcomes[-1]
    if output is Format.JSON:
        print_json(_both_as_json(outcomes) if compare else _as_json(ours))
    else:
        _print_text(outcomes)
    if picture is not None:
        from eoskafka.demo.picture import draw

        draw(_both_as_json(outcomes), picture)
        messages.print(f"the picture is in {picture}", markup=False)
    if not ours.holds:
        raise typer.Exit(Exit.REFUSED)


def _require_comparable(picture: Path) -> None:
    """Whatever a comparison needs besides a demo, before anything is started."""
    require_plottable(picture)
    if reason := missing():
        reason = (
            f"it runs one of the connectors of the benchmarks: {reason}. Run the command in a "
            "clone of the repository, on a machine that has Maven"
        )
    if reason is None and find_spec("matplotlib") is None:
        reason = "its picture needs matplotlib: pip install 'eoskafka[bench]'"
    if reason is None:
        messages.print("building the built-in connector's jars if they are missing ...")
        try:
            peer_jars()
        except BenchError as error:
            reason = str(error)
    if reason is not None:
        raise typer.BadParameter(reason, param_hint="--compare")


def _print_text(outcomes: Sequence[Outcome]) -> None:
    if len(outcomes) > 1:
        print_table(table({each.connector: each.history[-1] for each in outcomes}))
    for outcome in outcomes:
        name = f"{outcome.connector}: " if len(outcomes) > 1 else ""
        for line in [*outcome.report.findings, *outcome.shortcomings, outcome.verdict]:
            data.print(f"{name}{line}", markup=False)
        if outcome.connector == BUILT_IN.name and outcome.report.is_exactly_once:
            data.print(f"{name}{_LUCKY}", markup=False)


def table(states: Mapping[str, State]) -> Table:
    """A row for each connector. What is not known yet is a hyphen."""
    found = Table("", *_COLUMNS)
    for column in found.columns[1:]:
        column.justify = "right"
    for name, state in states.items():
        found.add_row(name, *cells(state))
    return found


def cells(state: State) -> tuple[str, ...]:
    """What `_COLUMNS` say of a moment of a job."""
    values = (state.inputs, state.outputs, state.duplicates, state.lost, state.kills)
    return tuple("-" if value is None else f"{value:,}" for value in values)


class _Display:
    """A progress bar on standard error, with a line of its own for each event.

    Below the bar is a table if there are several connectors.
    """

    def __init__(self, connectors: Sequence[Peer]) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._task = self._bar.add_task("", total=None)
        self._states = {each.name: State(0.0) for each in connectors}
        self._live = Live(get_renderable=self._view, console=messages)
        self._began = time.monotonic()

    def __enter__(self) -> _Display:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # The result has the table, too; an error has not.
        self._live.transient = kind is None and len(self._states) > 1
        self._live.stop()

    def phase(self, text: str) -> None:
        self._bar.update(self._task, description=text)
        if not messages.is_terminal:  # where there is no bar to read it from
            self.event(f"{text} ...")

    def progress(self, connector: str, state: State, total: int) -> None:
        self._bar.update(self._task, completed=state.inputs, total=total)
        self._states[connector] = state

    def event(self, text: str) -> None:
        elapsed = time.monotonic() - self._began
        messages.print(f"{elapsed:4.0f} s  {text}", markup=False)

    def _view(self) -> RenderableType:
        return Group(self._bar, table(self._states)) if len(self._states) > 1 else self._bar


def _both_as_json(outcomes: Sequence[Outcome]) -> dict[str, object]:
    ours = outcomes[-1]
    return {
        "exactly_once": ours.holds,
        "records": ours.report.inputs,
        "seed": ours.seed,
        "connectors": {
            each.connector: {
                **_as_json(each),
                "history": [
                    {**dataclasses.asdict(state), "seconds": round(state.seconds, 2)}
                    for state in each.history
                ],
            }
            for each in outcomes
        },
    }


def _as_json(outcome: Outcome) -> dict[str, object]:
    return {
        "exactly_once": outcome.holds,
        "verdict": outcome.verdict,
        "in": outcome.report.inputs,
        "out": outcome.report.outputs,
        **{fault.value: count for fault, count in outcome.report.faults.items()},
        "findings": [str(finding) for finding in outcome.report.findings],
        "shortcomings": outcome.shortcomings,
        "batches": outcome.batches,
        "seconds": round(outcome.seconds, 1),
        "seed": outcome.seed,
        "kills": [
            {
                "victim": kill.victim,
                "pids": list(kill.pids),
                "after_batches": kill.batches,
                "open_transactions": list(kill.unfinished.transactions),
                "records_written": kill.unfinished.records,
            }
            for kill in outcome.kills
        ],
    }
