"""The compatibility table, from `compatibility.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("compatibility.json")


def supported() -> dict[str, Any]:
    """What a release runs with."""
    found = json.loads(SOURCE.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def table() -> str:
    """One row for each Spark version, with the brokers, which are the same for all."""
    brokers = supported()["brokers"]
    rows = [
        f"| {each['versions']} | {each['scala']} | {each['java']} | {each['python']} | "
        f"{brokers['from']} or newer (tested with {brokers['tested']}) | {each['status']} |"
        for each in supported()["spark"]
    ]
    return "\n".join(
        ["| Spark | Scala | Java | Python | Kafka brokers | |", "|---|---|---|---|---|---|", *rows]
    )
