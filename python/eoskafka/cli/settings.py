"""Client settings on the command line: `-X key=value`."""

from __future__ import annotations

import typer


def parse(items: list[str] | None) -> dict[str, str]:
    """The settings that `-X` gave, in the order given."""
    settings = {}
    for item in items or []:
        key, equals, value = item.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"'{item}' is not key=value", param_hint="-X")
        settings[key] = value
    return settings
