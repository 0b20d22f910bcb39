"""Makes api.md from the docstrings of what is public in Python: `make docs`.

The page has one line for each name. The site has the whole docstrings in addition: a comment says
where, and `web/staging.py` turns it into a directive of Sphinx.
"""

from __future__ import annotations

import inspect
import pkgutil
from pathlib import Path
from typing import Any

import eoskafka
from eoskafka import errors, schemas

TARGET = Path(__file__).with_name("api.md")

_HEAD = """\
# Python API

Made from the docstrings by `make docs`; do not edit.

This page lists the public names of the package `eoskafka`; [versioning.md](versioning.md) explains how they may
change. In Python, `help(eoskafka.configure)`, for example, prints the full description of a name. On the web
site that `make site` builds, this page contains the full description of each name.
"""

_CHAPTERS = {
    "Sessions": [
        "eoskafka.configure",
        "eoskafka.check",
        "eoskafka.jar_path",
        "eoskafka.real_time_trigger",
    ],
    "Sources and sinks": ["eoskafka.Source", "eoskafka.Sink"],
    "Dead letters": ["eoskafka.with_dead_letters", "eoskafka.guard"],
    "Schemas": [f"eoskafka.schemas.{name}" for name in schemas.__all__],
    "Metrics": [
        "eoskafka.metrics.export",
        "eoskafka.metrics.instrument",
        "eoskafka.metrics.live",
    ],
}


def text() -> str:
    """The whole page."""
    chapters = {**_CHAPTERS, "Errors": ["eoskafka.error_of", *_errors()]}
    listed = {name for names in chapters.values() for name in names}
    public = {f"eoskafka.{name}" for name in eoskafka.__all__ if name != "__version__"}
    if missing := public - listed:
        raise ValueError(f"public names that are in no chapter of api.md: {sorted(missing)}")
    return _HEAD + "".join(_chapter(title, names) for title, names in chapters.items())


def _errors() -> list[str]:
    """The classes, the base class first."""
    found = sorted(errors.__all__, key=lambda name: (len(getattr(errors, name).__mro__), name))
    return [f"eoskafka.{'' if name in eoskafka.__all__ else 'errors.'}{name}" for name in found]


def _chapter(title: str, names: list[str]) -> str:
    rows, directives = [], []
    for name in names:
        of: Any = pkgutil.resolve_name(name)
        if not inspect.isclass(of):
            kind, after = "function", "()"
        else:
            kind, after = "exception" if issubclass(of, Exception) else "class", ""
        rows.append(f"| `{name.removeprefix('eoskafka.')}{after}` | {_summary(of)} |\n")
        directives.append(f"<!-- site: auto{kind} {name} -->\n")
    table = "| name | what it is |\n|---|---|\n" + "".join(rows)
    return f"\n## {title}\n\n{table}\n" + "\n".join(directives)


def _summary(of: Any) -> str:
    """The first paragraph of a docstring, which is one sentence."""
    return (inspect.getdoc(of) or "").partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
