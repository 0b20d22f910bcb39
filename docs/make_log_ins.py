"""Makes the table of log-ins in security.md from log-ins.json: `make docs`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("log-ins.json")


def log_ins() -> list[dict[str, Any]]:
    """Each log-in with the kinds that tests have of it."""
    found: list[dict[str, Any]] = json.loads(SOURCE.read_text(encoding="utf-8"))["log_ins"]
    return found


def table() -> str:
    """Each log-in, and whether the commands have it."""
    rows = [
        "| log-in | queries in task scope, epoch scope and real-time mode, and batch jobs | commands |",
        "|---|---|---|",
    ]
    rows += [f"| {each['log_in']} | yes | {each['commands']} |" for each in log_ins()]
    return "\n".join(rows)
