"""Waiting on a condition with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_POLL_S = 0.05


def until(
    condition: Callable[[], T | None], what: str, timeout_s: float, also: Callable[[], str] = str
) -> T:
    """Wait until `condition` is true and return its value.

    Args:
        condition: called again and again; anything false means "not yet".
        what: what is waited for, for the error.
        timeout_s: seconds.
        also: what else to say if it never comes.

    Raises:
        TimeoutError: it did not come in time.
    """
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s. {also()}")
        time.sleep(_POLL_S)
    return value
