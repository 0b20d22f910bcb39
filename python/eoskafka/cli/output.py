"""What the commands print, and how they end."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

# Both respect NO_COLOR and print plain text into a pipe.
data = Console(soft_wrap=True, highlight=False)
messages = Console(stderr=True, soft_wrap=True, highlight=False)


class Exit(enum.IntEnum):
    """Exit codes, the same for every command (2, usage, is typer's own)."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    UNREACHABLE = 3


class Format(str, enum.Enum):
    """Values of `--format`."""

    TEXT = "text"
    JSON = "json"


# The option of every command that prints data.
OutputFormat = Annotated[
    Format, typer.Option("--format", help="Print text for people, or one JSON object.")
]


def require_plottable(plot: Path) -> None:
    """Refuse a file that no plot can be drawn into: before anything is run, not after it."""
    if not plot.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {plot.parent}", param_hint="--plot")
    if plot.suffix not in (".png", ".svg", ".pdf"):
        raise typer.BadParameter(f"'{plot}' must end in .png, .svg or .pdf", param_hint="--plot")


def print_table(table: Table) -> None:
    """A table on standard output; into a pipe its lines are as long as they are."""
    console = data if data.is_terminal else Console(highlight=False, width=1_000)
    console.print(table)


def print_json(value: Mapping[str, object]) -> None:
    """One JSON object on standard output, without wrapping or colour."""
    print(json.dumps(value, indent=2))
