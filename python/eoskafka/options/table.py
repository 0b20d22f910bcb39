"""The table of options that the connector reads too (`spec/options.json`)."""

from __future__ import annotations

from functools import cache
from typing import Any

from eoskafka import _spec
from eoskafka.errors import ConfigurationError


@cache
def table() -> dict[str, dict[str, Any]]:
    """The options by their names in small letters."""
    return {option["name"].lower(): option for option in _spec.read("options.json")["options"]}


@cache
def spark_own() -> frozenset[str]:
    """What Spark itself reads of a source's or a sink's options."""
    return frozenset(name.lower() for name in _spec.read("options.json")["spark"])


def option_error(condition: str, **values: object) -> ConfigurationError:
    """The connector's error of this condition, with these values in its message."""
    message = _spec.conditions()[condition]["message"]
    for name, value in values.items():
        message = message.replace(f"<{name}>", str(value))
    return ConfigurationError(f"[{condition}] {message}", condition)
