"""`eoskafka demo`: kills a job again and again, and proves that each record took effect once."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from eoskafka.audit import UndecidedError
from eoskafka.cli.output import Exit, Format, OutputFormat, data, messages, print_json
from eoskafka.demo import Outcome, Settings, run
from eoskafka.demo.records import FEWEST_RECORDS


def demo(
    input_file: Annotated[
        Path | None,
        typer.Option(
            "--input",
            help="A text file. Each of its lines is an input record.",
            show_default="source files of the installed libraries",
            exists=True,
            dir_okay=False,
            readable=True,
        ),
    ] = None,
    records: Annotated[
        int, typer.Option(help="The number of records, if there is no --input.", min=FEWEST_RECORDS)
    ] = 200_000,
    seed: Annotated[
        int | None,
        typer.Option(
            help="It determines which processes are killed, and when.", show_default="a random one"
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the logs, the checkpoint and the topics.")
    ] = False,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Kill a job repeatedly, and check that each record took effect exactly once.

    The demo starts a Kafka broker, runs a Spark job that reads and writes Kafka, kills executors
    and the driver while their transactions are open, and compares the output with the input.
    """
    chosen = random.SystemRandom().randrange(10**6) if seed is None else seed
    messages.print(f"seed {chosen}: --seed {chosen} repeats these kills in this order")
    try:
        with _Display() as display:
            outcome = run(Settings(input_file, records, chosen, keep), display)
    except UndecidedError as error:
        messages.print(f"undecided: {error}", markup=False)
        raise typer.Exit(Exit.UNREACHABLE) from error
    if output is Format.JSON:
        print_json(_as_json(outcome))
    else:
        for line in [*outcome.report.findings, *outcome.shortcomings, outcome.verdict]:
            data.print(str(line), markup=False)
    if not outcome.holds:
        raise typer.Exit(Exit.REFUSED)


class _Display:
    """A progress bar on standard error, with a line of its own for each event."""

    def __init__(self) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=messages,
        )
        self._task = self._bar.add_task("", total=None)
        self._began = time.monotonic()

    def __enter__(self) -> _Display:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def phase(self, text: str) -> None:
        self._bar.update(self._task, description=text)
        if not messages.is_terminal:  # where there is no bar to read it from
            self.event(f"{text} ...")

    def progress(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)

    def event(self, text: str) -> None:
        elapsed = time.monotonic() - self._began
        self._bar.console.print(f"{elapsed:4.0f} s  {text}", markup=False)


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
                "open_transactions": list(kill.transactions),
            }
            for kill in outcome.kills
        ],
    }
