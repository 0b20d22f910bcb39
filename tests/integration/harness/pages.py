"""What pages of documentation show."""

from __future__ import annotations

import re
from pathlib import Path

_PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def python_blocks(page: Path) -> list[str]:
    """The page's Python programs, in their order."""
    return _PYTHON.findall(page.read_text(encoding="utf-8"))
