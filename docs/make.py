"""Writes the generated pages, and the generated parts of others: `make docs`.

`--check` writes nothing and fails if one of them is stale: `make check`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import make_api
import make_benchmarks
import make_cli
import make_compatibility
import make_costs
import make_dependencies
import make_errors
import make_log_ins
import make_options
import make_rights

ROOT = Path(__file__).parent.parent

WHOLE: dict[Path, Callable[[], str]] = {
    module.TARGET: module.text
    for module in (
        make_api,
        make_cli,
        make_compatibility,
        make_dependencies,
        make_errors,
        make_options,
    )
}
# What stands between two comments of a page is replaced.
PARTS: dict[str, Callable[[], str]] = {
    "compatibility": make_compatibility.table,
    "summary": make_benchmarks.summary,
    "overview": make_benchmarks.overview,
    "details": make_benchmarks.details,
    "costs": make_costs.table,
    "rights": make_rights.table,
    "log-ins": make_log_ins.table,
}
_PART = "<!-- {name}: made by make docs -->"


def filled(page: str) -> str:
    """A page with its parts replaced."""
    for name, part in PARTS.items():
        begin, end = _PART.format(name=name), _PART.format(name=f"end of {name}")
        if begin in page:
            pattern = re.escape(begin) + ".*" + re.escape(end)
            new = f"{begin}\n\n{part()}\n\n{end}"
            page = re.sub(pattern, lambda _, text=new: text, page, flags=re.DOTALL)
    return page


def pages() -> dict[Path, str]:
    """Each page that is generated, or has a part that is, as it should be."""
    found = {path: text() for path, text in WHOLE.items()}
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        if path not in found:
            text = path.read_text(encoding="utf-8")
            if any(_PART.format(name=name) in text for name in PARTS):
                found[path] = filled(text)
    return found


def stale() -> list[Path]:
    """The pages that are not as they should be."""
    return [
        path
        for path, text in pages().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]


def main() -> None:
    """Write the pages and the plots, or check the pages."""
    if "--check" in sys.argv[1:]:
        if found := stale():
            names = ", ".join(str(path.relative_to(ROOT)) for path in found)
            raise SystemExit(f"stale: {names}; run make docs")
        return
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    make_benchmarks.draw_plots()


if __name__ == "__main__":
    main()
