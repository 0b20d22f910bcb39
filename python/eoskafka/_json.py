"""JSON as the connector reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

# Jackson refuses a number with more digits; Python alone would read up to 4,300.
_MOST_DIGITS = 1_000


def parse(text: str | bytes, number: Callable[[str], object] = float) -> Any:
    """The value of a JSON text.

    Args:
        number: converts the text of a number that is not an integer.

    Raises:
        ValueError: the text is not JSON. Python's own parser would accept `NaN`, and would raise
            RecursionError for a text that is nested too deeply.
    """
    try:
        return json.loads(
            text,
            parse_constant=_refuse,
            parse_int=lambda text: int(_short(text)),
            parse_float=lambda text: number(_short(text)),
        )
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _short(text: str) -> str:
    if sum(map(str.isdigit, text)) > _MOST_DIGITS:
        raise ValueError(f"it has a number of more than {_MOST_DIGITS:,} digits")
    return text


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
