"""How `eoskafka bench ...` runs a benchmark, and what it prints and writes in the end."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Generic, Protocol, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from eoskafka.audit import UndecidedError
from eoskafka.cli.output import Exit, Format, data, messages, print_json, require_plottable
from eoskafka.errors import ConfigurationError

Run = TypeVar("Run")

# Wide enough for the table, whatever the terminal.
_FILE_WIDTH = 100


class Report(Protocol):
    """What a benchmark says in the end."""

    @property
    def holds(self) -> bool: ...
    def heading(self) -> str: ...
    def table(self) -> Table: ...
    def lines(self) -> list[str]: ...
    def as_json(self) -> dict[str, object]: ...


def run(
    measured: Callable[[], Report], output: Format, file: Path | None, plot: Path | None = None
) -> None:
    """Print what a benchmark says, and end as it says."""
    signal.signal(signal.SIGTERM, _interrupt)
    if file is not None and not file.parent.is_dir():
        # Before, not after an hour.
        raise typer.BadParameter(f"there is no folder {file.parent}")
    if plot is not None:
        require_plottable(plot)
    try:
        report = measured()
    except UndecidedError as error:
        messages.print(f"undecided: {error}", markup=False)
        raise typer.Exit(Exit.UNREACHABLE) from error
    if output is Format.JSON:
        print_json(report.as_json())
    else:
        wide = Console(highlight=False, width=_FILE_WIDTH)
        _print_text(report, data if data.is_terminal else wide)
    if file is not None:
        _write(report, output, file)
    if plot is not None:
        from eoskafka.bench.plots import draw

        draw(report.as_json(), plot)
    if not report.holds:
        raise typer.Exit(Exit.REFUSED)


class Messages(Generic[Run]):
    """Tells on standard error what happens."""

    def __init__(self, describe: Callable[[Run], str]) -> None:
        self._describe = describe

    def phase(self, text: str) -> None:
        messages.print(f"{text} ...", markup=False)

    def ran(self, run: Run) -> None:
        messages.print(self._describe(run), markup=False)


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


def require_extras() -> None:
    """ConfigurationError unless everything is installed that a benchmark needs."""
    try:
        import confluent_kafka  # noqa: F401
        import matplotlib  # noqa: F401
        import numpy  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            f"{error.name} is not installed, and benchmarks need it: pip install 'eoskafka[bench]'"
        ) from error


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End as with Ctrl-C, so that everything is cleaned up."""
    raise KeyboardInterrupt
