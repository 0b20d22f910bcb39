"""The tables that Java and Python share, in `spec/`."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def read(name: str) -> dict[str, Any]:
    """A table by its file's name."""
    found = json.loads(files("eoskafka").joinpath(f"spec/{name}").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def conditions() -> dict[str, dict[str, str]]:
    """Every error condition: its message, and its class in `eoskafka.errors`."""
    found = read("errors.json")["conditions"]
    assert isinstance(found, dict)
    return found
