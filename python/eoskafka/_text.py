"""Text that others have chosen, for a terminal."""

from __future__ import annotations

from rich.text import Text


def printable(text: str) -> Text:
    """As it is: neither markup nor line ends nor what a terminal would obey."""
    return Text("".join(c if c.isprintable() else repr(c)[1:-1] for c in text))
