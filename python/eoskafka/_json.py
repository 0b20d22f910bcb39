"""JSON as the connector reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn


def parse(text: str | bytes, number: Callable[[str], object] = float) -> Any:
    """A JSON text's value.

    Args:
        number: what is made of a number that is no integer.

    Raises:
        ValueError: it is none. Python alone would take `NaN` and raise RecursionError for one that
            is nested too deeply.
    """
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=number)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
