"""What an examination returns."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Level(str, enum.Enum):
    """What a finding means."""

    FINE = "fine"
    NOTE = "note"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        about: what was checked.
        level: `NOTE` if it works but could be better, `PROBLEM` if the connector does not work
            like this.
        found: the present state.
        advice: what to do; empty if there is nothing to do.
    """

    about: str
    level: Level
    found: str
    advice: str = ""


def minor(version: str) -> str:
    """`4.1` of `4.1.4`, for advice."""
    return ".".join(version.split(".")[:2])
