"""`eoskafka bench ...`: the connector against its peers."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated, Generic, Protocol, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from eoskafka.audit import UndecidedError
from eoskafka.cli.output import Exit, Format, OutputFormat, data, messages, print_json
from eoskafka.errors import ConfigurationError

Run = TypeVar("Run")

app = typer.Typer(
    help="Benchmarks against other Kafka connectors, on a broker of their own.",
    epilog="Example: eoskafka bench throughput --rounds 3",
    no_args_is_help=True,
)

OutputFile = Annotated[
    Path | None,
    typer.Option("--output", help="Write the result to this file too.", dir_okay=False),
]

# Wide enough for the table, whatever the terminal.
_FILE_WIDTH = 100


@app.callback()
def group() -> None:
    """Benchmarks against other Kafka connectors, on a broker of their own."""


@app.command(epilog="Example: eoskafka bench throughput --records 1000000 --output result.json")
def throughput(
    records: Annotated[int, typer.Option(help="Input records.", min=1)] = 4_000_000,
    record_bytes: Annotated[int, typer.Option(help="Bytes of each value.", min=8)] = 100,
    partitions: Annotated[int, typer.Option(help="Of input and output topics.", min=1)] = 8,
    rounds: Annotated[int, typer.Option(help="Timed runs of each peer.", min=1)] = 5,
    keyed: Annotated[bool, typer.Option("--keyed", help="Give records keys of 8 bytes.")] = False,
    output: OutputFormat = Format.TEXT,
    file: OutputFile = None,
) -> None:
    """Rows per second from topic to topic, against Spark's built-in connector.

    Ends with 1 if a run lost, doubled or altered a record: such a run has no time.
    """
    _require_extras()
    from eoskafka.bench.report import Report, describe
    from eoskafka.bench.throughput import Settings, measure

    settings = Settings(records, record_bytes, partitions, rounds, keyed)
    _report(lambda: Report(measure(settings, _Messages(describe))), output, file)


@app.command(epilog="Example: eoskafka bench epoch --rounds 3 --output result.json --format json")
def epoch(
    batch_records: Annotated[
        int, typer.Option(help="Input records of a batch of windows.", min=8_000)
    ] = 200_000,
    batches: Annotated[int, typer.Option(help="Of a query; the first is not timed.", min=2)] = 8,
    shuffle_partitions: Annotated[
        int, typer.Option(help="Writers of a batch of windows.", min=1)
    ] = 8,
    writers: Annotated[
        int, typer.Option(help="Writers of a batch of the other plan.", min=1)
    ] = 200,
    rounds: Annotated[int, typer.Option(help="Timed runs.", min=1)] = 5,
    output: OutputFormat = Format.TEXT,
    file: OutputFile = None,
) -> None:
    """Batch time of a windowed aggregation against the built-in connector, and the commit of an
    epoch of very many writers.

    Ends with 1 if a run lost, doubled or altered something: such a run has no time.
    """
    _require_extras()
    from eoskafka.bench.epoch import Settings, measure
    from eoskafka.bench.epoch_report import EpochReport, describe

    if batch_records % 8_000:
        raise typer.BadParameter("must be a multiple of 8,000", param_hint="--batch-records")
    settings = Settings(batch_records, batches, shuffle_partitions, writers, rounds)
    _report(lambda: EpochReport(measure(settings, _Messages(describe))), output, file)


def _report(measured: Callable[[], _Report], output: Format, file: Path | None) -> None:
    """Print what a benchmark says, and end as it says."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        report = measured()
    except UndecidedError as error:
        messages.print(f"undecided: {error}", markup=False)
        raise typer.Exit(Exit.UNREACHABLE) from error
    if output is Format.JSON:
        print_json(report.as_json())
    else:
        _print_text(report, data)
    if file is not None:
        _write(report, output, file)
    if not report.holds:
        raise typer.Exit(Exit.REFUSED)


class _Report(Protocol):
    """What a benchmark says in the end."""

    @property
    def holds(self) -> bool: ...
    def heading(self) -> str: ...
    def table(self) -> Table: ...
    def lines(self) -> list[str]: ...
    def as_json(self) -> dict[str, object]: ...


class _Messages(Generic[Run]):
    """Tells on standard error what happens."""

    def __init__(self, describe: Callable[[Run], str]) -> None:
        self._describe = describe

    def phase(self, text: str) -> None:
        messages.print(f"{text} ...", markup=False)

    def ran(self, run: Run) -> None:
        messages.print(self._describe(run), markup=False)


def _print_text(report: _Report, console: Console) -> None:
    console.print(report.heading())
    console.print(report.table())
    for line in report.lines():
        console.print(line, markup=False)


def _write(report: _Report, output: Format, file: Path) -> None:
    with file.open("w", encoding="utf-8") as out:
        if output is Format.JSON:
            json.dump(report.as_json(), out, indent=2)
            out.write("\n")
        else:
            _print_text(report, Console(file=out, width=_FILE_WIDTH, highlight=False))


def _require_extras() -> None:
    try:
        import confluent_kafka  # noqa: F401
        import numpy  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            f"{error.name} is not installed, and benchmarks need it: "
            "pip install 'eoskafka[local,verify]'"
        ) from error


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End as with Ctrl-C, so that everything is cleaned up."""
    raise KeyboardInterrupt
