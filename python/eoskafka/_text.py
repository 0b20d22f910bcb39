"""Text that others have chosen, for a terminal."""

from __future__ import annotations

from rich.text import Text


def printable(text: str) -> Text:
    """The text as it is: no markup is interpreted, and unprintable characters are escaped."""
    return Text("".join(c if c.isprintable() else repr(c)[1:-1] for c in text))
