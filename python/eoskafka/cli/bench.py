"""`eoskafka bench ...`: the connector against its peers."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from eoskafka.audit import UndecidedError
from eoskafka.cli.output import Exit, Format, data, messages, print_json
from eoskafka.errors import ConfigurationError

if TYPE_CHECKING:
    from eoskafka.bench.report import Report
    from eoskafka.bench.throughput import Run

app = typer.Typer(
    help="Benchmarks against other Kafka connectors, on a broker of their own.",
    epilog="Example: eoskafka bench throughput --rounds 3",
    no_args_is_help=True,
)

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
    output: Annotated[Format, typer.Option("--format", help="Form of the output.")] = Format.TEXT,
    file: Annotated[
        Path | None,
        typer.Option("--output", help="Write the result to this file too.", dir_okay=False),
    ] = None,
) -> None:
    """Rows per second from topic to topic, against Spark's built-in connector.

    Ends with 1 if a run lost, doubled or altered a record: such a run has no time.
    """
    _require_extras()
    from eoskafka.bench.report import Report
    from eoskafka.bench.throughput import Settings, measure

    signal.signal(signal.SIGTERM, _interrupt)
    settings = Settings(records, record_bytes, partitions, rounds, keyed)
    try:
        report = Report(measure(settings, _Messages()))
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


class _Messages:
    """Tells on standard error what happens."""

    def phase(self, text: str) -> None:
        messages.print(f"{text} ...", markup=False)

    def ran(self, run: Run) -> None:
        from eoskafka.bench.report import describe

        messages.print(describe(run), markup=False)


def _print_text(report: Report, console: Console) -> None:
    console.print(report.heading())
    console.print(report.table())
    for line in report.lines():
        console.print(line, markup=False)


def _write(report: Report, output: Format, file: Path) -> None:
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
