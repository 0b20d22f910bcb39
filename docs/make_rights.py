"""Makes the table of rights in security.md from rights.json: `make docs`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("rights.json")


def lists() -> list[dict[str, Any]]:
    """The lists, each with the scripts of conf/ that grant it."""
    found: list[dict[str, Any]] = json.loads(SOURCE.read_text(encoding="utf-8"))["lists"]
    return found


def table() -> str:
    """Each right, what happens without it, and for what that is so."""
    uses: dict[tuple[str, str], list[str]] = {}
    for each in lists():
        for right in each["rights"]:
            uses.setdefault((right["right"], _effect(right)), []).append(each["for"])
    rows = ["| without the right | what happens | for |", "|---|---|---|"]
    for (right, effect), names in uses.items():
        rows.append(f"| {_code(right)} | {_code(effect)} | {_code('; '.join(names))} |")
    return "\n".join(rows)


def _effect(right: dict[str, Any]) -> str:
    if "exit" in right:
        return f"`{right['command']}` ends with {right['exit']}: *... {right['says']} ...*"
    if "condition" not in right:
        return f"The query runs more cautiously. Its log says: *{right['says']} ...*"
    when = " (from the second start on)" if "restart" in right else ""
    return f"{right['condition']}{when}: *This user {right['says']} ...*"


def _code(text: str) -> str:
    """Names of variables and conditions as code."""
    return re.sub(r"\b(EOSKAFKA_[A-Z_]+|[A-Z]{4,}(?:_[A-Z]+)*-?|__[a-z_]+)\b", r"`\1`", text)
