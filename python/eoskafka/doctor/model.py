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
    """One thing that was looked at.

    Attributes:
        about: what was.
        level: `NOTE` if it works and could be better, `PROBLEM` if the connector does not work so.
        found: what there is.
        advice: what to do; empty where nothing is.
    """

    about: str
    level: Level
    found: str
    advice: str = ""


def minor(version: str) -> str:
    """`4.1` of `4.1.4`, for advice."""
    return ".".join(version.split(".")[:2])
